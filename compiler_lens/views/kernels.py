"""Every kernel, and where it comes from: rows of a table, or entries of figures where names have to stand whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.kernels import Costs, KernelFacts, KernelRow, by_kernel, kernel_rows
from compiler_lens.facts.kernels.launch_work import Traffic
from compiler_lens.facts.kernels.library_calls import Help, computed_ops, helps
from compiler_lens.facts.kernels.lineage import Lineage, is_generated, is_view
from compiler_lens.facts.kernels.roofline import GroupCost
from compiler_lens.facts.overview.line_story import selected
from compiler_lens.facts.overview.shared import costs_of, provenance_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.ids import KernelId, LaunchId
from compiler_lens.recording.model import Recording, Trust
from compiler_lens.views import document as doc
from compiler_lens.views import parts, words
from compiler_lens.views.lineage import first, lines_of, modules_text
from compiler_lens.views.parts import Figure, KernelName, Kind, Places, Stacked, Tone, quiet
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


def document(recording: Recording, selection: Selection) -> doc.Document:
    """Return the kernels: the slowest first, if that was measured, else the one that fuses most."""
    provenance, costs = provenance_of(recording, selection), costs_of(recording, selection)
    lineages = selected(recording, provenance, selection)
    if not lineages:
        return doc.Document((doc.line("No kernels."),), Data((), costs.is_usable), count=0)
    rows = kernel_rows(lineages, costs, folded=not selection.for_page)
    kernels = [kernel for row in rows for kernel in row.group.kernels]
    launches = plural(sum(row.launches for row in rows), "launch", "launches")
    summary = f"{number(len(kernels))} with {launches}: {words.kind_counts(kernels)}"
    blocks: list[doc.Block] = [*_remarks(recording, rows, costs)]
    if selection.for_page:
        lead = head(recording)
        blocks += [doc.Lead(lead)] if lead else []
        blocks.append(_table(rows, costs))
    else:
        helping = helps(provenance.lineages)
        for row in rows:
            blocks += _entry(row, help_words(row.lineages, helping))
        blocks += [doc.Gap(), doc.Command("one of them: ", f"kernel {kernels[0].name}")]
    each = tuple(KernelFacts.of(own, costs) for row in rows for own in by_kernel(row.lineages))
    section = doc.Section("Kernels", tuple(blocks), summary)
    return doc.Document((section,), Data(each, costs.is_usable), count=len(kernels))


def help_words(lineages: Sequence[Lineage], helping: Helps) -> str:
    """Return what the first launch that helps a library does for its op; empty where none does."""
    helped = next((helping[one.id] for one in lineages if one.id in helping), None)
    if helped is None:
        return ""
    if helped.whole:
        return f"copies what {helped.call.name} reads into the layout that it wants"
    return f"also makes ready what {helped.call.name} reads"


def moved(traffic: Traffic | None) -> Figure | None:
    """Return the memory that is read and written."""
    return Figure(traffic.bytes, Kind.BYTES, about=traffic.trust is not Trust.EXACT) if traffic else None


def _remarks(recording: Recording, rows: Sequence[KernelRow], costs: Costs) -> Iterator[doc.Paragraph]:
    """What was measured of them together, and how what is fused is known."""
    known = [row.facts.microseconds for row in rows if row.facts.microseconds is not None]
    if known:
        busy = microseconds(recording.profiles[-1].busy_microseconds)
        told = f"{microseconds(sum(known))} of the {busy} that the device works in a call"
        yield doc.paragraph(told, indent=2, tone=Tone.QUIET, limit=1)
        if not costs.is_usable:
            yield doc.paragraph(UNUSABLE, indent=2, tone=Tone.WARN)
    kernels = [kernel for row in rows for kernel in row.group.kernels]
    doubtful = sum(kernel.trust is Trust.TEXT for kernel in kernels)
    if doubtful:  # only the generated code says it: a TORCH_TRACE log, a foreign cache
        is_all = doubtful == sum(bool(kernel.nodes) for kernel in kernels)
        whose = "their ops" if is_all else f"the ops of {doubtful:,}"
        yield doc.paragraph(f"{whose} are {words.TRUST[Trust.TEXT]}", indent=2, tone=Tone.QUIET)


def _table(rows: Sequence[KernelRow], costs: Costs) -> doc.Table:
    columns = (
        doc.Column("kernel", beneath="computes"),
        doc.Column("id", choice=True),
        doc.Column("pass", choice=True),
        doc.Column("time", Kind.MICROSECONDS),
        doc.Column("possible saving", Kind.MICROSECONDS, beneath="bound by"),
        doc.Column("kind", choice=True),
        doc.Column("ops", Kind.COUNT),
        doc.Column("launches", Kind.COUNT),
        doc.Column("moves", Kind.BYTES, beneath="multiplies"),
        doc.Column("lines", beneath="modules"),
    )
    cells: list[tuple[parts.Cell, ...]] = []
    for row in rows:
        kernel, facts = row.group.first, row.facts
        called = () if is_generated(kernel) else computed_ops(row.lineages)
        fused = [(op, n) for op, n in row.group.fused if not is_view(op)] or row.group.fused
        named = [(op, 1) for op in called] or fused
        ops = [f"{words.op_name(op)} {times(n)}" if n > 1 else words.op_name(op) for op, n in named]
        launches = costs.launches(row.lineages) if costs.is_usable else ()
        cost = GroupCost.of(row.group, launches) if launches else None
        cells.append(
            (
                # It is found by all of its ops.
                Stacked(KernelName(kernel.name, row.lineages[0].index), first(ops, _OPS), " ".join(ops)),
                parts.Compiled(kernel.compile_id),
                words.PASSES[kernel.direction],
                facts.microseconds,
                Stacked(saving(cost), bound_words(cost)) if cost else None,
                words.kernel_kind(kernel),
                facts.ops,
                row.launches,
                Stacked(moved(facts.traffic), None if facts.flops is None else Figure(facts.flops, Kind.FLOPS)),
                Stacked(Places(lines_of(row.lineages)), modules_text(facts.modules)),
            )
        )
    return doc.Table(columns, tuple(cells), title="Kernels")


def _entry(row: KernelRow, helped: str) -> Iterator[doc.Block]:
    """A kernel whose name must stand there whole, to be asked for; then those that compute the same."""
    kernel, kernels, facts = row.group.first, row.group.kernels, row.facts
    several = f"  {times(len(kernels))}" if len(kernels) > 1 else ""
    yield doc.line(KernelName(kernel.name, row.lineages[0].index), quiet(several), indent=2, whole=True)
    ids = [f"[{compile_id}]" for compile_id in dict.fromkeys(each.compile_id for each in kernels)]
    figures = (
        None if facts.microseconds is None else Figure(facts.microseconds, Kind.MICROSECONDS),
        words.kernel_kind(kernel),
        plural(facts.ops, "op"),
        plural(row.launches, "launch", "launches"),
        moved(facts.traffic),
        None if facts.flops is None else Figure(facts.flops, Kind.FLOPS),
        "approximate" if any(each.trust is Trust.TEXT for each in kernels) else None,
    )
    known = parts.sequence([figure for figure in figures if figure is not None])
    yield doc.paragraph(quiet(f"{joined(ids, _IDS)} {words.PASSES[kernel.direction]}  "), *known, indent=6, limit=2)
    # The lines and modules that it is for, then its ops.
    lines, modules = lines_of(row.lineages), modules_text(facts.modules)
    where: parts.Parts = (Places(lines, tone=Tone.STRONG),) if lines else ()
    where = (*where, f" of {modules}") if modules else where
    computed = () if is_generated(kernel) else computed_ops(row.lineages)
    ops = ", ".join(words.op_name(op) for op in computed or kernel.aten)
    if where or ops or helped:
        room, told = "  " if where and ops else "", f": {helped}" if helped else ""
        yield doc.paragraph(*where, room, parts.code(ops), told, indent=6, limit=3 if helped else 2)
    same = list(dict.fromkeys(each.name for each in kernels if each.name != kernel.name))
    if same:
        yield doc.paragraph(quiet("the same: "), joined(same, _SAME), indent=6, limit=2)
