"""Joins launches with the scheduler's nodes that they compute: what they read and write, which were not fused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby

from compiler_lens.fold_kernels import Place, in_place, place_of
from compiler_lens.model import BufferAccess, Kernel, KernelKind, Refusal
from compiler_lens.readers import NO_KERNEL
from compiler_lens.readers.facts import FinalNode, Fusion, KernelNodes

# A launch: the kernel's place in the list of all, and the launch's among the kernel's.
Spot = tuple[int, int]
Ops = tuple[str, ...]


def join_fusion(
    kernels: Sequence[Kernel], told: Iterable[KernelNodes], fusions: Iterable[Fusion]
) -> tuple[tuple[Kernel, ...], tuple[Refusal, ...]]:
    """The same kernels with what each launch is made of, and the pairs of launches that share memory."""
    finals = in_place(kernels, [fusion for fusion in fusions if _computed(fusion)])
    calls = in_place(kernels, told)
    places: dict[Place, list[int]] = defaultdict(list)
    for index, kernel in enumerate(kernels):
        places[place_of(kernel)].append(index)
    joined, refusals = list(kernels), []
    for place in [place for place in finals if place in calls]:
        here = {index: joined[index] for index in places[place]}
        ops = _filled(here, _told_ops(here, calls[place]), _computed(finals[place]))
        for index, kernel in here.items():
            joined[index] = _with_ops(kernel, index, ops, _computed(finals[place]))
        refusals += _refusals(here, ops, finals[place])
    return tuple(joined), tuple(refusals)


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


def _with_ops(kernel: Kernel, index: int, ops: Mapping[Spot, Ops], finals: Sequence[FinalNode]) -> Kernel:
    by_op = {op: node for node in finals for op in node.ops}
    launches = []
    for number, launch in enumerate(kernel.launches):
        mine = ops.get((index, number), ())
        nodes = {by_op[op].ops: by_op[op] for op in mine if op in by_op}
        if sum(map(len, nodes)) != len(mine):  # a part of a node, of which only the whole is known
            nodes = {}
        reads, writes = _accesses(nodes.values())
        launches.append(replace(launch, ops=mine, reads=reads, writes=writes))
    return replace(kernel, launches=tuple(launches))


def _accesses(nodes: Iterable[FinalNode]) -> tuple[tuple[BufferAccess, ...], tuple[BufferAccess, ...]]:
    """Of several nodes in one kernel (C++ has such), what an earlier one wrote is not read from memory."""
    reads: dict[str, BufferAccess] = {}
    writes: dict[str, BufferAccess] = {}
    for node in nodes:
        for access in node.reads:
            if access.name not in writes:
                reads[access.name] = max(reads.get(access.name, access), access, key=_size)
        for access in node.writes:
            writes[access.name] = max(writes.get(access.name, access), access, key=_size)
    return tuple(reads.values()), tuple(writes.values())


def _size(access: BufferAccess) -> int:
    return access.bytes or 0


def _refusals(kernels: Mapping[int, Kernel], ops: Mapping[Spot, Ops], fusion: Fusion) -> list[Refusal]:
    spots = {op: spot for spot, listed in ops.items() for op in listed}
    any_kernel = next(iter(kernels.values()))
    return [
        Refusal(any_kernel.compile_id, any_kernel.part, first, second, reason, shared, any_kernel.ordinal)
        for first, second, reason, shared in fusion.apart
        if first in spots and second in spots and spots[first] != spots[second]
    ]
