"""What the scheduler made one kernel and what it left apart, joined with the launches that compute it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.kernels import KernelNodes, by_graph
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId, Direction, GraphId, LaunchId
from compiler_lens.recording.model import BufferAccess, Kernel, Launch, UnfusedPair
from compiler_lens.recording.shape import Count, shaped

# Nodes of Inductor's scheduler, by their class or that of the IR node, that no kernel computes: memory and views of
# it, parts of a tuple, calls of a subgraph, numbers and checks on the host.
NO_KERNEL = frozenset(
    (
        "NopKernelSchedulerNode", "MultiOutput", "Conditional", "Switch", "WhileLoop", "InvokeSubgraph",
        "DynamicScalar", "DynamicSelectStorageOffset", "DynamicSliceSize", "AssertScalar", "SubgraphBuffer",
        "TMADescriptorExperimental", "TMADescriptorStable",
    )
)  # fmt: skip

Ops = tuple[str, ...]
Accesses = tuple[BufferAccess, ...]


class FinalNode(Struct, frozen=True):
    """A node of Inductor's scheduler after fusion."""

    ops: Ops  # what was fused in it
    kind: str  # the scheduler's class, or of what it calls as it is the IR's
    reads: Accesses
    writes: Accesses


class Fusion(Struct, frozen=True):
    """Our hook's word on one output code: its nodes after fusion, and pairs that share memory and were left apart."""

    compile_id: CompileId
    direction: Direction
    nodes: tuple[FinalNode, ...]
    unfused: tuple[tuple[str, str, str, Accesses], ...]  # the first op of each, torch's reason, what they share

    @property
    def computed(self) -> list[FinalNode]:
        """The nodes that some kernel computes."""
        return [node for node in self.nodes if node.kind not in NO_KERNEL]


_Rows = tuple[tuple[str, Count | None], ...]  # buffers, each with its bytes


class _Scheduled(Struct, frozen=True):
    part: Direction
    nodes: tuple[tuple[Ops, str, _Rows, _Rows], ...]
    refusals: tuple[tuple[str, str, str, _Rows], ...]


def read_fusion(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Fusion, ...]:
    """Read the scheduler's nodes after fusion, and the pairs that it left apart."""
    told = shaped(_Scheduled, event.meta)
    nodes = tuple(FinalNode(ops, kind, _read(reads), _read(writes)) for ops, kind, reads, writes in told.nodes)
    unfused = tuple((first, second, reason, _read(shared)) for first, second, reason, shared in told.refusals)
    return (Fusion(compile_id, told.part, nodes, unfused),)


def _read(rows: _Rows) -> Accesses:
    return tuple(BufferAccess(name, size) for name, size in rows)


# -- joined


