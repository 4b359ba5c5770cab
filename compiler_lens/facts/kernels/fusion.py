"""Neighbours that share memory and are not one kernel: what one would save, and why there are two."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.computed import computed
from compiler_lens.facts.kernels.fusion_reasons import Reason, reason_of
from compiler_lens.facts.kernels.library_calls import Library, library_of
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.ids import CodeId, CompileId, Direction, GraphId, LaunchId
from compiler_lens.recording.model import BufferAccess, Graph, Kernel, KernelKind, Launch, Node, Recording, UnfusedPair

_NUMBERED = re.compile(r"_\d+$")


class LaunchRef(Struct, frozen=True):
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


class UnfusedLaunches(Struct, frozen=True):
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


class PairGroup(Struct, frozen=True):
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


class Cause(Struct, frozen=True):
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


class Repeated(Struct, frozen=True):
    """A node that more than one launch computes: again, which costs less than to store it."""

    node: str  # of the post-grad graph
    target: str
    launches: tuple[LaunchRef, ...]


class CodeFusion(Struct, frozen=True):
    """One output code: how far it is fused."""

    code: CodeId
    ops: int  # that its launches compute: nodes of the graph, but for views; 0 where they are not known
    launches: int
    causes: tuple[Cause, ...]  # the costliest first
    repeated: tuple[Repeated, ...]
    rematerialized: tuple[Node, ...]  # of the forward, computed again in this backward
    symbolic: bool = False  # sizes are free: bytes are those of the call that it was compiled in


def fusion(recording: Recording, selection: Selection = EVERYTHING) -> tuple[CodeFusion, ...]:
    """Return how far each output code is fused whose launches are known, in the recording's order."""
    pairs: dict[CodeId, list[UnfusedLaunches]] = defaultdict(list)
    for pair in unfused(recording, selection):
        pairs[pair.code].append(pair)
    refs: dict[CodeId, list[LaunchRef]] = defaultdict(list)
    for ref in _launch_refs(recording):
        if selection.has(ref.kernel) and ref.launch.ops:
            refs[ref.kernel.code_id].append(ref)
    graphs = {graph.id: graph for graph in recording.graphs}
    return tuple(_code_fusion(code, listed, causes(pairs[code]), graphs) for code, listed in refs.items())


def _code_fusion(
    code: CodeId, refs: Sequence[LaunchRef], found: tuple[Cause, ...], graphs: Mapping[GraphId, Graph]
) -> CodeFusion:
    lowered = graphs.get(code.graph)
    traced = graphs.get(code.traced) if code.direction is Direction.BACKWARD else None
    views: set[str] = set()
    symbolic = False
    if lowered is not None:
        inner = [node for graph in lowered.subgraphs for node in graph.nodes]
        views.update(node.name for node in (*lowered.nodes, *inner) if is_view(node.target))
        symbolic = any(isinstance(size, str) for node in lowered.nodes for spec in node.specs for size in spec.shape)
    computed_by: set[str] = set()
    for ref in refs:
        alone = ref.kernel.nodes if len(ref.kernel.launches) == 1 else ()
        computed_by.update(ref.launch.nodes or alone)
    again = tuple(n for n in (traced.ops if traced else ()) if not n.backward and n.inputs and not is_view(n.target))
    return CodeFusion(code, len(computed_by - views), len(refs), found, _repeated(lowered, refs), again, symbolic)


def unfused(recording: Recording, selection: Selection = EVERYTHING) -> tuple[UnfusedLaunches, ...]:
    """Return every pair of launches that share memory, once, with what keeps them apart."""
    chosen = [pair for pair in recording.unfused if selection.has(pair)]
    if not chosen:
        return ()
    by_op = {(ref.kernel.code_id, op): ref for ref in _launch_refs(recording) for op in ref.launch.ops}
    won: dict[CompileId, set[str]] = defaultdict(set)  # ops for which a library's kernel won against Inductor's own
    for result in recording.autotunes:
        if result.winner is not None and result.winner.kind is KernelKind.EXTERN and len(result.choices) > 1:
            won[result.compile_id].add(result.op.rpartition(".")[2])
    found: dict[frozenset[LaunchId], list[UnfusedPair]] = defaultdict(list)
    refs: dict[frozenset[LaunchId], tuple[LaunchRef, LaunchRef]] = {}
    for pair in chosen:
        first, second = by_op.get((pair.code_id, pair.first)), by_op.get((pair.code_id, pair.second))
        if first is not None and second is not None:
            both = frozenset((first.id, second.id))
            refs.setdefault(both, (first, second))
            found[both].append(pair)
    return tuple(_unfused(*refs[both], _as_one(pairs), won) for both, pairs in found.items())


