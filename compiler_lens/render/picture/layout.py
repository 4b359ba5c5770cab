"""Positions for boxes and lines between them: layers from top to bottom, long ones in columns side by side.

Ours, because nothing that pip brings does it all: see docs/decisions.md. Pure geometry: it knows no graph.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import pairwise
from math import fsum  # sum() rounds otherwise since Python 3.12, and a picture would be another

from msgspec import Struct

from compiler_lens.render.picture.columns import Column, Stack, columns
from compiler_lens.render.picture.ranks import neighbours, ordered, ranks

Point = tuple[float, float]

GAP_X = 22.0
GAP_Y = 30.0
_LINE = 10.0  # the room that a line has which passes by boxes
_FOOT = 20.0  # below the lowest box of an opened group
_RELAXATIONS = 10
_STILL = 0.25
_STRAIGHT = 6.0  # how much more than boxes long lines want to be straight


class Link(Struct, frozen=True):
    """A line to be drawn. `leaves` and `enters` are places along the two boxes, where these are given."""

    source: int
    target: int
    leaves: float | None = None
    enters: float | None = None


class Placement(Struct, frozen=True):
    """Where everything is. Boxes by their upper left corner."""

    width: float
    height: float
    places: tuple[Point, ...]
    routes: tuple[tuple[Point, ...], ...]  # for each link: where it starts, the points it goes through, where it ends


class _Work(Struct):
    """A layout under way: boxes first, then the points at which long lines pass a layer."""

    sizes: list[tuple[float, float]]
    rank: list[int]
    arcs: list[tuple[int, int]]
    chains: list[list[int]]  # for each link its nodes, from box to box
    layers: list[list[int]]
    x: list[float]  # centres
    trunks: dict[int, list[int]]  # for each point of a long line, all points of that line


def place(
    sizes: Sequence[tuple[float, float]],
    links: Sequence[Link],
    *,
    first: Collection[int] = (),
    last: Collection[int] = (),
    tallest: float = 1000.0,
) -> Placement:
    """Lay boxes out from top to bottom; the links must not form a circle.

    Args:
        sizes: width and height of each box, in pixels like all that comes back.
        links: the lines between them.
        first: boxes that only mark the upper edge.
        last: boxes that only mark the lower edge.
        tallest: the height above which the layers are cut into columns.
    """
    if not sizes:
        return Placement(0, 0, (), ())
    work = _work(sizes, links, first, last)
    _spread(work)
    return _to_the_edge(_placed(work, links, len(sizes), tallest), sizes, links, first, last)


def _work(
    sizes: Sequence[tuple[float, float]], links: Sequence[Link], first: Collection[int], last: Collection[int]
) -> _Work:
    count = len(sizes)
    rank = ranks(count, [(link.source, link.target) for link in links], first, last)
    work = _Work(list(sizes), rank, [], [], [], [], {})
    lines: dict[tuple[int, float | None], list[int]] = {}
    trunks: dict[tuple[int, float | None, int], int] = {}
    arcs: dict[tuple[int, int], None] = {}
    for link in links:
        chain = [link.source]
        for level in range(rank[link.source] + 1, rank[link.target]):
            # Lines from one place to several go together as far as they can.
            key = (link.source, link.leaves, level)
            if key not in trunks:
                trunks[key] = len(work.sizes)
                work.sizes.append((_LINE, 0.0))
                work.rank.append(level)
                line = lines.setdefault((link.source, link.leaves), [])
                line.append(trunks[key])
                work.trunks[trunks[key]] = line
            chain.append(trunks[key])
        chain.append(link.target)
        work.chains.append(chain)
        arcs.update(dict.fromkeys(pairwise(chain)))
    work.arcs = list(arcs)
    layers: list[list[int]] = [[] for _ in range(max(work.rank) + 1)]
    for node, level in enumerate(work.rank):
        layers[level].append(node)
    work.layers = ordered(layers, work.arcs, len(work.sizes))
    work.x = [0.0] * len(work.sizes)
    return work


# -- from left to right


def _spread(work: _Work) -> None:
    """Place each node near the middle of its neighbours, without any two on top of each other."""
    before, after = neighbours(len(work.sizes), work.arcs)
    both = [[*before[node], *after[node]] for node in range(len(work.sizes))]
    for layer in work.layers:
        _settle(work, layer, [0.0] * len(layer), [1.0] * len(layer))
    for turn in range(_RELAXATIONS):
        near, was = (after if turn % 2 else before), list(work.x)
        for layer in reversed(work.layers) if turn % 2 else work.layers:
            wanted = [_middle(work, node, near[node]) for node in layer]
            _settle(work, layer, wanted, [_weight(work, node, near[node]) for node in layer])
        if _is_still(was, work.x):
            break
    for _ in range(_RELAXATIONS):
        was = list(work.x)
        straight = {line[0]: fsum(work.x[node] for node in line) / len(line) for line in work.trunks.values()}
        for layer in work.layers:
            wanted, weights = [], []
            for node in layer:
                line = work.trunks.get(node)
                wanted.append(straight[line[0]] if line else _middle(work, node, both[node]))
                weights.append(_STRAIGHT if line else 1.0)
            _settle(work, layer, wanted, weights)
        if _is_still(was, work.x):
            break


def _is_still(before: Sequence[float], after: Sequence[float]) -> bool:
    return all(abs(one - other) < _STILL for one, other in zip(before, after, strict=True))


def _middle(work: _Work, node: int, near: Sequence[int]) -> float:
    return fsum(work.x[other] for other in near) / len(near) if near else work.x[node]


def _weight(work: _Work, node: int, near: Sequence[int]) -> float:
    if not near:
        return 0.1
    return _STRAIGHT if node in work.trunks and any(other in work.trunks for other in near) else 1.0


def _settle(work: _Work, layer: Sequence[int], wanted: Sequence[float], weights: Sequence[float]) -> None:
    """As near as possible to where they want to be, in order and apart: pools of neighbours that push each other."""
    if len(layer) == 1:
        work.x[layer[0]] = wanted[0]
        return
    offsets = [0.0]
    for left, right in pairwise(layer):
        offsets.append(offsets[-1] + (work.sizes[left][0] + work.sizes[right][0]) / 2 + _gap(work, left, right))
    pools: list[tuple[float, float, int]] = []  # sum of wishes, weight, members
    for want, weight, offset in zip(wanted, weights, offsets, strict=True):
        pool = ((want - offset) * weight, weight, 1)
        while pools and pools[-1][0] / pools[-1][1] > pool[0] / pool[1]:
            last = pools.pop()
            pool = (last[0] + pool[0], last[1] + pool[1], last[2] + pool[2])
        pools.append(pool)
    places = [total / weight for total, weight, members in pools for _ in range(members)]
    for node, start, offset in zip(layer, places, offsets, strict=True):
        work.x[node] = start + offset


def _gap(work: _Work, left: int, right: int) -> float:
    lines = (work.sizes[left][1] == 0) + (work.sizes[right][1] == 0)
    return (GAP_X, GAP_X * 0.6, 4.0)[lines]


# -- from top to bottom, in columns


def _placed(work: _Work, links: Sequence[Link], count: int, tallest: float) -> Placement:
    cols = columns(Stack(work.layers, work.sizes, work.x, work.arcs), tallest, GAP_Y)
    home = {level: column for column in cols for level in range(column.first, column.last)}
    lefts, tops = [], []
    for node, level in enumerate(work.rank):
        lefts.append(work.x[node] - work.sizes[node][0] / 2 + home[level].shift)
        tops.append(home[level].tops[level - home[level].first])
    grid = _Grid(work, lefts, tops, home, *_ports(work, lefts))
    routes = tuple(tuple(grid.route(link, chain)) for link, chain in zip(links, work.chains, strict=True))
    places = tuple(zip(lefts[:count], tops[:count], strict=True))
    return Placement(max(column.right for column in cols), max(column.bottom for column in cols), places, routes)


def _to_the_edge(
    placed: Placement,
    sizes: Sequence[tuple[float, float]],
    links: Sequence[Link],
    first: Collection[int],
    last: Collection[int],
) -> Placement:
    """What stands first or last, moved to the very edge with the lines that end there.

    What only marks the edge needs no room of its own.
    """
    routes = [route[:-1] if link.target in last else route for link, route in zip(links, placed.routes, strict=True)]
    height = placed.height
    if last:
        lowest = [y + sizes[node][1] for node, (_, y) in enumerate(placed.places) if node not in last]
        lowest += [y for route in routes for _, y in route]
        height = min(height, max(lowest, default=height) + _FOOT)
    for number, (link, whole) in enumerate(zip(links, placed.routes, strict=True)):
        if link.source in first:
            routes[number] = ((whole[0][0], 0.0), *routes[number])
        if link.target in last:
            routes[number] = (*routes[number], (whole[-1][0], height))
    places = [(x, 0.0 if node in first else height if node in last else y) for node, (x, y) in enumerate(placed.places)]
    return Placement(placed.width, height, tuple(places), tuple(routes))


Ports = dict[tuple[int, int], float]


def _ports(work: _Work, lefts: Sequence[float]) -> tuple[Ports, Ports]:
    """Where along a box each line ends: in the order of where it comes from, apart from each other."""
    before, after = neighbours(len(work.sizes), work.arcs)
    enters: Ports = {}
    leaves: Ports = {}
    for node in range(len(work.sizes)):
        enters.update(((other, node), x) for other, x in _along(work, node, before[node], lefts))
        leaves.update(((node, other), x) for other, x in _along(work, node, after[node], lefts))
    return enters, leaves


def _along(work: _Work, node: int, near: Sequence[int], lefts: Sequence[float]) -> list[tuple[int, float]]:
    width, middle = work.sizes[node][0], lefts[node] + work.sizes[node][0] / 2
    if node in work.trunks:
        return [(other, middle) for other in near]
    if len(near) == 1:
        aside = work.x[near[0]] - work.x[node]
        straight = abs(aside) < width * 0.4 and work.sizes[near[0]][0] < width
        return [(near[0], middle + aside if straight else middle)]
    step = min(width * 0.8 / max(len(near), 1), 26.0)
    start = middle - step * (len(near) - 1) / 2
    return [(other, start + number * step) for number, other in enumerate(sorted(near, key=lambda n: work.x[n]))]


class _Grid(Struct, frozen=True):
    """Everything at its place, for lines to be drawn."""

    work: _Work
    lefts: Sequence[float]
    tops: Sequence[float]
    home: dict[int, Column]  # of each rank
    enters: Ports
    leaves: Ports

    def route(self, link: Link, chain: Sequence[int]) -> list[Point]:
        points: list[Point] = []
        for source, target in pairwise(chain):
            out, into = self.leaves[source, target], self.enters[source, target]
            if source == link.source and link.leaves is not None:
                out = self.lefts[source] + link.leaves
            if target == link.target and link.enters is not None:
                into = self.lefts[target] + link.enters
            points += self._segment(source, target, out, into)
        return points

    def _segment(self, source: int, target: int, out: float, into: float) -> list[Point]:
        above, below = self.home[self.work.rank[source]], self.home[self.work.rank[target]]
        depth = self.work.sizes[source][1]
        if not depth:  # a line passes the whole layer
            depth = max(self.work.sizes[other][1] for other in self.work.layers[self.work.rank[source]])
        points = [(out, self.tops[source] + depth)]
        if above is not below:
            turn, drop = above.lanes[source, target]
            gutter = above.right + turn
            points += [(out, above.bottom_line + turn), (gutter, above.bottom_line + turn)]
            points += [(gutter, below.top_line - drop), (into, below.top_line - drop)]
        return [*points, (into, self.tops[target])]
