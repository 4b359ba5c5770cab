"""One kernel, from the user's lines down to its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.fusion import UnfusedLaunches, neighbours
from compiler_lens.facts.kernels.kernels import Costs, KernelFacts, by_kernel, lineages_of
from compiler_lens.facts.kernels.library_calls import helps
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import Tuned
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection, select_kernels
from compiler_lens.recording.model import BufferAccess, Ceilings, Kernel, KernelConfig, Recording, Trust
from compiler_lens.views import autotune, fusion, words
from compiler_lens.views.document import (
    Block,
    Branch,
    Column,
    Document,
    Gap,
    Listing,
    Paragraph,
    Section,
    Table,
    Tiles,
    Tree,
    line,
    paragraph,
)
from compiler_lens.views.kernel_figures import tiles
from compiler_lens.views.kernels import Helps, help_of, help_words, moved
from compiler_lens.views.lineage import TracedLaunch, branches, modules_text, unlinked
from compiler_lens.views.parts import At, Cell, Compiled, KernelName, Kind, Places, Span, Tone, code, quiet, strong
from compiler_lens.views.profile_words import UNUSABLE
from compiler_lens.views.text import flops, joined, microseconds, nbytes, plural, times

_LINES = 12
_LAUNCHES = 12
_BUFFERS = 6
_UNLINKED = 8


class KernelWithLaunches(KernelFacts, frozen=True, kw_only=True):
    """A kernel with every launch, followed back to the user's program."""

    lineages: tuple[TracedLaunch, ...]


class Data(Struct, frozen=True):
    """The kernels of one name."""

    kernels: tuple[KernelWithLaunches, ...]
    times_are_usable: bool


def document(recording: Recording, selection: Selection) -> Document:
    """Return the kernels of the name that was asked for: lines, launches, memory, configs, times, source."""
    kernels = select_kernels(recording, selection.kernel, selection.ids)
    every = _Kernels.of(recording, selection)
    found = by_kernel(lineages_of(recording, every.provenance, kernels))
    pairs = neighbours(recording, [lineages[0].index for lineages in found])
    blocks: list[Block] = []
    for lineages in found:
        one = _Kernel.of(lineages, every, pairs[lineages[0].index])
        blocks += [*([Gap()] if blocks else []), *one.entry()]
    each = tuple(_data(lineages, every.costs) for lineages in found)
    return Document(tuple(blocks), Data(each, every.costs.is_usable), count=len(found))


def documents(recording: Recording, selection: Selection) -> Iterator[Document]:
    """Return a document for each kernel of the recording, in its order, with every row."""
    every = _Kernels.of(recording, selection)
    pairs = neighbours(recording, range(len(recording.kernels)))
    for index in range(len(recording.kernels)):
        one = _Kernel.of(every.provenance.of_kernel(index), every, pairs[index])
        yield Document(tuple(one.whole()), None)


def _data(lineages: Sequence[Lineage], costs: Costs) -> KernelWithLaunches:
    facts = KernelFacts.of(lineages, costs)
    known = {name: getattr(facts, name) for name in KernelFacts.__struct_fields__}
    return KernelWithLaunches(**known, lineages=tuple(map(TracedLaunch.of, lineages)))


class _Kernels(Struct, frozen=True):
    """What is known of all kernels."""

    provenance: Provenance
    costs: Costs
    helping: Helps
    tuned: Tuned
    ceilings: Ceilings | None
    spent: float  # by all kernels in a call, microseconds

    @classmethod
    def of(cls, recording: Recording, selection: Selection) -> _Kernels:
        provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
        ceilings = recording.profiles[-1].ceilings if recording.profiles else None
        costs, tuned = Costs.of(recording), Tuned.of(recording)
        spent = sum(one.total for one in costs.measured.values())
        return cls(provenance, costs, helps(provenance.lineages), tuned, ceilings, spent)


