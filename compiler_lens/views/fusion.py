"""How far kernels are fused: which launches share memory and are not one, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.fusion import Cause, CodeFusion, LaunchRef, PairGroup, UnfusedLaunches, causes, fusion
from compiler_lens.facts.kernels.fusion_reasons import Reason
from compiler_lens.facts.kernels.library_calls import Library
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.ids import CompileId, Direction
from compiler_lens.recording.model import BufferAccess, Compilation, Environment, Recording, SourceLine
from compiler_lens.views import fusion_words, words
from compiler_lens.views.document import Block, Column, Document, Paragraph, Section, Table, line, paragraph
from compiler_lens.views.parts import Cell, Figure, KernelName, Kind, Places, Tone, code, quiet, strong
from compiler_lens.views.text import UNKNOWN, joined, number, plural, times

_PAIRS = 6
_NEIGHBOURS = 8
_NODES = 6


class FusionLaunch(Struct, frozen=True):
    """One launch."""

    kernel: str
    launch: int  # which of the kernel's launches, from 0
    line: int  # of the output code
    ops: tuple[str, ...]  # of Inductor's scheduler

    @classmethod
    def of(cls, side: LaunchRef) -> FusionLaunch:
        """Return the data of a launch."""
        return cls(side.kernel.name, side.number, side.launch.line, side.launch.ops)


class FusionPair(Struct, frozen=True):
    """Two launches that share memory."""

    first: FusionLaunch
    second: FusionLaunch
    bytes: int  # that one kernel would not move
    shared: tuple[BufferAccess, ...]
    torch: str  # why Inductor did not fuse them, in its words


class FusionCause(Struct, frozen=True):
    """All pairs that one reason keeps apart."""

    reason: Reason
    library: Library | None
    bytes: int
    pairs: tuple[FusionPair, ...]


class RepeatedNode(Struct, frozen=True):
    """A node that several launches compute."""

    node: str
    target: str
    launches: tuple[FusionLaunch, ...]


class RecomputedNode(Struct, frozen=True):
    """A node of the forward that a backward computes again."""

    node: str
    target: str


class FusedCode(Struct, frozen=True):
    """How far one output code is fused."""

    compile_id: CompileId
    direction: Direction
    ordinal: int
    ops: int
    launches: int
    symbolic: bool
    causes: tuple[FusionCause, ...]
    repeated: tuple[RepeatedNode, ...]
    rematerialized: tuple[RecomputedNode, ...]

    @classmethod
    def of(cls, found: CodeFusion) -> FusedCode:
        """Return the data of an output code."""
        return cls(
            found.code.compile_id,
            found.code.direction,
            found.code.ordinal,
            found.ops,
            found.launches,
            found.symbolic,
            tuple(
                FusionCause(cause.reason, cause.library, cause.bytes, tuple(map(_pair, cause.pairs)))
                for cause in found.causes
            ),
            tuple(
                RepeatedNode(one.node, one.target, tuple(map(FusionLaunch.of, one.launches))) for one in found.repeated
            ),
            tuple(RecomputedNode(node.name, node.target) for node in found.rematerialized),
        )


class Data(Struct, frozen=True):
    """The output codes of a recording, in its order."""

    codes: tuple[FusedCode, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return for each output code what was not fused, the costliest first."""
    codes = fusion(recording, selection)
    data = Data(tuple(map(FusedCode.of, codes)))
    if not codes:
        return Document(_nothing(recording), data, count=0)
    lineages = Provenance.of(recording, Ownership.of(selection.user_paths)).lineages
    at = {(one.index, one.launch): one.lines for one in lineages}
    compilations = {c.compile_id: c for c in recording.compilations}
    whole = _counts(sum(code.ops for code in codes), sum(code.launches for code in codes))
    sections = [Section("Fusion", (), whole)]
    for one in codes:
        found = _Code(one, compilations.get(one.code.compile_id), recording.environment, at)
        sections.append(found.section())
    return Document(tuple(sections), data, count=len(codes))


def neighbours(pairs: Sequence[UnfusedLaunches], index: int, *, folds_nothing: bool) -> tuple[Block, ...]:
    """Return the launches that share memory with those of the kernel at this place, and are not part of it."""
    found = [(cause, one) for cause in causes(pairs) for one in cause.groups]
    if not found:
        return ()
    found.sort(key=lambda pair: -pair[1].bytes)
    told = "what one kernel would not have to move, and why there are two"
    if folds_nothing:
        columns = (*_NEIGHBOUR, Column("why there are two"))
        rows = tuple((*_neighbour(one, index), why_apart(cause, one.first)) for cause, one in found)
        return (Section("Not fused with", (Table(columns, rows),), told),)
    reasons: dict[str, list[tuple[Cell, ...]]] = {}
    for cause, one in found[:_NEIGHBOURS]:
        reasons.setdefault(why_apart(cause, one.first), []).append(_neighbour(one, index))
    blocks: list[Block] = [line(strong("not fused with"), quiet(f"  {told}"), indent=2)]
    for said, listed in reasons.items():
        blocks += [paragraph(said, indent=4, limit=2), Table(_NEIGHBOUR, tuple(listed), indent=6)]
    more = len(found) - _NEIGHBOURS
    return (*blocks, *((line(quiet(f"… {more:,} more in --json"), indent=4),) if more > 0 else ()))