def join_fusion(
    kernels: Sequence[Kernel], told: Iterable[KernelNodes], fusions: Iterable[Fusion]
) -> tuple[tuple[Kernel, ...], tuple[UnfusedPair, ...]]:
    """Return the same kernels with what each launch is made of, and the pairs of launches that share memory."""
    finals = by_graph(kernels, [fusion for fusion in fusions if fusion.computed])
    calls = by_graph(kernels, told)
    own: dict[GraphId, list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        own[kernel.code_id.graph].append(index)
    joined, unfused = list(kernels), []
    for graph, fusion in finals.items():
        if graph not in calls:
            continue
        here = [joined[index] for index in own[graph]]
        ops = _filled(here, _ops_told(here, calls[graph]), fusion.computed)
        nodes = {op: node for node in fusion.computed for op in node.ops}
        sizes: dict[str, int] = defaultdict(int)  # of all that they read and write
        for node in fusion.computed:
            for access in (*node.reads, *node.writes):
                sizes[access.name] = max(sizes[access.name], access.bytes or 0)
        for index, kernel in zip(own[graph], here, strict=True):
            own_ops = [ops.get(kernel.launch_id(n), ()) for n in range(len(kernel.launches))]
            launches = [_launch(*each, nodes, sizes) for each in zip(kernel.launches, own_ops, strict=True)]
            joined[index] = replace(kernel, launches=tuple(launches))
        launched = {op: launch for launch, listed in ops.items() for op in listed}
        for first, second, reason, shared in fusion.unfused:
            if first in launched and second in launched and launched[first] != launched[second]:
                code = here[0].code_id
                pair = UnfusedPair(code.compile_id, code.direction, first, second, reason, shared, code.ordinal)
                unfused.append(pair)
    return tuple(joined), tuple(unfused)


def _ops_told(kernels: Iterable[Kernel], calls: KernelNodes) -> dict[LaunchId, Ops]:
    lists: dict[str, list[Ops]] = defaultdict(list)
    for (name, _), ops in zip(calls.kernels, calls.ops, strict=False):
        lists[name].append(ops)
    found: dict[LaunchId, Ops] = {}
    for kernel in kernels:
        listed = lists.get(kernel.name, [])
        if len(kernel.launches) == 1 and listed:  # of a combo kernel the hook gets the parts one by one
            found[kernel.launch_id(0)] = tuple(dict.fromkeys(op for ops in listed for op in ops))
        elif len(listed) == len(kernel.launches):  # both are in the order of code generation
            found.update({kernel.launch_id(n): ops for n, ops in enumerate(listed)})
    return found


def _filled(
    kernels: Sequence[Kernel], told: dict[LaunchId, Ops], finals: Sequence[FinalNode]
) -> Mapping[LaunchId, Ops]:
    """What no hook sees (a copy between devices, a scatter), by its place among what was seen."""
    at = {op: number for number, node in enumerate(finals) for op in node.ops}
    kinds = {kernel.name: kernel.kind for kernel in kernels}
    lines = [(launch.line, kernel.launch_id(n)) for kernel in kernels for n, launch in enumerate(kernel.launches)]
    in_order = [launch for _, launch in sorted(lines, key=lambda each: each[0])]
    taken = {at[op] for ops in told.values() for op in ops if op in at}
    found, before = dict(told), -1
    runs = [(known, list(run)) for known, run in groupby(in_order, key=lambda launch: launch in told)]
    for number, (is_told, run) in enumerate(runs):
        if is_told:
            before = max((at.get(op, -1) for launch in run for op in told[launch]), default=before)
            continue
        following = runs[number + 1][1] if number + 1 < len(runs) else []
        after = min((at.get(op, len(finals)) for op in told[following[0]]), default=-1) if following else len(finals)
        left = [finals[n] for n in range(before + 1, after) if n not in taken]
        # A reduction in two directions is one node, a kernel, and sums of what the kernel left: codegen/simd.py.
        launches = run if len(run) == len(left) else [one for one in run if not kinds[one.kernel].is_library]
        if len(launches) == len(left):
            found.update({launch: node.ops for launch, node in zip(launches, left, strict=True)})
    return found


def _launch(launch: Launch, ops: Ops, nodes: Mapping[str, FinalNode], sizes: Mapping[str, int]) -> Launch:
    mine = {nodes[op].ops: nodes[op] for op in ops if op in nodes}
    if sum(map(len, mine)) != len(ops):  # a part of a node, of which only the whole is known
        mine = {}
    reads: dict[str, int] = {}
    writes: dict[str, int] = {}
    for node in mine.values():
        # Of several nodes in one kernel (C++ has such), what an earlier one wrote is not read from memory.
        own = {access.name: access.bytes or 0 for access in node.reads if access.name not in writes}
        for name, size in own.items():  # each may read a part of its own, and together no more than there is
            reads[name] = min(reads.get(name, 0) + size, sizes[name])
        for access in node.writes:
            writes[access.name] = max(writes.get(access.name, 0), access.bytes or 0)
    return replace(launch, ops=ops, reads=_accesses(reads), writes=_accesses(writes))


def _accesses(sizes: Mapping[str, int]) -> Accesses:
    return tuple(BufferAccess(name, size or None) for name, size in sizes.items())
