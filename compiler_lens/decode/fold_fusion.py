"""Joins launches with the scheduler's nodes that they compute: what they read and write, which were not fused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from compiler_lens.decode import NO_KERNEL
from compiler_lens.decode.facts import FinalNode, Fusion, KernelNodes
from compiler_lens.decode.fold_kernels import Place, in_place, place_of
from compiler_lens.recording.model import BufferAccess, Kernel, KernelKind, UnfusedPair

# A launch: the kernel's place in the list of all, and the launch's among the kernel's.
Spot = tuple[int, int]
Ops = tuple[str, ...]
Accesses = tuple[BufferAccess, ...]


def join_fusion(
    kernels: Sequence[Kernel], told: Iterable[KernelNodes], fusions: Iterable[Fusion]
) -> tuple[tuple[Kernel, ...], tuple[UnfusedPair, ...]]:
    """The same kernels with what each launch is made of, and the pairs of launches that share memory."""
    finals = in_place(kernels, [fusion for fusion in fusions if _computed(fusion)])
    calls = in_place(kernels, told)
    places: dict[Place, list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        places[place_of(kernel)].append(index)
    joined, unfused = list(kernels), []
    for place in [place for place in finals if place in calls]:
        here = {index: joined[index] for index in places[place]}
        nodes = _computed(finals[place])
        ops, known = _filled(here, _told_ops(here, calls[place]), nodes), _Known(nodes)
        for index, kernel in here.items():
            joined[index] = _with_ops(kernel, index, ops, known)
        unfused += _unfused(here, ops, finals[place])
    return tuple(joined), tuple(unfused)


class _Known:
    """The nodes of one output code that have a kernel, by op, and the sizes of all that they read and write."""

    def __init__(self, finals: Sequence[FinalNode]) -> None:
        self.by_op = {op: node for node in finals for op in node.ops}
        self.sizes: dict[str, int] = defaultdict(int)
        for node in finals:
            for access in (*node.reads, *node.writes):
                self.sizes[access.name] = max(self.sizes[access.name], access.bytes or 0)


def _computed(fusion: Fusion) -> list[FinalNode]:
    return [node for node in fusion.nodes if node.kind not in NO_KERNEL]


def _told_ops(kernels: Mapping[int, Kernel], calls: KernelNodes) -> dict[Spot, Ops]:
    lists: dict[str, list[Ops]] = defaultdict(list)
    for (name, _), ops in zip(calls.kernels, calls.ops, strict=False):
        lists[name].append(ops)
    found: dict[Spot, Ops] = {}
    for index, kernel in kernels.items():
        listed = lists.get(kernel.name, [])
        if len(kernel.launches) == 1 and listed:  # a combo kernel hears of its parts one by one
            found[index, 0] = tuple(dict.fromkeys(op for ops in listed for op in ops))
        elif len(listed) == len(kernel.launches):  # both are in the order of code generation
            found.update({(index, n): ops for n, ops in enumerate(listed)})
    return found


def _filled(kernels: Mapping[int, Kernel], told: dict[Spot, Ops], finals: Sequence[FinalNode]) -> Mapping[Spot, Ops]:
    """What no hook hears of (a copy between devices, a scatter), by its place among what was told."""
    at = {op: number for number, node in enumerate(finals) for op in node.ops}
    spots = [(kernel.launches[n].line, (i, n)) for i, kernel in kernels.items() for n in range(len(kernel.launches))]
    taken = {at[op] for ops in told.values() for op in ops if op in at}
    found, before = dict(told), -1
    runs = [(known, list(run)) for known, run in groupby((s for _, s in sorted(spots)), key=lambda s: s in told)]
    for number, (is_told, run) in enumerate(runs):
        if is_told:
            before = max((at.get(op, -1) for spot in run for op in told[spot]), default=before)
            continue
        following = runs[number + 1][1] if number + 1 < len(runs) else []
        after = min((at.get(op, len(finals)) for op in told[following[0]]), default=-1) if following else len(finals)
        found.update(_matched(kernels, run, [n for n in range(before + 1, after) if n not in taken], finals))
    return found


def _matched(
    kernels: Mapping[int, Kernel], run: Sequence[Spot], numbers: Sequence[int], finals: Sequence[FinalNode]
) -> dict[Spot, Ops]:
    # A reduction in two directions is one node, a kernel, and sums of what the kernel left: codegen/simd.py.
    generated = [spot for spot in run if kernels[spot[0]].kind not in (KernelKind.FALLBACK, KernelKind.EXTERN)]
    spots = run if len(run) == len(numbers) else generated
    if len(spots) != len(numbers):
        return {}
    return {spot: finals[number].ops for spot, number in zip(spots, numbers, strict=True)}


def _with_ops(kernel: Kernel, index: int, ops: Mapping[Spot, Ops], known: _Known) -> Kernel:
    launches = []
    for number, launch in enumerate(kernel.launches):
        mine = ops.get((index, number), ())
        nodes = {known.by_op[op].ops: known.by_op[op] for op in mine if op in known.by_op}
        if sum(map(len, nodes)) != len(mine):  # a part of a node, of which only the whole is known
            nodes = {}
        reads, writes = _accesses(nodes.values(), known.sizes)
        launches.append(replace(launch, ops=mine, reads=reads, writes=writes))
    return replace(kernel, launches=tuple(launches))


def _accesses(nodes: Iterable[FinalNode], sizes: Mapping[str, int]) -> tuple[Accesses, Accesses]:
    """Of several nodes in one kernel (C++ has such), what an earlier one wrote is not read from memory."""
    reads: dict[str, int] = {}
    writes: dict[str, int] = {}
    for node in nodes:
        own = {access.name: access.bytes or 0 for access in node.reads if access.name not in writes}
        for name, size in own.items():  # each may read a part of its own, and together no more than there is
            reads[name] = min(reads.get(name, 0) + size, sizes[name])
        for access in node.writes:
            writes[access.name] = max(writes.get(access.name, 0), access.bytes or 0)
    return _rows(reads), _rows(writes)


def _rows(sizes: Mapping[str, int]) -> Accesses:
    return tuple(BufferAccess(name, size or None) for name, size in sizes.items())


def _unfused(kernels: Mapping[int, Kernel], ops: Mapping[Spot, Ops], fusion: Fusion) -> list[UnfusedPair]:
    spots = {op: spot for spot, listed in ops.items() for op in listed}
    any_kernel = next(iter(kernels.values()))
    return [
        UnfusedPair(any_kernel.compile_id, any_kernel.direction, first, second, reason, shared, any_kernel.ordinal)
        for first, second, reason, shared in fusion.unfused
        if first in spots and second in spots and spots[first] != spots[second]
    ]