_NEIGHBOUR = (
    Column("shares", Kind.BYTES, headless=True),
    Column("times", Kind.TIMES, headless=True),
    Column("runs", headless=True),
    Column("kernel", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
)


def _neighbour(alike: PairGroup, index: int) -> tuple[Cell, ...]:
    pair = alike.first
    is_first = pair.first.index == index
    other = pair.second if is_first else pair.first
    name = KernelName(other.kernel.name, other.index)
    return _saved(alike), len(alike.pairs), "after it" if is_first else "before it", name


def why_apart(cause: Cause, pair: UnfusedLaunches) -> str:
    """Return what keeps a pair apart."""
    if cause.reason is Reason.OTHER:
        return pair.unfused.reason
    return fusion_words.reason(cause.reason, cause.library)


def _pair(pair: UnfusedLaunches) -> FusionPair:
    return FusionPair(
        FusionLaunch.of(pair.first), FusionLaunch.of(pair.second), pair.bytes, pair.unfused.shared, pair.unfused.reason
    )


def _nothing(recording: Recording) -> tuple[Block, ...]:
    if not recording.kernels:
        return (line("No kernels."),)
    told = (
        "This recording does not say what launches read and write: Inductor reports it while it compiles. A "
        "TORCH_TRACE log does not have it, nor a cache that was filled without compiler_lens."
    )
    return (Section("Fusion", (paragraph(told, indent=2),)),)


def _counts(ops: int, launches: int) -> str:
    counted = plural(launches, "launch", "launches")
    return f"{plural(ops, 'op')} in {counted}" if ops else counted


class _Code(Struct, frozen=True):
    found: CodeFusion
    compilation: Compilation | None
    environment: Environment
    at: Mapping[tuple[int, int | None], tuple[SourceLine, ...]]  # the user's lines, by kernel and launch

    def section(self) -> Section:
        found = self.found
        graph = f", graph {found.code.ordinal + 1}" if found.code.ordinal else ""
        blocks: list[Block] = []
        if found.symbolic and found.causes:
            told = "sizes vary here: bytes are those of the call that it was compiled in"
            blocks.append(paragraph(told, indent=2, tone=Tone.QUIET))
        if not found.causes:
            blocks.append(line("no two launches share memory", indent=2))
        for cause in found.causes:
            blocks += self._cause(cause)
        title = f"[{found.code.compile_id}] {words.PASSES[found.code.direction]}{graph}"
        return Section(title, (*blocks, *_again(found)), _counts(found.ops, found.launches))

    def _cause(self, cause: Cause) -> list[Block]:
        cost = Figure(cause.bytes, Kind.BYTES, Tone.WARN) if _is_known(cause) else "an unknown amount"
        pairs = plural(len(cause.pairs), "pair")
        told = fusion_words.reason(cause.reason, cause.library)
        blocks: list[Block] = [paragraph(cost, f" in {pairs}: ", told, indent=2)]
        if cause.reason is Reason.LIBRARIES:  # as many as the model has layers, and nothing to be done
            return blocks
        advice = fusion_words.remedy(cause, self.compilation, self.environment)
        if advice:
            blocks.append(paragraph(advice, indent=4, tone=Tone.QUIET))
        rows = tuple(self._row(one) for one in cause.groups)
        return [*blocks, Table(_PAIR, rows, indent=4, most=_PAIRS), *_said_by_torch(cause)]

    def _row(self, alike: PairGroup) -> tuple[Cell, ...]:
        first, second = alike.first.first, alike.first.second
        places = {at.place: at for side in (first, second) for at in self._lines(side)}
        return (
            _saved(alike),
            len(alike.pairs),
            KernelName(first.kernel.name, first.index),
            ("→ ", KernelName(second.kernel.name, second.index, Tone.PLAIN)),
            Places(tuple(places.values()), 2),
        )

    def _lines(self, side: LaunchRef) -> Sequence[SourceLine]:
        return self.at.get((side.index, side.number)) or self.at.get((side.index, None), ())


_PAIR = (
    Column("saves", Kind.BYTES, headless=True),
    Column("times", Kind.TIMES, headless=True),
    Column("kernel", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
    Column("next", flexible=True, middle=True, headless=True),
    Column("at", tone=Tone.QUIET, flexible=True, headless=True),
)


def _saved(group: PairGroup | Cause) -> Cell:
    return group.bytes if _is_known(group) else UNKNOWN


def _is_known(group: PairGroup | Cause) -> bool:
    return any(access.bytes is not None for pair in group.pairs for access in pair.unfused.shared)


def _said_by_torch(cause: Cause) -> tuple[Paragraph, ...]:
    said = Counter(pair.unfused.reason for pair in cause.pairs if pair.unfused.reason)
    if not said:
        return ()
    sentence = said.most_common(1)[0][0]
    others = f", and {plural(len(said) - 1, 'more of the kind', 'more of the kind')}" if len(said) > 1 else ""
    meant = fusion_words.MEANT.get(sentence, "")
    return (paragraph(f"torch: {sentence}{meant}{others}", indent=4, tone=Tone.QUIET, limit=2),)


def _again(found: CodeFusion) -> list[Block]:
    blocks: list[Block] = []
    if found.repeated:
        names = [f"{words.op_name(node.target)} {times(len(node.launches))}" for node in found.repeated]
        blocks.append(_counted(f"{plural(len(names), 'op')} computed again in another launch, not stored: ", names))
    if found.rematerialized:
        names = [words.op_name(node.target) for node in found.rematerialized]
        told = f"{plural(len(names), 'op')} of the forward recomputed here, not kept for the backward: "
        blocks.append(_counted(told, names))
    return blocks


def _counted(told: str, names: Iterable[str]) -> Paragraph:
    ranked = [f"{number(count)} {name}" for name, count in Counter(names).most_common()]
    return paragraph(told, code(joined(ranked, _NODES)), indent=2, limit=3)