class _Kernel(Struct, frozen=True):
    """One kernel, to be told as an entry of a terminal or as a view of its own."""

    kernel: Kernel
    facts: KernelFacts
    lineages: Sequence[Lineage]
    every: _Kernels
    pairs: Sequence[UnfusedLaunches]

    @classmethod
    def of(cls, lineages: Sequence[Lineage], every: _Kernels, pairs: Sequence[UnfusedLaunches]) -> _Kernel:
        return cls(lineages[0].kernel, KernelFacts.of(lineages, every.costs), lineages, every, pairs)

    @property
    def index(self) -> int:
        return self.lineages[0].index

    def entry(self) -> Iterator[Block]:
        """What it is, the first of its launches, what it costs, and its source."""
        yield line(KernelName(self.kernel.name, self.index), whole=True)
        yield line(quiet(self._where(f"[{self.kernel.compile_id}]")), indent=2)
        yield line(strong(self._computes()), quiet(f", {words.TRUST[self.kernel.trust]}"), indent=2)
        if self._lines_are_doubtful:
            yield paragraph(f"their lines are {words.TRUST[Trust.TEXT]}", indent=2, tone=Tone.QUIET)
        yield from self._tree(branches(one for one in self.lineages if one.lines)[0], _LINES)
        lost = unlinked(self.lineages)
        if lost:
            yield paragraph(quiet("from no line that is known: "), joined(lost, _UNLINKED), indent=4, limit=2)
        helped = help_of(self.lineages, self.every.helping)
        if helped:
            yield paragraph(help_words(helped), indent=4)
        yield from self._launches()
        yield from self._memory()
        if self.facts.flops:
            all_of = f" in {plural(len(self.kernel.launches), 'launch', 'launches')}"
            several = all_of if len(self.kernel.launches) > 1 else ""
            yield line(strong("multiplies "), f"{flops(self.facts.flops)}{several}", indent=2)
        yield from self._cost()
        yield from fusion.neighbours(self.pairs, self.index, folds_nothing=False)
        if self.kernel.configs:
            yield line(strong(plural(len(self.kernel.configs), "config")), indent=2)
            yield config_table(self.kernel.configs)
        if self.kernel.source:
            yield from (Gap(), Listing(self.kernel.source, self.kernel.lexer))
        else:
            yield line(quiet("no source: a library has it"), indent=2)

    def whole(self) -> Iterator[Block]:
        """Everything, with its name as the title."""
        yield paragraph(Compiled(self.kernel.compile_id), ", ", self._where(), tone=Tone.QUIET)
        every = self.every
        yield Tiles(tuple(tiles(self.lineages, self.facts, every.costs, every.ceilings, every.spent)))
        if not self.every.costs.is_usable:
            yield from self._cost()
        yield from self._memory()
        told = f"{self._computes()}, {words.TRUST[self.kernel.trust]}"
        if self._lines_are_doubtful:
            told += f"; their lines are {words.TRUST[Trust.TEXT]}"
        lost = unlinked(self.lineages)
        nowhere = (paragraph(f"from no line that is known: {', '.join(lost)}", tone=Tone.QUIET),) if lost else ()
        found, alike = branches(one for one in self.lineages if one.lines)
        if alike:
            told += f"; {times(alike)} stands for {alike:,} that are alike"
        yield Section("From your lines", (*self._tree(found), *nowhere), told)
        if self.kernel.launches:
            launches = plural(len(self.kernel.launches), "launch", "launches")
            yield Section(launches, (self._every_launch(),))
        yield from fusion.neighbours(self.pairs, self.index, folds_nothing=True)
        tried = self.every.tuned.result(self.lineages)
        if tried:
            yield autotune.tried(autotune.Tuned.of(tried, ""))
        if self.kernel.configs:
            yield Section(plural(len(self.kernel.configs), "config"), (config_table(self.kernel.configs),))
        source = Listing(self.kernel.source, self.kernel.lexer) if self.kernel.source else None
        yield Section("Source", (source or paragraph("no source: a library has it", tone=Tone.QUIET),))

    def _where(self, compile_id: str = "") -> str:
        kernel = self.kernel
        parts = (compile_id, words.PASSES[kernel.direction], words.kernel_kind(kernel), kernel.device)
        return ", ".join(filter(None, parts))

    def _computes(self) -> str:
        each = " in each launch" if len(self.kernel.launches) > 1 and self.kernel.nodes else ""
        return f"computes {plural(self.facts.ops, 'op')}{each}"

    @property
    def _lines_are_doubtful(self) -> bool:
        linked = [one for one in self.lineages if one.lines]
        return self.kernel.trust is Trust.EXACT and any(one.trust is Trust.TEXT for one in linked)

    def _tree(self, found: Sequence[Branch], most: int = 0) -> Iterator[Block]:
        """From line to node; without lines its ops."""
        if found:
            yield Tree(tuple(found[: most or None]), indent=4)
        elif self.kernel.aten:
            yield paragraph(code(", ".join(words.op_name(op) for op in self.kernel.aten)), indent=4)
        if most and len(found) > most:
            yield line(quiet(f"… {plural(len(found) - most, 'more line')} in --json"), indent=4)

    # -- launches

    def _launches(self) -> Iterator[Block]:
        """The launches; those for other layers of the same lines folded."""
        kernel = self.kernel
        if not kernel.launches:
            return
        launches = plural(len(kernel.launches), "launch", "launches")
        yield line(strong(launches), quiet(" in the output code"), indent=2)
        if len(kernel.launches) > 1 and self.lineages[0].launch is not None:
            yield self._folded()
            return
        for launch in kernel.launches[:_LAUNCHES]:
            grid = f"  grid {launch.grid}" if launch.grid else ""
            called = f"({', '.join(launch.arguments)})"
            yield line(quiet(f"line {launch.line}: "), called, quiet(grid), indent=4)
        more = len(kernel.launches) - _LAUNCHES
        if more > 0:
            yield line(quiet(f"… {more:,} more in --json"), indent=4)

    def _folded(self) -> Table:
        folds: dict[tuple[object, ...], list[Lineage]] = {}
        for one in self.lineages:
            places = tuple((at.file, at.line) for at in one.lines)
            folds.setdefault((places, modules_text(one.modules) if not one.lines else ""), []).append(one)
        columns = (
            Column("launches", Kind.COUNT, headless=True),
            Column("modules", flexible=True, headless=True),
            Column("at", tone=Tone.STRONG, headless=True),
            Column("time", Kind.MICROSECONDS, headless=True),
            Column("output code", tone=Tone.QUIET, flexible=True, headless=True),
        )
        return Table(columns, tuple(map(self._fold, folds.values())), indent=4, most=_LAUNCHES)

    def _fold(self, members: Sequence[Lineage]) -> tuple[Cell, ...]:
        numbers = [str(one.called.line) for one in members if one.called]
        return (
            times(len(members)),
            modules_text((module for one in members for module in one.modules), 3),
            Places(members[0].lines, 1, 1),
            self.every.costs.microseconds(members),
            f"output code line{'' if len(numbers) == 1 else 's'} {joined(numbers, 3)}",
        )

    def _every_launch(self) -> Table:
        known, costs = {one.launch: one for one in self.lineages}, self.every.costs
        columns = (
            Column("output code"),
            Column("modules"),
            Column("at"),
            Column("time", Kind.MICROSECONDS),
            Column("moves", Kind.BYTES),
            Column("arguments", Kind.CODE),
            Column("grid", Kind.CODE),
        )
        rows: list[tuple[Cell, ...]] = []
        for number, launch in enumerate(self.kernel.launches):
            one = known.get(number)
            told: tuple[Cell, ...] = (None, None, None, None)
            if one:
                at = At(one.lines[0]) if one.lines else None
                told = modules_text(one.modules), at, costs.microseconds([one]), moved(costs.traffic([one]))
            rows.append((f"line {launch.line}", *told, f"({', '.join(launch.arguments)})", launch.grid))
        return Table(columns, tuple(rows))

    # -- what it costs

    def _memory(self) -> Iterator[Paragraph]:
        """What the first launch reads and writes."""
        launches = self.kernel.launches
        which = "the first " if len(launches) > 1 else ""
        for verb, accesses in (("reads ", launches[0].reads), ("writes ", launches[0].writes)) if launches else ():
            if accesses:
                told, each = _buffers(accesses)
                yield paragraph(strong(which + verb), told, quiet(each), indent=2, limit=3)

    def _cost(self) -> Iterator[Paragraph]:
        """What it took, and how much above the floor: of times that are not usable nothing follows."""
        costs = self.every.costs
        known = costs.launches(self.lineages)
        if not known:
            return
        runs = sum(cost.time.runs for cost in known)
        above = sum(cost.above for cost in known if cost.floor is not None)
        is_known = costs.is_usable and any(cost.floor is not None for cost in known)
        floor = f", {microseconds(above)} more than this device needs" if is_known else ""
        often = f"{runs:,.4g} {'run' if runs == 1 else 'runs'}"
        took = microseconds(sum(cost.total for cost in known))
        yield paragraph(strong("takes "), f"{took} a call, in {often}{floor}", indent=2)
        if not costs.is_usable:
            yield paragraph(UNUSABLE, indent=4, tone=Tone.WARN)


def config_table(configs: Iterable[KernelConfig]) -> Table:
    """Return the ways to run a kernel: what each is, how long that took, what it needs."""
    columns = (
        Column("config", Kind.CODE, flexible=True),
        Column("time", Kind.MILLISECONDS),
        Column("registers", Kind.COUNT),
        Column("spills", Kind.COUNT),
        Column("shared memory", Kind.BYTES),
        Column("chosen", headless=True),
    )
    rows = (
        (
            ", ".join(f"{name}={value}" for name, value in config.values.items()),
            config.milliseconds,
            config.registers,
            config.spills,
            config.shared_bytes,
            Span("chosen", Tone.GOOD) if config.chosen else None,
        )
        for config in configs
    )
    return Table(columns, tuple(rows), indent=4)


def _buffers(accesses: Sequence[BufferAccess]) -> tuple[str, str]:
    ranked = sorted(accesses, key=lambda access: -(access.bytes or 0))
    sizes = [access.bytes for access in accesses if access.bytes is not None]
    whole = nbytes(sum(sizes) if len(sizes) == len(accesses) else None)
    each = joined([f"{access.name} {nbytes(access.bytes)}" for access in ranked], _BUFFERS)
    return f"{whole} in {plural(len(accesses), 'buffer')}: ", each
