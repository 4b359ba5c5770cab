"""Which boxes stand side by side, and in which order: the two choices that make a layered drawing readable."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Collection, Mapping, Sequence

Arcs = Sequence[tuple[int, int]]

_SWEEPS = 12


def neighbours(count: int, arcs: Arcs) -> tuple[list[list[int]], list[list[int]]]:
    """Return for each node those before and those after it."""
    before: list[list[int]] = [[] for _ in range(count)]
    after: list[list[int]] = [[] for _ in range(count)]
    for source, target in dict.fromkeys(arcs):
        before[target].append(source)
        after[source].append(target)
    return before, after


def ranks(count: int, arcs: Arcs, first: Collection[int] = (), last: Collection[int] = ()) -> list[int]:
    """Return a rank for each node, those it points to below it. `first` stand on top, `last` at the bottom."""
    before, after = neighbours(count, arcs)
    order = _topological(before, after)
    rank = [0] * count
    for node in order:
        rank[node] = max((rank[other] + 1 for other in before[node]), default=0)
    # What only serves others stands right above them, instead of at the top with a long line down.
    loose: set[int] = set()
    for node in order:
        if node not in first and len(after[node]) >= max(len(before[node]), 1) and loose.issuperset(before[node]):
            loose.add(node)
    for node in reversed(order):
        if node in loose:
            rank[node] = min(rank[other] for other in after[node]) - 1
    if first:
        lowest = min((rank[node] for node in range(count) if node not in first), default=1)
        rank = [each + max(1 - lowest, 0) for each in rank]
        for node in first:
            rank[node] = 0
    bottom = max(rank, default=0)
    deepest = max((rank[node] for node in range(count) if node not in last), default=-1)
    for node in last:
        rank[node] = max(deepest + 1, bottom)
    dense = {each: place for place, each in enumerate(sorted(set(rank)))}
    return [dense[each] for each in rank]


def _topological(before: Sequence[Sequence[int]], after: Sequence[Sequence[int]]) -> list[int]:
    missing = [len(each) for each in before]
    ready = [node for node, count in enumerate(missing) if not count]
    for node in ready:
        for other in after[node]:
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return ready


def ordered(layers: list[list[int]], arcs: Arcs, count: int) -> list[list[int]]:
    """Return the layers with their nodes in an order in which few arcs cross; arcs join neighbouring layers."""
    before, after = neighbours(count, arcs)
    place = {node: number for layer in layers for number, node in enumerate(layer)}
    best, fewest = [list(layer) for layer in layers], _crossings(layers, after, place)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        down = sweep % 2 == 0
        near = before if down else after
        for layer in layers if down else reversed(layers):
            middle = {}
            for node in layer:
                places = [place[other] for other in near[node]]
                middle[node] = (sum(places) / len(places) if places else place[node], place[node])
            layer.sort(key=middle.__getitem__)
            place.update((node, number) for number, node in enumerate(layer))
        crossings = _crossings(layers, after, place)
        if crossings < fewest:
            best, fewest = [list(layer) for layer in layers], crossings
    return best


def _crossings(layers: Sequence[Sequence[int]], after: Sequence[Sequence[int]], place: Mapping[int, int]) -> int:
    total = 0
    for layer in layers:
        seen: list[int] = []
        for node in layer:
            targets = sorted(place[other] for other in after[node])
            total += sum(len(seen) - bisect_right(seen, target) for target in targets)
            for target in targets:
                insort(seen, target)
    return total
