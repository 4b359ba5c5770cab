"""One kernel, from the user's lines down to its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, convert
from msgspec.structs import asdict

from compiler_lens.facts.kernels.fusion import UnfusedLaunches, neighbours
from compiler_lens.facts.kernels.kernels import Costs, KernelFacts, KernelGroup, by_kernel, lineages_of
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.facts.kernels.library_calls import helps
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.roofline import GroupCost
from compiler_lens.facts.kernels.tuned import Tuned
from compiler_lens.facts.overview.shared import costs_of, provenance_of
from compiler_lens.facts.program.select import Selection, select_kernels
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import Ceilings, KernelConfig, Recording, Trust
from compiler_lens.views import autotune, fusion, parts, words
from compiler_lens.views import document as doc
from compiler_lens.views.document import Column, Tile, line, paragraph
from compiler_lens.views.kernels import Helps, help_words, moved
from compiler_lens.views.lineage import TracedLaunch, branches, modules_text, unlinked
from compiler_lens.views.parts import At, Cell, Figure, KernelName, Kind, Places, Span, Tone, code, quiet, strong
from compiler_lens.views.profile import saving
from compiler_lens.views.profile_words import BOUNDS, UNUSABLE
from compiler_lens.views.text import flops, how_often, joined, microseconds, nbytes, percent, plural, rate, times

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


def document(recording: Recording, selection: Selection) -> doc.Document:
    """Return the kernels of the name that was asked for: lines, launches, memory, configs, times, source."""
    kernels = select_kernels(recording, selection.kernel, selection.ids)
    every = _Kernels.of(recording, selection)
    found = by_kernel(lineages_of(recording, every.provenance, kernels))
    pairs = neighbours(recording, [lineages[0].index for lineages in found])
    blocks: list[doc.Block] = []
    each: list[KernelWithLaunches] = []
    for lineages in found:
        one = _Kernel.of(lineages, every, pairs[lineages[0].index])
        blocks += [*([doc.Gap()] if blocks else []), *one.entry()]
        traced = convert(lineages, tuple[TracedLaunch, ...], from_attributes=True)
        each.append(KernelWithLaunches(**asdict(one.kernel), lineages=traced))
    return doc.Document(tuple(blocks), Data(tuple(each), every.costs.is_usable), count=len(found))


def documents(recording: Recording, selection: Selection) -> Iterator[doc.Document]:
    """Return a document for each kernel of the recording, in its order, with every row."""
    every = _Kernels.of(recording, selection)
    pairs = neighbours(recording, range(len(recording.kernels)))
    for index in range(len(recording.kernels)):
        one = _Kernel.of(every.provenance.of_kernel(index), every, pairs[index])
        yield doc.Document(tuple(one.whole()), None)


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
        provenance, costs = provenance_of(recording, selection), costs_of(recording, selection)
        ceilings = recording.profiles[-1].ceilings if recording.profiles else None
        spent = sum(one.total for one in costs.measured.values())
        return cls(provenance, costs, helps(provenance.lineages), Tuned.of(recording), ceilings, spent)


class _Kernel(Struct, frozen=True):
    """One kernel, to be told as an entry of a terminal or as a view of its own."""

    kernel: KernelFacts
    lineages: Sequence[Lineage]
    every: _Kernels
    pairs: Sequence[UnfusedLaunches]
    launches: str  # how many

    @classmethod
    def of(cls, lineages: Sequence[Lineage], every: _Kernels, pairs: Sequence[UnfusedLaunches]) -> _Kernel:
        kernel = KernelFacts.of(lineages, every.costs)
        return cls(kernel, lineages, every, pairs, plural(len(kernel.launches), "launch", "launches"))

    def entry(self) -> Iterator[doc.Block]:
        """What it is, the first of its launches, what it costs, and its source."""
        kernel, index = self.kernel, self.lineages[0].index
        yield line(KernelName(kernel.name, index), whole=True)
        yield line(quiet(self._where(f"[{kernel.compile_id}]")), indent=2)
        yield line(strong(self._computes()), quiet(f", {words.TRUST[kernel.trust]}"), indent=2)
        if self._lines_are_doubtful():
            yield paragraph(f"their lines are {words.TRUST[Trust.TEXT]}", indent=2, tone=Tone.QUIET)
        yield from self._tree(branches(one for one in self.lineages if one.lines)[0], _LINES)
        lost = unlinked(self.lineages)
        if lost:
            yield paragraph(quiet("from no line that is known: "), joined(lost, _UNLINKED), indent=4, limit=2)
        helped = help_words(self.lineages, self.every.helping)
        if helped:
            yield paragraph(helped, indent=4)
        if kernel.launches:
            yield line(strong(self.launches), quiet(" in the output code"), indent=2)
            yield from self._launches()
        yield from self._memory()
        if kernel.flops:
            several = f" in {self.launches}" if len(kernel.launches) > 1 else ""
            yield line(strong("multiplies "), f"{flops(kernel.flops)}{several}", indent=2)
        yield from self._cost()
        yield from fusion.neighbours(self.pairs, index, for_page=False)
        if kernel.configs:
            yield line(strong(plural(len(kernel.configs), "config")), indent=2)
            yield config_table(kernel.configs)
        if kernel.source:
            yield from (doc.Gap(), doc.Listing(kernel.source, kernel.lexer))
        else:
            yield line(quiet("no source: a library has it"), indent=2)

    def whole(self) -> Iterator[doc.Block]:
        """Everything, with its name as the title."""
        kernel = self.kernel
        yield paragraph(parts.Compiled(kernel.compile_id), ", ", self._where(), tone=Tone.QUIET)
        yield doc.Tiles(tuple(self._tiles()))
        if not self.every.costs.is_usable:
            yield from self._cost()
        yield from self._memory()
        told = f"{self._computes()}, {words.TRUST[kernel.trust]}"
        if self._lines_are_doubtful():
            told += f"; their lines are {words.TRUST[Trust.TEXT]}"
        lost = unlinked(self.lineages)
        nowhere = (paragraph(f"from no line that is known: {', '.join(lost)}", tone=Tone.QUIET),) if lost else ()
        found, alike = branches(one for one in self.lineages if one.lines)
        if alike:
            told += f"; {times(alike)} stands for {alike:,} that are alike"
        yield doc.Section("From your lines", (*self._tree(found), *nowhere), told)
        if kernel.launches:
            yield doc.Section(self.launches, (self._every_launch(),))
        yield from fusion.neighbours(self.pairs, self.lineages[0].index, for_page=True)
        tried = self.every.tuned.result(self.lineages)
        if tried:
            yield autotune.tried(autotune.Tuned.of(tried, ""))
        if kernel.configs:
            yield doc.Section(plural(len(kernel.configs), "config"), (config_table(kernel.configs),))
        source = doc.Listing(kernel.source, kernel.lexer) if kernel.source else None
        yield doc.Section("Source", (source or paragraph("no source: a library has it", tone=Tone.QUIET),))

    def _where(self, compile_id: str = "") -> str:
        kernel = self.kernel
        known = (compile_id, words.PASSES[kernel.direction], words.kernel_kind(kernel), kernel.device)
        return ", ".join(filter(None, known))

    def _computes(self) -> str:
        each = " in each launch" if len(self.kernel.launches) > 1 and self.kernel.nodes else ""
        return f"computes {plural(self.kernel.ops, 'op')}{each}"

    def _lines_are_doubtful(self) -> bool:
        linked = [one for one in self.lineages if one.lines]
        return self.kernel.trust is Trust.EXACT and any(one.trust is Trust.TEXT for one in linked)

    def _tree(self, found: Sequence[doc.Branch], most: int = 0) -> Iterator[doc.Block]:
        """From line to node; without lines its ops."""
        if found:
            yield doc.Tree(tuple(found[: most or None]), indent=4)
        elif self.kernel.aten:
            yield paragraph(code(", ".join(words.op_name(op) for op in self.kernel.aten)), indent=4)
        if most and len(found) > most:
            yield line(quiet(f"… {plural(len(found) - most, 'more line')} in --json"), indent=4)

    # -- launches

    def _launches(self) -> Iterator[doc.Block]:
        """The launches; where it is known what each is for, those for other layers of the same lines folded."""
        launches = self.kernel.launches
        if len(launches) == 1 or self.lineages[0].launch is None:
            for launch in launches[:_LAUNCHES]:
                grid = f"  grid {launch.grid}" if launch.grid else ""
                called = f"({', '.join(launch.arguments)})"
                yield line(quiet(f"line {launch.line}: "), called, quiet(grid), indent=4)
            more = len(launches) - _LAUNCHES
            if more > 0:
                yield line(quiet(f"… {more:,} more in --json"), indent=4)
            return
        folds: dict[tuple[tuple[SourcePlace, ...], str], list[Lineage]] = {}
        for one in self.lineages:
            key = tuple(at.place for at in one.lines), "" if one.lines else modules_text(one.modules)
            folds.setdefault(key, []).append(one)
        columns = (
            Column("launches", Kind.COUNT, headless=True),
            Column("modules", flexible=True, headless=True),
            Column("at", tone=Tone.STRONG, headless=True),
            Column("time", Kind.MICROSECONDS, headless=True),
            Column("output code", tone=Tone.QUIET, flexible=True, headless=True),
        )
        rows: list[tuple[Cell, ...]] = []
        for members in folds.values():
            modules = modules_text((module for one in members for module in one.modules), 3)
            numbers = [str(one.called.line) for one in members if one.called]
            at = f"output code line{'' if len(numbers) == 1 else 's'} {joined(numbers, 3)}"
            took = self.every.costs.microseconds(members)
            rows.append((times(len(members)), modules, Places(members[0].lines, 1, 1), took, at))
        yield doc.Table(columns, tuple(rows), indent=4, most=_LAUNCHES)

    def _every_launch(self) -> doc.Table:
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
        return doc.Table(columns, tuple(rows))

    # -- what it costs

    def _memory(self) -> Iterator[doc.Paragraph]:
        """What the first launch reads and writes."""
        launches = self.kernel.launches
        which = "the first " if len(launches) > 1 else ""
        for verb, accesses in (("reads ", launches[0].reads), ("writes ", launches[0].writes)) if launches else ():
            if accesses:
                sizes = [access.bytes for access in accesses]
                whole = nbytes(None if None in sizes else sum(size or 0 for size in sizes))
                ranked = sorted(accesses, key=lambda access: -(access.bytes or 0))
                each = joined([f"{access.name} {nbytes(access.bytes)}" for access in ranked], _BUFFERS)
                told = f"{whole} in {plural(len(accesses), 'buffer')}: "
                yield paragraph(strong(which + verb), told, quiet(each), indent=2, limit=3)

    def _cost(self) -> Iterator[doc.Paragraph]:
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

    def _tiles(self) -> Iterator[Tile]:
        """Its figures: time, rates beside what this device can do, possible saving; none where times are not usable."""
        costs, ceilings, kernel = self.every.costs, self.every.ceilings, self.kernel
        launches = costs.launches(self.lineages) if costs.is_usable else ()
        if launches and ceilings:
            cost = GroupCost.of(KernelGroup((kernel,), (), kernel.ops), launches)
            yield from _timed(cost, ceilings, self.every.spent)
        count = len(kernel.launches)
        if count:
            yield Tile("launches", Figure(count, Kind.COUNT), "in the output code")
        amount = moved(kernel.traffic)
        if amount:
            yield Tile("moves", amount, f"in {self.launches}" if count > 1 else "")
        if kernel.flops:
            yield Tile("multiplies", Figure(kernel.flops, Kind.FLOPS))


def config_table(configs: Iterable[KernelConfig]) -> doc.Table:
    """Return the ways to run a kernel: what each is, how long that took, what it needs."""
    return doc.table(
        configs,
        (
            Column("config", Kind.CODE, flexible=True),
            lambda one: ", ".join(f"{name}={value}" for name, value in one.values.items()),
        ),
        (Column("time", Kind.MILLISECONDS), lambda one: one.milliseconds),
        (Column("registers", Kind.COUNT), lambda one: one.registers),
        (Column("spills", Kind.COUNT), lambda one: one.spills),
        (Column("shared memory", Kind.BYTES), lambda one: one.shared_bytes),
        (Column("chosen", headless=True), lambda one: Span("chosen", Tone.GOOD) if one.chosen else None),
        indent=4,
    )


# Why a kernel takes what it takes, where its bound alone does not say it.
_BECAUSE: Mapping[Bound, str] = {
    Bound.LAUNCH: "as short as a launch can be",
    Bound.NEITHER: "neither compute- nor memory-bound",
}


def _timed(cost: GroupCost, ceilings: Ceilings, every: float) -> Iterator[Tile]:
    """Yield what it takes of the microseconds of all kernels, and what it achieves of what this device can do."""
    runs = f"in {how_often(cost.runs)} {'run' if cost.runs == 1 else 'runs'}"
    yield Tile("time a call", Figure(cost.total, Kind.MICROSECONDS), runs)
    yield Tile("of all kernels", percent(cost.total, every), f"of {microseconds(every)}")
    known = saving(cost)
    if known:
        yield Tile("possible saving", known, "above the floor")
    if cost.bound is not Bound.UNKNOWN:
        yield Tile("bound by", BOUNDS[cost.bound], _BECAUSE.get(cost.bound, ""))
    if cost.bytes_per_second is not None:
        most = f"{rate(ceilings.bytes_per_second, 'B/s')} copying" if ceilings.bytes_per_second else ""
        yield Tile("bytes/s", Figure(cost.bytes_per_second, Kind.BYTE_RATE), _part(cost, Bound.MEMORY, most))
    if cost.flops_per_second:
        kinds = dict.fromkeys(one.work.dtype for one in cost.launches if one.work)
        each = {dtype: ceilings.flops_per_second.get(dtype) for dtype in kinds}
        most = ", ".join(f"{rate(value, 'FLOP/s')} {dtype}" for dtype, value in each.items() if value)
        yield Tile("FLOP/s", Figure(cost.flops_per_second, Kind.FLOP_RATE), _part(cost, Bound.COMPUTE, most))


def _part(cost: GroupCost, of: Bound, most: str) -> str:
    share = cost.share(of)
    return f"{percent(share, 1)} of {most}" if share is not None and most else ""
