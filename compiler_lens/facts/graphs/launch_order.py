"""The steps of a post-grad graph in the order of the launches that compute them, those of a launch together.

A launch may be parted all the same, by what is none of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import groupby
from math import inf

from msgspec import Struct
from msgspec.structs import replace

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
    # What no launch comes before, a transposed weight, stands where it is read; unread, where the graph has it.
    earliest = [inf] * len(ranks)
    for number in reversed(range(len(ranks))):
        if ranks[number] < 0 and earliest[number] < inf:
            ranks[number] = int(earliest[number])
        for each in reads[number] if ranks[number] >= 0 else ():
            earliest[each] = min(earliest[each], ranks[number])
    for number, rank in enumerate(ranks):
        if rank < 0 and number:
            ranks[number] = ranks[number - 1]
    member = [launch is not None and launch[0] == rank for launch, rank in zip(launched, ranks, strict=True)]
    after, ahead = list(member), list(member)  # reads what the launch makes; is read by it
    for number, before in enumerate(reads):
        after[number] |= any(after[each] and ranks[each] == ranks[number] for each in before)
    for number in reversed(range(len(reads))):
        for each in reads[number]:
            ahead[each] |= ahead[number] and ranks[each] == ranks[number]
    zones = [0 if after[number] and ahead[number] else 1 if after[number] else -1 for number in range(len(reads))]
    return list(zip(ranks, zones, own, strict=True))


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
    runs = _runs(steps, launched)
    for (before, _, _), (launch, places, only_views), (after, _, _) in zip(runs, runs[1:], runs[2:], strict=False):
        if launch is None and before and before == after and only_views:
            found[places.start : places.stop] = [before] * len(places)
    working = {launch[0] for launch, _, only_views in runs if launch and not only_views}
    for launch, places, only_views in _runs(steps, found):
        if launch and launch[0] in working and only_views:
            found[places.start : places.stop] = [None] * len(places)
    return found


def _runs(steps: Sequence[Step], launched: Sequence[Launched]) -> list[tuple[Launched, range, bool]]:
    """Each launch with the steps that stand together, and whether these are views alone."""
    runs = []
    for _, group in groupby(range(len(launched)), key=lambda number: launch_number(launched[number])):
        members = list(group)
        places = range(members[0], members[-1] + 1)
        runs.append((launched[members[0]], places, all(is_view(steps[place].node.target) for place in places)))
    return runs


class Share(Struct, frozen=True):
    """What of a launch stands in one box."""

    part: int  # counted from 1: where others' ops stand between its own, the launch has several boxes
    parts: int
    ops: int  # that do work: views do none
    again: int  # ops that an earlier launch computed already, and this one once more; given for the first part


def shares(steps: Sequence[Step], launched: Sequence[Launched], ops: Mapping[int, int]) -> Mapping[int, Share]:
    """Return what of its launch each run of steps is, by the run's first step; `ops`: how many each launch computes."""
    runs: dict[int, list[tuple[int, int]]] = {}  # of each launch: the first step of a run, and how many ops it has
    keys = [(launch_number(launch), calls_around(step)) for launch, step in zip(launched, steps, strict=False)]
    for (place, _), group in groupby(range(len(keys)), key=keys.__getitem__):
        if place is not None:
            members = list(group)
            own = sum(not is_view(node.target) for number in members for node in steps[number].nodes)
            runs.setdefault(place, []).append((members[0], own))
    found = {}
    for place, parts in runs.items():
        again = max(ops.get(place, 0) - sum(own for _, own in parts), 0)
        for part, (first, own) in enumerate(parts, 1):
            found[first] = Share(part, len(parts), own, 0 if part > 1 else again)
    return found


def launch_number(launch: Launched) -> int | None:
    """Return a launch's place among all of its output code."""
    return launch[0] if launch else None


def calls_around(step: Step) -> tuple[tuple[str, str], ...]:
    """Return the calls of higher-order ops that a step stands in."""
    return tuple((each.call.name, each.body) for each in step.within)
