"""Neighbours that share memory and are not one kernel: what one would save, and why there are two."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.facts.kernels.computed import computed
from compiler_lens.facts.kernels.fusion_reasons import Reason, reason_of
from compiler_lens.facts.kernels.library_calls import Library, library_of
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.ids import CodeId, CompileId, Direction, GraphId, LaunchId
from compiler_lens.recording.model import (
    BufferAccess,
    Graph,
    Kernel,
    KernelKind,
    Launch,
    Node,
    Recording,
    UnfusedPair,
)

_NUMBERED = re.compile(r"_\d+$")


@dataclass(frozen=True, slots=True)
class LaunchRef:
    """One launch of a pair."""

    index: int  # of the kernel in `Recording.kernels`
    number: int  # which of its launches, from 0
    kernel: Kernel

    @property
    def id(self) -> LaunchId:
        """Which launch it is."""
        return self.kernel.launch_id(self.number)

    @property
    def launch(self) -> Launch:
        """The launch itself."""
        return self.kernel.launches[self.number]


@dataclass(frozen=True, slots=True)
class UnfusedLaunches:
    """Two launches that share memory: `first` runs before `second`."""

    first: LaunchRef
    second: LaunchRef
    unfused: UnfusedPair  # the costliest of those between ops of the two, with all that they share, each buffer once
    reason: Reason
    library: Library | None = None  # where the reason is Reason.LIBRARY

    @property
    def bytes(self) -> int:
        """What one kernel in place of the two would not move, as far as it is known."""
        return sum(access.bytes or 0 for access in self.unfused.shared)

    @property
    def code(self) -> CodeId:
        """The output code that they are in."""
        return self.unfused.code_id


@dataclass(frozen=True, slots=True)
class PairGroup:
    """Pairs of the same two kernels for the same reason: one place of the model, as often as it has layers."""

    pairs: tuple[UnfusedLaunches, ...]

    @property
    def first(self) -> UnfusedLaunches:
        """The one that stands for all: the costliest."""
        return self.pairs[0]

    @property
    def bytes(self) -> int:
        """What all of them move more than needed."""
        return saved(self.pairs)


@dataclass(frozen=True, slots=True)
class Cause:
    """All pairs that one reason keeps apart."""

    reason: Reason
    library: Library | None
    groups: tuple[PairGroup, ...]  # the costliest first

    @property
    def pairs(self) -> tuple[UnfusedLaunches, ...]:
        """All of them."""
        return tuple(pair for one in self.groups for pair in one.pairs)

    @property
    def bytes(self) -> int:
        """What it costs, each read counted once."""
        return saved(self.pairs)


@dataclass(frozen=True, slots=True)
class Repeated:
    """A node that more than one launch computes: again, which costs less than to store it."""

    node: str  # of the post-grad graph
    target: str
    launches: tuple[LaunchRef, ...]


@dataclass(frozen=True, slots=True)
class CodeFusion:
    """One output code: how far it is fused."""

    code: CodeId
    ops: int  # that its launches compute: nodes of the graph, but for views; 0 where they are not known
    launches: int
    causes: tuple[Cause, ...]  # the costliest first
    repeated: tuple[Repeated, ...]
    rematerialized: tuple[Node, ...]  # of the forward, computed again in this backward
    symbolic: bool = False  # sizes are free: bytes are those of the call that it was compiled in


def fusion(recording: Recording, selection: Selection = EVERYTHING) -> tuple[CodeFusion, ...]:
    """Every output code whose launches are known, in the recording's order."""
    pairs: dict[CodeId, list[UnfusedLaunches]] = defaultdict(list)
    for pair in unfused(recording, selection):
        pairs[pair.code].append(pair)
    graphs = {graph.id: graph for graph in recording.graphs}
    sides: dict[CodeId, list[LaunchRef]] = defaultdict(list)
    for side in _sides(recording):
        if selection.has(side.kernel) and side.launch.ops:
            sides[side.kernel.code_id].append(side)
    return tuple(_code_fusion(code, listed, causes(pairs[code]), graphs) for code, listed in sides.items())


