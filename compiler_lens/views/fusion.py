"""How far kernels are fused: which launches share memory and are not one, why, and what can be done about it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.fusion import Cause, CodeFusion, LaunchRef, PairGroup, UnfusedLaunches, causes, fusion
from compiler_lens.facts.kernels.fusion_reasons import Reason
from compiler_lens.facts.kernels.library_calls import Library, Template, can_try, template_of
from compiler_lens.facts.overview.shared import provenance_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CompileId, Direction
from compiler_lens.recording.model import BufferAccess, Compilation, Environment, Recording, SourceLine
from compiler_lens.views import words
from compiler_lens.views.document import Block, Column, Document, Paragraph, Section, Table, line, paragraph
from compiler_lens.views.parts import Cell, Figure, KernelName, Kind, Places, Tone, code, quiet, strong
from compiler_lens.views.text import UNKNOWN, joined, number, plural, times

_PAIRS = 6
_NEIGHBOURS = 8
_NODES = 6

# What is said of a pair.
REASONS: Mapping[Reason, str] = {
    Reason.LIBRARY: "one is a library's",
    Reason.LIBRARIES: "both are calls of libraries",
    Reason.USER_KERNEL: "one is your own Triton kernel",
    Reason.DIFFERENT_ORDER: "they go through what they share in different orders",
    Reason.DIFFERENT_SIZES: "their loops have different lengths",
    Reason.TILING: "they are cut into blocks in different ways",
    Reason.IN_BETWEEN: "another kernel has to run between the two",
    Reason.TOO_MANY_OPS: "one kernel would have too many ops",
    Reason.TOO_MANY_BUFFERS: "one kernel would read and write too many buffers",
    Reason.PEAK_MEMORY: "one kernel would need more memory at once",
    Reason.FAR_APART: "they are far apart, and what the one makes would have to be kept for the other",
    Reason.LITTLE_SHARED: "they share next to nothing",
    Reason.SPILLS: "one kernel would run out of registers",
    Reason.BEFORE_TEMPLATE: "one is a template, which cannot take in the other as work on its inputs",
    Reason.AFTER_TEMPLATE: "one is a template, which cannot take in the other as work on its result",
    Reason.SWITCHED_OFF: "a setting forbids it",
    Reason.FOREACH: "one does the same to a list of tensors, and the other does not fit each of them",
    Reason.SCAN: "one is a scan over blocks, the other a reduction",
    Reason.STAGED: "one is a reduction in several steps already",
    Reason.STRICT_ORDER: "a reduction would add in another order, which its settings forbid",
    Reason.DEVICES: "they are on different devices",
    Reason.GROUPED: "one belongs to a group that must stay together",
    Reason.JOINED: "the first writes a part of a concatenation, and the second reads the whole",
    Reason.NO_KERNEL: "one only makes memory",
    Reason.NOT_TRIED: "torch gave no reason",
    Reason.OTHER: "torch's own word",
}

# What torch's own sentence leaves out.
_MEANT: Mapping[str, str] = {"no shared data": " (none that both go through in the same order)"}

LIBRARIES: Mapping[Library, str] = {
    Library.PRODUCT: "one is a library's matrix product",
    Library.CONVOLUTION: "one is a library's convolution",
    Library.ATTENTION: "one is a library's attention",
    Library.CHOSEN: "one is a library's kernel, which autotuning found fastest",
    Library.COPY: "one is a copy",
    Library.NO_LOWERING: "one is an op that Inductor calls as it is",
}

TEMPLATED = frozenset((Library.PRODUCT, Library.CONVOLUTION))  # what Inductor has templates for, on some device
_TRIED = 'mode="max-autotune" also tries kernels of Inductor\'s own, which can compute what follows: for {} pairs'
NO_TEMPLATES: Mapping[Template, str] = {
    Template.CONSTANT_WEIGHT: (
        "on a CPU Inductor has matrix products of its own only for weights that freezing makes constants"
    ),
    Template.NONE: "on a CPU Inductor has no convolution of its own",
}
_NOT_TRIED: Mapping[Template, str] = {
    Template.CONSTANT_WEIGHT: 'mode="max-autotune" alone changes nothing',
    Template.NONE: 'mode="max-autotune" changes nothing',
}

# What can be done, where something can. "{ops}": of the largest pair.
_ADVICE: Mapping[Reason, str] = {
    Reason.TOO_MANY_OPS: 'options={{"max_fusion_size": {ops}}} allows it; the default is 64',
    Reason.TOO_MANY_BUFFERS: 'options={{"max_fusion_unique_io_buffers": {buffers}}} allows it',
    Reason.TILING: (
        'options={{"triton.tiling_prevents_pointwise_fusion": False}} allows it, for slower access to memory, '
        "and triton.tiling_prevents_reduction_fusion likewise"
    ),
    Reason.SWITCHED_OFF: (
        "epilogue_fusion, prologue_fusion and cutlass.cutlass_epilogue_fusion_enabled are the settings, "
        'as options={{"epilogue_fusion": True}}'
    ),
    Reason.USER_KERNEL: (
        'options={{"epilogue_fusion_user_defined_triton_kernel": True}} lets simple work on its result go into it '
        "(torch 2.13 and later)"
    ),
}


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

    @classmethod
    def of(cls, pair: UnfusedLaunches) -> FusionPair:
        """Return the data of a pair."""
        first, second = FusionLaunch.of(pair.first), FusionLaunch.of(pair.second)
        return cls(first, second, pair.bytes, pair.unfused.shared, pair.unfused.reason)


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
        code, each = found.code, found.causes
        apart = (FusionCause(c.reason, c.library, c.bytes, tuple(map(FusionPair.of, c.pairs))) for c in each)
        repeated = (RepeatedNode(r.node, r.target, tuple(map(FusionLaunch.of, r.launches))) for r in found.repeated)
        again = (RecomputedNode(node.name, node.target) for node in found.rematerialized)
        return cls(
            code.compile_id, code.direction, code.ordinal, found.ops, found.launches, found.symbolic, tuple(apart),
            tuple(repeated), tuple(again),
        )  # fmt: skip


class Data(Struct, frozen=True):
    """The output codes of a recording, in its order."""

    codes: tuple[FusedCode, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return for each output code what was not fused, the costliest first."""
    codes = fusion(recording, selection)
    data = Data(tuple(map(FusedCode.of, codes)))
    if not codes and not recording.kernels:
        return Document((line("No kernels."),), data, count=0)
    if not codes:
        told = (
            "This recording does not say what launches read and write: Inductor reports it while it compiles. A "
            "TORCH_TRACE log does not have it, nor a cache that was filled without compiler_lens."
        )
        return Document((Section("Fusion", (paragraph(told, indent=2),)),), data, count=0)
    at = {(one.index, one.launch): one.lines for one in provenance_of(recording, selection).lineages}
    compilations = {c.compile_id: c for c in recording.compilations}
    sections = [Section("Fusion", (), _counts(sum(code.ops for code in codes), sum(code.launches for code in codes)))]
    for one in codes:
        compilation = compilations.get(one.code.compile_id)
        blocks: list[Block] = []
        if one.symbolic and one.causes:
            told = "sizes vary here: bytes are those of the call that it was compiled in"
            blocks.append(paragraph(told, indent=2, tone=Tone.QUIET))
        if not one.causes:
            blocks.append(line("no two launches share memory", indent=2))
        for cause in one.causes:
            blocks += _cause(cause, compilation, recording.environment, at)
        graph = f", graph {one.code.ordinal + 1}" if one.code.ordinal else ""
        title = f"[{one.code.compile_id}] {words.PASSES[one.code.direction]}{graph}"
        sections.append(Section(title, (*blocks, *_again(one)), _counts(one.ops, one.launches)))
    return Document(tuple(sections), data, count=len(codes))


