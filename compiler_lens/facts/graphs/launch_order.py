"""The steps of a post-grad graph in the order of the launches that compute them, those of a launch together."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import inf

from msgspec.structs import replace

from compiler_lens.facts.graphs.launch_shares import launch_number
from compiler_lens.facts.kernels.graph_flow import Flow, Step
from compiler_lens.facts.kernels.launches import Launched
from compiler_lens.facts.kernels.lineage import is_view

_Reads = Sequence[Sequence[int]]  # of each step: the steps that make what it reads


def order_of_launches(flow: Flow, launched: Sequence[Launched]) -> tuple[Flow, list[Launched]]:
    """Return the same flow with the steps of a launch next to each other, and each step's launch in that order.

    What reads one step of a launch and is read by another, and is of another launch or none, parts the two.
    """
    makers = flow.makers
    reads = [[makers[name] for name in step.reads if name in makers] for step in flow.steps]
    order = _sorted(reads, _keys(reads, launched))
    steps = tuple(flow.steps[number] for number in order)
    placed = {node.name: number for number, step in enumerate(steps) for node in step.nodes}
    return replace(flow, steps=steps, makers=placed), _with_views(steps, [launched[number] for number in order])


def _keys(reads: _Reads, launched: Sequence[Launched]) -> list[tuple[int, int, int]]:
    """Of each step: the launch that it cannot stand before, whether before, in or after its steps, its own launch."""
    own: list[int] = []
    ranks: list[int] = []
    for before, launch in zip(reads, launched, strict=True):
        own.append(launch[0] if launch else max((own[each] for each in before), default=-1))
        ranks.append(max((own[-1], *(ranks[each] for each in before))))
    _settle(reads, ranks)
    member = [launch is not None and launch[0] == rank for launch, rank in zip(launched, ranks, strict=True)]
    after, ahead = list(member), list(member)  # reads what the launch makes; is read by it
    for number, before in enumerate(reads):
        after[number] |= any(after[each] and ranks[each] == ranks[number] for each in before)
    for number in reversed(range(len(reads))):
        for each in reads[number]:
            ahead[each] |= ahead[number] and ranks[each] == ranks[number]
    zones = [0 if after[number] and ahead[number] else 1 if after[number] else -1 for number in range(len(reads))]
    return list(zip(ranks, zones, own, strict=True))


def _settle(reads: _Reads, ranks: list[int]) -> None:
    """What no launch comes before, a transposed weight, stands where it is read; unread, where the graph has it."""
    earliest = [inf] * len(ranks)
    for number in reversed(range(len(ranks))):
        if ranks[number] < 0 and earliest[number] < inf:
            ranks[number] = int(earliest[number])
        for each in reads[number] if ranks[number] >= 0 else ():
            earliest[each] = min(earliest[each], ranks[number])
    for number, rank in enumerate(ranks):
        if rank < 0 and number:
            ranks[number] = ranks[number - 1]


def _sorted(reads: _Reads, keys: Sequence[tuple[int, int, int]]) -> list[int]:
    """The steps by their keys, as far as each still reads only earlier ones."""
    readers: list[list[int]] = [[] for _ in reads]
    waiting = [len(set(before)) for before in reads]
    for number, before in enumerate(reads):
        for each in set(before):
            readers[each].append(number)
    ready = [(keys[number], number) for number, count in enumerate(waiting) if not count]
    heapify(ready)
    order = []
    while ready:
        _, number = heappop(ready)
        order.append(number)
        for each in readers[number]:
            waiting[each] -= 1
            if not waiting[each]:
                heappush(ready, (keys[each], each))
    return order


def _with_views(steps: Sequence[Step], launched: Sequence[Launched]) -> list[Launched]:
    """Views between two steps of a launch cost nothing, and belong to it; views alone are no part of one."""
    found = list(launched)
    runs = _runs(launched)
    for before, (launch, places), after in zip(runs, runs[1:], runs[2:], strict=False):
        if launch is None and before[0] and before[0] == after[0] and _all_views(steps, places):
            found[places[0] : places[-1] + 1] = [before[0]] * len(places)
    working = {launch[0] for launch, places in runs if launch and not _all_views(steps, places)}
    for launch, places in _runs(found):
        if launch and launch[0] in working and _all_views(steps, places):
            found[places[0] : places[-1] + 1] = [None] * len(places)
    return found


def _runs(launched: Sequence[Launched]) -> list[tuple[Launched, list[int]]]:
    runs = [list(run) for _, run in groupby(range(len(launched)), key=lambda number: launch_number(launched[number]))]
    return [(launched[places[0]], places) for places in runs]


def _all_views(steps: Sequence[Step], places: Sequence[int]) -> bool:
    return all(is_view(steps[place].node.target) for place in places)