def _code_fusion(
    code: CodeId,
    sides: Sequence[LaunchRef],
    found: tuple[Cause, ...],
    graphs: Mapping[GraphId, Graph],
) -> CodeFusion:
    lowered = graphs.get(code.graph)
    backward = graphs.get(code.traced) if code.direction is Direction.BACKWARD else None
    return CodeFusion(
        code,
        _op_count(lowered, sides),
        len(sides),
        found,
        _repeated(lowered, sides),
        _rematerialized(backward),
        any(isinstance(n, str) for node in (lowered.nodes if lowered else ()) for s in node.specs for n in s.shape),
    )


def unfused(recording: Recording, selection: Selection = EVERYTHING) -> tuple[UnfusedLaunches, ...]:
    """Every pair of launches that share memory, once, with what keeps them apart."""
    chosen = [refusal for refusal in recording.unfused if selection.has(refusal)]
    if not chosen:
        return ()
    by_op = {(side.kernel.code_id, op): side for side in _sides(recording) for op in side.launch.ops}
    tuned = _tuned(recording)
    found: dict[frozenset[LaunchId], list[tuple[LaunchRef, LaunchRef, UnfusedPair]]] = defaultdict(list)
    for refusal in chosen:
        code = refusal.code_id
        first, second = by_op.get((code, refusal.first)), by_op.get((code, refusal.second))
        if first is not None and second is not None:
            found[frozenset((first.id, second.id))].append((first, second, refusal))
    return tuple(
        _apart(told[0][0], told[0][1], _as_one([refusal for *_, refusal in told]), tuned) for told in found.values()
    )


def causes(pairs: Iterable[UnfusedLaunches]) -> tuple[Cause, ...]:
    """The pairs by what keeps them apart, and among those by the kernels that they are of."""
    groups: dict[tuple[Reason, Library | None], dict[tuple[object, ...], list[UnfusedLaunches]]] = defaultdict(dict)
    for pair in sorted(pairs, key=lambda pair: -pair.bytes):
        names = (_stem(pair.first.kernel), _stem(pair.second.kernel), pair.code.direction)
        groups[pair.reason, pair.library].setdefault(names, []).append(pair)
    found = [
        Cause(reason, library, tuple(sorted((PairGroup(tuple(listed)) for listed in each.values()), key=_rank)))
        for (reason, library), each in groups.items()
    ]
    return tuple(sorted(found, key=_rank))


def neighbours(recording: Recording, indices: Collection[int]) -> Mapping[int, tuple[UnfusedLaunches, ...]]:
    """The pairs that the launches of kernels are part of, by place in `Recording.kernels`, the costliest first."""
    own = Selection(ids=frozenset(recording.kernels[index].compile_id for index in indices))
    found: dict[int, list[UnfusedLaunches]] = {index: [] for index in indices}
    for pair in sorted(unfused(recording, own), key=lambda pair: -pair.bytes):
        for index in {pair.first.index, pair.second.index} & found.keys():
            found[index].append(pair)
    return {index: tuple(pairs) for index, pairs in found.items()}


def saved(pairs: Iterable[UnfusedLaunches]) -> int:
    """Bytes that need not be moved, each read counted once: it can be saved in one way only."""
    most: dict[tuple[LaunchId, str], int] = {}
    for pair in pairs:
        for access in pair.unfused.shared:
            key = pair.second.id, access.name
            most[key] = max(most.get(key, 0), access.bytes or 0)
    return sum(most.values())