_NEIGHBOUR = (
    Column("shares", Kind.BYTES, headless=True),
    Column("times", Kind.TIMES, headless=True),
    Column("runs", headless=True),
    Column("kernel", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
)


def neighbours(pairs: Sequence[UnfusedLaunches], index: int, *, for_page: bool) -> tuple[Block, ...]:
    """Return the launches that share memory with those of the kernel at this place, and are not part of it."""
    found: list[tuple[int, str, tuple[Cell, ...]]] = []
    for cause in causes(pairs):
        for alike in cause.groups:
            pair = alike.pairs[0]
            is_first = pair.first.index == index
            other = pair.second if is_first else pair.first
            which, name = "after it" if is_first else "before it", KernelName(other.kernel.name, other.index)
            why = pair.unfused.reason if cause.reason is Reason.OTHER else _why_apart(cause)
            found.append((alike.bytes, why, (_saved(alike), len(alike.pairs), which, name)))
    if not found:
        return ()
    found.sort(key=lambda one: -one[0])
    told = "what one kernel would not have to move, and why there are two"
    if for_page:
        columns = (*_NEIGHBOUR, Column("why there are two"))
        return (Section("Not fused with", (Table(columns, tuple((*row, why) for _, why, row in found)),), told),)
    blocks: list[Block] = [line(strong("not fused with"), quiet(f"  {told}"), indent=2)]
    for why, listed in grouped(found[:_NEIGHBOURS], lambda one: one[1]).items():
        rows = tuple(row for *_, row in listed)
        blocks += [paragraph(why, indent=4, limit=2), Table(_NEIGHBOUR, rows, indent=6)]
    more = len(found) - _NEIGHBOURS
    return (*blocks, *((line(quiet(f"… {more:,} more in --json"), indent=4),) if more > 0 else ()))


def _counts(ops: int, launches: int) -> str:
    counted = plural(launches, "launch", "launches")
    return f"{plural(ops, 'op')} in {counted}" if ops else counted


def _why_apart(cause: Cause) -> str:
    return LIBRARIES[cause.library] if cause.library else REASONS[cause.reason]


def _saved(group: PairGroup | Cause) -> int | str:
    is_known = any(access.bytes is not None for pair in group.pairs for access in pair.unfused.shared)
    return group.bytes if is_known else UNKNOWN


_PAIR = (
    Column("saves", Kind.BYTES, headless=True),
    Column("times", Kind.TIMES, headless=True),
    Column("kernel", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
    Column("next", flexible=True, middle=True, headless=True),
    Column("at", tone=Tone.QUIET, flexible=True, headless=True),
)


def _cause(
    cause: Cause,
    compilation: Compilation | None,
    environment: Environment,
    at: Mapping[tuple[int, int | None], tuple[SourceLine, ...]],
) -> Iterator[Block]:
    """Yield what a reason costs, what helps, and its pairs; `at` has the user's lines by kernel and launch."""
    saved = _saved(cause)
    cost = Figure(saved, Kind.BYTES, Tone.WARN) if isinstance(saved, int) else "an unknown amount"
    yield paragraph(cost, f" in {plural(len(cause.pairs), 'pair')}: ", _why_apart(cause), indent=2)
    if cause.reason is Reason.LIBRARIES:  # as many as the model has layers, and nothing to be done
        return
    advice = _remedy(cause, compilation, environment)
    if advice:
        yield paragraph(advice, indent=4, tone=Tone.QUIET)
    rows: list[tuple[Cell, ...]] = []
    for alike in cause.groups:
        first, second = alike.pairs[0].first, alike.pairs[0].second
        lines: list[SourceLine] = []
        for side in (first, second):
            lines += at.get((side.index, side.number)) or at.get((side.index, None), ())
        names = KernelName(first.kernel.name, first.index), KernelName(second.kernel.name, second.index, Tone.PLAIN)
        places = Places(tuple({place.place: place for place in lines}.values()), 2)
        rows.append((_saved(alike), len(alike.pairs), names[0], ("→ ", names[1]), places))
    yield Table(_PAIR, tuple(rows), indent=4, most=_PAIRS)
    said = Counter(pair.unfused.reason for pair in cause.pairs if pair.unfused.reason)
    if said:
        sentence = said.most_common(1)[0][0]
        others = f", and {plural(len(said) - 1, 'more of the kind', 'more of the kind')}" if len(said) > 1 else ""
        told = f"torch: {sentence}{_MEANT.get(sentence, '')}{others}"
        yield paragraph(told, indent=4, tone=Tone.QUIET, limit=2)


def _remedy(cause: Cause, compilation: Compilation | None, environment: Environment) -> str:
    """What to do about it, compiled in this way; empty where nothing is known to help."""
    if cause.library is not None and cause.library not in TEMPLATED:
        return ""
    if cause.library is not None:
        # A template takes in what follows the call that it stands for, not what comes before.
        helped = sum(can_try(pair.first.kernel, compilation, environment) for pair in cause.pairs)
        if helped:
            all_pairs = len(cause.pairs)
            return _TRIED.format("all of these" if helped == all_pairs else f"{helped:,} of these {all_pairs:,}")
        known = {template_of(side.kernel) for pair in cause.pairs for side in (pair.first, pair.second)} - {None}
        told = next((template for template in NO_TEMPLATES if known == {template}), None)
        return f"{NO_TEMPLATES[told]}: {_NOT_TRIED[told]}" if told else ""
    ops = buffers = 0
    for pair in cause.pairs:
        launches = pair.first.launch, pair.second.launch
        ops = max(ops, sum(len(launch.ops) for launch in launches))
        buffers = max(buffers, len({access.name for one in launches for access in (*one.reads, *one.writes)}))
    return _ADVICE.get(cause.reason, "").format(ops=ops, buffers=buffers)


def _again(found: CodeFusion) -> Iterator[Paragraph]:
    if found.repeated:
        names = [f"{words.op_name(node.target)} {times(len(node.launches))}" for node in found.repeated]
        yield _counted(f"{plural(len(names), 'op')} computed again in another launch, not stored: ", names)
    if found.rematerialized:
        names = [words.op_name(node.target) for node in found.rematerialized]
        told = f"{plural(len(names), 'op')} of the forward recomputed here, not kept for the backward: "
        yield _counted(told, names)


def _counted(told: str, names: Iterable[str]) -> Paragraph:
    ranked = [f"{number(count)} {name}" for name, count in Counter(names).most_common()]
    return paragraph(told, code(joined(ranked, _NODES)), indent=2, limit=3)
