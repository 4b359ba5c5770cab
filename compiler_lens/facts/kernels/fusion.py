"""Neighbours that share memory and are not one kernel: what one would save, and why there are two."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.fusion_reasons import Reason, reason_of
from compiler_lens.facts.kernels.library_calls import Library, library_of
from compiler_lens.facts.kernels.lineage import bodies, is_view
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import CodeId, CompileId, Direction, LaunchId
from compiler_lens.recording.model import BufferAccess, Graph, Kernel, KernelKind, Launch, Node, Recording, UnfusedPair

_NUMBERED = re.compile(r"_\d+$")
_FOLDED = 64  # views of views


class LaunchRef(Struct, frozen=True):
    """One launch of a pair."""

    id: LaunchId
    index: int  # of the kernel in `Recording.kernels`
    number: int  # which of its launches, from 0
    kernel: Kernel
    launch: Launch


class UnfusedLaunches(Struct, frozen=True):
    """Two launches that share memory: `first` runs before `second`."""

    first: LaunchRef
    second: LaunchRef
    unfused: UnfusedPair  # the costliest of those between ops of the two, with all that they share, each buffer once
    bytes: int  # that one kernel in place of the two would not move, as far as it is known
    reason: Reason
    library: Library | None  # where the reason is Reason.LIBRARY


class PairGroup(Struct, frozen=True):
    """Pairs of the same two kernels for the same reason: one place of the model, as often as it has layers."""

    pairs: tuple[UnfusedLaunches, ...]  # the costliest first: it stands for all
    bytes: int  # that all of them move more than needed


class Cause(Struct, frozen=True):
    """All pairs that one reason keeps apart."""

    reason: Reason
    library: Library | None
    groups: tuple[PairGroup, ...]  # the costliest first
    pairs: tuple[UnfusedLaunches, ...]  # all of them
    bytes: int  # that it costs, each read counted once


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
    pairs = grouped(unfused(recording, selection), lambda pair: pair.unfused.code_id)
    known = (ref for ref in _launch_refs(recording) if selection.has(ref.kernel) and ref.launch.ops)
    refs = grouped(known, lambda ref: ref.kernel.code_id)
    graphs = {graph.id: graph for graph in recording.graphs}
    found: list[CodeFusion] = []
    for code, own in refs.items():
        named: set[str] = set()
        for ref in own:
            named.update(ref.launch.nodes or (ref.kernel.nodes if len(ref.kernel.launches) == 1 else ()))
        lowered, symbolic = graphs.get(code.graph), False
        if lowered is not None:
            named -= {node.name for body in bodies(lowered) for node in body.nodes if is_view(node.target)}
            specs = (spec for node in lowered.nodes for spec in node.specs)
            symbolic = any(isinstance(size, str) for spec in specs for size in spec.shape)
        traced = graphs.get(code.traced) if code.direction is Direction.BACKWARD else None
        again = tuple(n for n in traced.ops if not n.backward and n.inputs and not is_view(n.target)) if traced else ()
        repeated = _repeated(lowered, own) if lowered is not None else ()
        found.append(CodeFusion(code, len(named), len(own), causes(pairs.get(code, ())), repeated, again, symbolic))
    return tuple(found)


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
        groups[pair.reason, pair.library].setdefault((*names, pair.unfused.direction), []).append(pair)
    found: list[Cause] = []
    for (reason, library), each in groups.items():
        members = [PairGroup(tuple(listed), saved(listed)) for listed in each.values()]
        members.sort(key=lambda group: -group.bytes)
        together = tuple(pair for one in members for pair in one.pairs)
        found.append(Cause(reason, library, tuple(members), together, saved(together)))
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
    library = None
    if called:
        reason = Reason.LIBRARY if len(called) == 1 else Reason.LIBRARIES
        library = called[0] if len(called) == 1 else None
    elif KernelKind.USER in (first.kernel.kind, second.kernel.kind):
        reason = Reason.USER_KERNEL
    elif not {access.name for access in pair.shared} & {access.name for access in second.launch.reads}:
        reason = Reason.JOINED
    else:
        reason = reason_of(pair.reason)
    return UnfusedLaunches(first, second, pair, sum(access.bytes or 0 for access in pair.shared), reason, library)


def _launch_refs(recording: Recording) -> Iterator[LaunchRef]:
    for index, kernel in enumerate(recording.kernels):
        for number, launch in enumerate(kernel.launches):
            yield LaunchRef(kernel.launch_id(number), index, number, kernel, launch)


# Reductions are split into steps, and several launches compute a part of one.
_PARTLY = ("sum", "mean", "prod", "var", "std", "amax", "amin", "argmax", "argmin", "any", "all", "cumsum", "sort")


def _repeated(graph: Graph, refs: Sequence[LaunchRef]) -> tuple[Repeated, ...]:
    """Return the nodes that more than one launch computes, without views and reductions."""
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


# -- which nodes a launch computes, of all that torch counts to it


def computed(graph: Graph, launches: Sequence[Launch]) -> list[frozenset[str]]:
    """Return for each launch the nodes whose inputs it reads from memory, or makes itself out of what it reads.

    Inductor passes origins on: a template is also of what converted its weight, the second half of a split sum also of
    what went into the first. What a launch reads decides, and rather too few than too many: what is made of partial
    sums is left out.
    """
    memory = _Memory(graph, launches)
    order = {node.name: number for number, node in enumerate(graph.nodes)}
    found: list[frozenset[str]] = []
    for launch in launches:
        read = frozenset(access.name for access in launch.reads)
        known: dict[str, bool | None] = {}  # None: made of nothing that is in memory, a constant
        for name in sorted((name for name in launch.nodes if name in order), key=order.__getitem__):
            inputs = [memory.has(one, known, read) for one in memory.nodes[name].inputs]
            known[name] = None
            if inputs.count(None) < len(inputs):
                known[name] = False not in inputs
        found.append(frozenset(name for name, is_computed in known.items() if is_computed))
    return found


class _Memory:
    """The nodes of a graph, and the buffers that may hold what was stored of each."""

    def __init__(self, graph: Graph, launches: Sequence[Launch]) -> None:
        self.nodes: Mapping[str, Node] = {node.name: node for node in graph.nodes}
        self._written: dict[str, list[frozenset[str]]] = defaultdict(list)
        users: dict[str, set[str]] = defaultdict(set)
        for node in graph.nodes:
            for name in node.inputs:
                users[name].add(node.name)
        for launch in launches:
            own = set(launch.nodes)
            for name in own & self.nodes.keys():
                if not users[name] <= own:  # what only the launch itself uses is not stored
                    sizes = {spec.bytes for spec in self.nodes[name].specs}
                    is_any = None in sizes
                    fitting = (w.name for w in launch.writes if is_any or w.bytes is None or w.bytes in sizes)
                    self._written[name].append(frozenset(fitting))

    def has(self, name: str, known: Mapping[str, bool | None], read: frozenset[str]) -> bool | None:
        """Return whether a launch has an input, computed by itself or read; None for what is not in memory."""
        for _ in range(_FOLDED):
            node = self.nodes.get(name)
            if node is None or not node.specs or node.op == "get_attr":  # a size, or a constant with a name of its own
                return None
            if known.get(name, False) is not False:
                return known[name]
            stored = [frozenset((name,))] if node.op == "placeholder" else self._written.get(name, ())
            if any(not buffers.isdisjoint(read) for buffers in stored):
                return True
            if name in known or not is_view(node.target) or not node.inputs:
                return False
            name = node.inputs[0]
        return False