def causes(pairs: Iterable[UnfusedLaunches]) -> tuple[Cause, ...]:
    """Group pairs by what keeps them apart, and among those by the kernels that they are of; the costliest first."""
    groups: dict[tuple[Reason, Library | None], dict[tuple[object, ...], list[UnfusedLaunches]]] = defaultdict(dict)
    for pair in sorted(pairs, key=lambda pair: -pair.bytes):
        names = [_NUMBERED.sub("", ref.kernel.name) for ref in (pair.first, pair.second)]
        groups[pair.reason, pair.library].setdefault((*names, pair.code.direction), []).append(pair)
    found: list[Cause] = []
    for (reason, library), each in groups.items():
        members = sorted((PairGroup(tuple(listed)) for listed in each.values()), key=lambda group: -group.bytes)
        found.append(Cause(reason, library, tuple(members)))
    return tuple(sorted(found, key=lambda cause: -cause.bytes))


def neighbours(recording: Recording, indices: Collection[int]) -> Mapping[int, tuple[UnfusedLaunches, ...]]:
    """Return the pairs that launches of kernels are part of, by place in `Recording.kernels`, the costliest first."""
    own = Selection(ids=frozenset(recording.kernels[index].compile_id for index in indices))
    found: dict[int, list[UnfusedLaunches]] = {index: [] for index in indices}
    for pair in sorted(unfused(recording, own), key=lambda pair: -pair.bytes):
        for index in {pair.first.index, pair.second.index} & found.keys():
            found[index].append(pair)
    return {index: tuple(pairs) for index, pairs in found.items()}


def saved(pairs: Iterable[UnfusedLaunches]) -> int:
    """Return how many bytes need not be moved, each read counted once: it can be saved in one way only."""
    most: dict[tuple[LaunchId, str], int] = {}
    for pair in pairs:
        for access in pair.unfused.shared:
            key = pair.second.id, access.name
            most[key] = max(most.get(key, 0), access.bytes or 0)
    return sum(most.values())


def _as_one(pairs: Sequence[UnfusedPair]) -> UnfusedPair:
    """Return what the scheduler said of ops, two by two, as one word on two launches: the costliest says why."""
    ranked = sorted(pairs, key=lambda pair: -sum(access.bytes or 0 for access in pair.shared))
    shared: dict[str, BufferAccess] = {}
    for pair in ranked:
        for access in pair.shared:
            known = shared.setdefault(access.name, access)
            if (access.bytes or 0) > (known.bytes or 0):
                shared[access.name] = access
    reason = next((pair.reason for pair in ranked if pair.reason), "")
    return replace(ranked[0], reason=reason, shared=tuple(shared.values()))


def _unfused(
    first: LaunchRef, second: LaunchRef, pair: UnfusedPair, won: Mapping[CompileId, Collection[str]]
) -> UnfusedLaunches:
    called = [library for ref in (first, second) if (library := library_of(ref.kernel, won))]
    if called:
        reason = Reason.LIBRARY if len(called) == 1 else Reason.LIBRARIES
        return UnfusedLaunches(first, second, pair, reason, called[0] if len(called) == 1 else None)
    if KernelKind.USER in (first.kernel.kind, second.kernel.kind):
        reason = Reason.USER_KERNEL
    elif not {access.name for access in pair.shared} & {access.name for access in second.launch.reads}:
        reason = Reason.JOINED
    else:
        reason = reason_of(pair.reason)
    return UnfusedLaunches(first, second, pair, reason)


def _launch_refs(recording: Recording) -> Iterator[LaunchRef]:
    for index, kernel in enumerate(recording.kernels):
        for number in range(len(kernel.launches)):
            yield LaunchRef(index, number, kernel)


# Reductions are split into steps, and several launches compute a part of one.
_PARTLY = ("sum", "mean", "prod", "var", "std", "amax", "amin", "argmax", "argmin", "any", "all", "cumsum", "sort")


def _repeated(graph: Graph | None, refs: Sequence[LaunchRef]) -> tuple[Repeated, ...]:
    """Return the nodes that more than one launch computes, without views and reductions."""
    if graph is None:
        return ()
    targets: dict[str, str] = {}
    for node in graph.ops:
        is_reduction = any(part.startswith(_PARTLY) for part in node.target.split(".")[-2:])
        if not is_reduction and not is_view(node.target):
            targets[node.name] = node.target
    found: dict[str, list[LaunchRef]] = defaultdict(list)
    for ref, names in zip(refs, computed(graph, [ref.launch for ref in refs]), strict=True):
        if library_of(ref.kernel, {}) is None:
            for name in targets.keys() & names:
                found[name].append(ref)
    return tuple(Repeated(n, target, tuple(found[n])) for n, target in targets.items() if len(found[n]) > 1)
