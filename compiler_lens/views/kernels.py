"""Every kernel, and where it comes from.

`_COLUMNS` is what is said of a kernel: a row of a table, or an entry of figures where names have to stand whole.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.kernels.kernels import Costs, KernelFacts, KernelRow, by_kernel, kernel_rows
from compiler_lens.facts.kernels.launch_work import Traffic
from compiler_lens.facts.kernels.library_calls import Help, computed_ops, helps
from compiler_lens.facts.kernels.lineage import Lineage, is_generated, is_view
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.roofline import GroupCost
from compiler_lens.facts.overview.line_story import selected
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.ids import KernelId, LaunchId
from compiler_lens.recording.model import Kernel, Recording, Trust
from compiler_lens.views import words
from compiler_lens.views.document import (
    Block,
    Column,
    Command,
    Document,
    Gap,
    Lead,
    Paragraph,
    Section,
    Table,
    line,
    paragraph,
)
from compiler_lens.views.lineage import first, lines_of, modules_text
from compiler_lens.views.parts import (
    Cell,
    Compiled,
    Figure,
    KernelName,
    Kind,
    Part,
    Parts,
    Places,
    Stacked,
    Tone,
    code,
    quiet,
    sequence,
)
from compiler_lens.views.profile import bound_words, head, saving
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import joined, microseconds, number, plural, times

_OPS = 6  # of a kernel, in a table
_IDS = 3
_SAME = 6

Helps = Mapping[LaunchId | KernelId, Help]


class Data(Struct, frozen=True):
    """The kernels of a recording, those first that take longest, or else that fuse most."""

    kernels: tuple[KernelFacts, ...]
    times_are_usable: bool


class _Row(Struct, frozen=True):
    """A kernel, or several that compute the same."""

    row: KernelRow
    cost: GroupCost | None  # where it was measured, and times are usable
    helped: Help | None

    @property
    def kernel(self) -> Kernel:
        return self.row.group.first

    @property
    def facts(self) -> KernelFacts:
        return self.row.facts


class _In(Enum):
    """Where a column stands."""

    BOTH = "both"
    TABLE = "table"
    ENTRY = "entry"


class _Column(Struct, frozen=True):
    look: Column
    cell: Callable[[_Row], Cell]
    noun: str = ""  # what it counts, in an entry
    nouns: str = ""  # of several
    stands: _In = _In.BOTH


def document(recording: Recording, selection: Selection) -> Document:
    """Return the kernels: the slowest first, if that was measured, else the one that fuses most."""
    provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
    costs = Costs.of(recording)
    lineages = selected(recording, provenance, selection)
    if not lineages:
        return Document((line("No kernels."),), Data((), costs.is_usable), count=0)
    helping = helps(provenance.lineages)
    rows = [
        _Row(row, cost_of(row, costs), help_of(row.lineages, helping))
        for row in kernel_rows(lineages, costs, folded=not selection.folds_nothing)
    ]
    kernels = [kernel for one in rows for kernel in one.row.group.kernels]
    launches = plural(sum(one.row.launches for one in rows), "launch", "launches")
    summary = f"{number(len(kernels))} with {launches}: {words.kind_counts(kernels)}"
    blocks: tuple[Block, ...] = (*_measured(recording, rows, costs), *_doubt(kernels))
    if selection.folds_nothing:
        lead = head(recording)
        blocks = (*blocks, *((Lead(lead),) if lead else ()), _table(rows))
    else:
        blocks = (*blocks, *(block for one in rows for block in _entry(one)), Gap(), _one_of_them(rows[0].kernel))
    each = tuple(KernelFacts.of(own, costs) for one in rows for own in by_kernel(one.row.lineages))
    return Document((Section("Kernels", blocks, summary),), Data(each, costs.is_usable), count=len(kernels))


def cost_of(row: KernelRow, costs: Costs) -> GroupCost | None:
    """Return what kernels took and why; None where that is not known, or times are not usable."""
    launches = costs.launches(row.lineages) if costs.is_usable else ()
    return GroupCost(row.group, launches) if launches else None


def help_of(lineages: Sequence[Lineage], helping: Helps) -> Help | None:
    """Return what the first launch that does something for a library does."""
    return next((helping[one.id] for one in lineages if one.id in helping), None)


def help_words(helped: Help) -> str:
    """Return what a launch does for an op that a library computes after it."""
    if helped.whole:
        return f"copies what {helped.call.name} reads into the layout that it wants"
    return f"also makes ready what {helped.call.name} reads"


def moved(traffic: Traffic | None) -> Figure | None:
    """Return the memory that is read and written."""
    return Figure(traffic.bytes, Kind.BYTES, about=traffic.trust is not Trust.EXACT) if traffic else None


def _one_of_them(kernel: Kernel) -> Command:
    return Command("one of them: ", f"kernel {kernel.name}")


def _measured(recording: Recording, rows: Sequence[_Row], costs: Costs) -> tuple[Paragraph, ...]:
    """What was measured of them together."""
    known = [one.facts.microseconds for one in rows if one.facts.microseconds is not None]
    if not known:
        return ()
    busy = microseconds(recording.profiles[-1].busy_microseconds)
    told = f"{microseconds(sum(known))} of the {busy} that the device works in a call"
    doubt = () if costs.is_usable else (paragraph(UNUSABLE, indent=2, tone=Tone.WARN),)
    return (paragraph(told, indent=2, tone=Tone.QUIET, limit=1), *doubt)


def _doubt(kernels: Sequence[Kernel]) -> tuple[Paragraph, ...]:
    """A word on what is fused, where only the generated code says it: a TORCH_TRACE log, a foreign cache."""
    doubtful = sum(kernel.trust is Trust.TEXT for kernel in kernels)
    if not doubtful:
        return ()
    whose = "their ops" if doubtful == sum(bool(kernel.nodes) for kernel in kernels) else f"the ops of {doubtful:,}"
    return (paragraph(f"{whose} are {words.TRUST[Trust.TEXT]}", indent=2, tone=Tone.QUIET),)


# -- what is said of a kernel


def _name(one: _Row) -> Cell:
    """Its name; beneath, the first ops that it computes. It is found by all of them."""
    fused = [(op, n) for op, n in one.row.group.fused if not is_view(op)]
    called = () if is_generated(one.kernel) else computed_ops(one.row.lineages)
    own = [(op, 1) for op in called] or fused or one.row.group.fused
    names = [f"{words.op_name(op)} {times(n)}" if n > 1 else words.op_name(op) for op, n in own]
    return Stacked(KernelName(one.kernel.name, one.row.lineages[0].index), first(names, _OPS), " ".join(names))


def _saving(one: _Row) -> Cell:
    return Stacked(saving(one.cost), bound_words(one.cost)) if one.cost else None


def _moved(one: _Row) -> Cell:
    flops = None if one.facts.flops is None else Figure(one.facts.flops, Kind.FLOPS)
    return Stacked(moved(one.facts.traffic), flops)


def _places(one: _Row) -> Cell:
    return Stacked(Places(lines_of(one.row.lineages)), modules_text(one.facts.modules))


def _doubtful(one: _Row) -> Cell:
    return "approximate" if any(kernel.trust is Trust.TEXT for kernel in one.row.group.kernels) else None


_COLUMNS = (
    _Column(Column("kernel", beneath="computes"), _name, stands=_In.TABLE),
    _Column(Column("id", choice=True), lambda one: Compiled(one.kernel.compile_id), stands=_In.TABLE),
    _Column(Column("pass", choice=True), lambda one: words.PASSES[one.kernel.direction], stands=_In.TABLE),
    _Column(Column("time", Kind.MICROSECONDS), lambda one: one.facts.microseconds),
    _Column(Column("possible saving", Kind.MICROSECONDS, beneath="bound by"), _saving, stands=_In.TABLE),
    _Column(Column("kind", choice=True), lambda one: words.kernel_kind(one.kernel)),
    _Column(Column("ops", Kind.COUNT), lambda one: one.facts.ops, "op", "ops"),
    _Column(Column("launches", Kind.COUNT), lambda one: one.row.launches, "launch", "launches"),
    _Column(Column("moves", Kind.BYTES, beneath="multiplies"), _moved),
    _Column(Column("lines", beneath="modules"), _places, stands=_In.TABLE),
    _Column(Column("ops are known"), _doubtful, stands=_In.ENTRY),
)


def _table(rows: Sequence[_Row]) -> Table:
    columns = [one for one in _COLUMNS if one.stands is not _In.ENTRY]
    cells = tuple(tuple(column.cell(one) for column in columns) for one in rows)
    return Table(tuple(column.look for column in columns), cells, title="Kernels")


# -- an entry


def _entry(one: _Row) -> tuple[Block, ...]:
    """A name must stand there whole, to be asked for."""
    kernels = one.row.group.kernels
    several = f"  {times(len(kernels))}" if len(kernels) > 1 else ""
    name = line(KernelName(one.kernel.name, one.row.lineages[0].index), quiet(several), indent=2, whole=True)
    return (name, _figures(one), *_comes_from(one))


def _figures(one: _Row) -> Paragraph:
    ids = [f"[{compile_id}]" for compile_id in dict.fromkeys(k.compile_id for k in one.row.group.kernels)]
    figures = [part for column in _COLUMNS if column.stands is not _In.TABLE for part in _said(column, one)]
    known = quiet(f"{joined(ids, _IDS)} {words.PASSES[one.kernel.direction]}  ")
    return paragraph(known, *sequence(figures), indent=6, limit=2)


def _said(column: _Column, one: _Row) -> list[Part]:
    """What a column says of a kernel, without its heading."""
    cell = column.cell(one)
    parts: list[Cell] = [cell.upper, cell.beneath] if isinstance(cell, Stacked) else [cell]
    said: list[Part] = []
    for part in parts:
        if isinstance(part, (int, float)) and column.noun:
            said.append(plural(int(part), column.noun, column.nouns))
        elif isinstance(part, (int, float)):
            said.append(Figure(part, column.look.kind))
        elif part is not None and not isinstance(part, (tuple, Stacked)):
            said.append(part)
    return said


def _comes_from(one: _Row) -> list[Block]:
    """The lines and modules that it is for, then its ops; then the others that compute the same."""
    modules = modules_text(one.facts.modules)
    lines = lines_of(one.row.lineages)
    where: Parts = (Places(lines, tone=Tone.STRONG),) if lines else ()
    where = (*where, f" of {modules}") if modules else where
    computed = () if is_generated(one.kernel) else computed_ops(one.row.lineages)
    ops = ", ".join(words.op_name(op) for op in computed or one.kernel.aten)
    helped = f": {help_words(one.helped)}" if one.helped else ""
    blocks: list[Block] = []
    if where or ops or helped:
        room = "  " if where and ops else ""
        blocks.append(paragraph(*where, room, code(ops), helped, indent=6, limit=3 if helped else 2))
    same = list(dict.fromkeys(k.name for k in one.row.group.kernels if k.name != one.kernel.name))
    if same:
        blocks.append(paragraph(quiet("the same: "), joined(same, _SAME), indent=6, limit=2))
    return blocks