def _as_one(refusals: Sequence[UnfusedPair]) -> UnfusedPair:
    """What the scheduler said of its ops, two by two, as one word on two launches: the costliest says why."""
    ranked = sorted(refusals, key=lambda told: -sum(access.bytes or 0 for access in told.shared))
    shared: dict[str, BufferAccess] = {}
    for access in (access for told in ranked for access in told.shared):
        known = shared.setdefault(access.name, access)
        if (access.bytes or 0) > (known.bytes or 0):
            shared[access.name] = access
    reason = next((told.reason for told in ranked if told.reason), "")
    return replace(ranked[0], reason=reason, shared=tuple(shared.values()))


def _apart(
    first: LaunchRef, second: LaunchRef, refusal: UnfusedPair, tuned: Mapping[CompileId, frozenset[str]]
) -> UnfusedLaunches:
    called = [library for side in (first, second) if (library := library_of(side.kernel, tuned))]
    if called:
        reason = Reason.LIBRARY if len(called) == 1 else Reason.LIBRARIES
        return UnfusedLaunches(first, second, refusal, reason, called[0] if len(called) == 1 else None)
    if KernelKind.USER in (first.kernel.kind, second.kernel.kind):
        return UnfusedLaunches(first, second, refusal, Reason.USER_KERNEL)
    if not {access.name for access in refusal.shared} & {access.name for access in second.launch.reads}:
        return UnfusedLaunches(first, second, refusal, Reason.JOINED)
    return UnfusedLaunches(first, second, refusal, reason_of(refusal.reason))


def _tuned(recording: Recording) -> Mapping[CompileId, frozenset[str]]:
    """Ops for which a library's kernel won against Inductor's own."""
    found: dict[CompileId, set[str]] = defaultdict(set)
    for result in recording.autotunes:
        if result.winner is not None and result.winner.kind is KernelKind.EXTERN and len(result.choices) > 1:
            found[result.compile_id].add(result.op.rpartition(".")[2])
    return {compile_id: frozenset(ops) for compile_id, ops in found.items()}


def _sides(recording: Recording) -> Iterable[LaunchRef]:
    for index, kernel in enumerate(recording.kernels):
        for number in range(len(kernel.launches)):
            yield LaunchRef(index, number, kernel)


def _op_count(graph: Graph | None, sides: Sequence[LaunchRef]) -> int:
    nodes = (*graph.nodes, *(node for inner in graph.subgraphs for node in inner.nodes)) if graph else ()
    alone = (side.kernel.nodes if len(side.kernel.launches) == 1 else () for side in sides)
    computed_by = {name for side, whole in zip(sides, alone, strict=True) for name in side.launch.nodes or whole}
    return len(computed_by - {node.name for node in nodes if is_view(node.target)})


def _stem(kernel: Kernel) -> str:
    return _NUMBERED.sub("", kernel.name)


def _rank(group: PairGroup | Cause) -> int:
    return -group.bytes


# -- computed more than once


_PARTLY = ("sum", "mean", "prod", "var", "std", "amax", "amin", "argmax", "argmin", "any", "all", "cumsum", "sort")


def _repeated(graph: Graph | None, sides: Sequence[LaunchRef]) -> tuple[Repeated, ...]:
    """Nodes that more than one launch computes, views left out, and reductions, which are split into steps."""
    if graph is None:
        return ()
    targets = {n.name: n.target for n in graph.ops if not is_view(n.target) and not _is_reduction(n.target)}
    found: dict[str, list[LaunchRef]] = defaultdict(list)
    for side, names in zip(sides, computed(graph, [side.launch for side in sides]), strict=True):
        if library_of(side.kernel, {}) is None:
            for name in targets.keys() & names:
                found[name].append(side)
    return tuple(Repeated(n, target, tuple(found[n])) for n, target in targets.items() if len(found[n]) > 1)


def _is_reduction(target: str) -> bool:
    return any(direction.startswith(_PARTLY) for direction in target.split(".")[-2:])


def _rematerialized(graph: Graph | None) -> tuple[Node, ...]:
    nodes = graph.ops if graph else ()
    return tuple(node for node in nodes if not node.backward and node.inputs and not is_view(node.target))
