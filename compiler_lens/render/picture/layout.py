"""Positions for boxes and lines between them: layers from top to bottom, long ones in columns side by side.

Ours, because nothing that pip brings does it all: see docs/decisions.md. Pure geometry: it knows no graph.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from math import (
    fsum,  # sum() rounds otherwise since Python 3.12, and a picture would be another
    log,
)

from msgspec import Struct

from compiler_lens.render.picture.ranks import neighbours, ordered, ranks

Point = tuple[float, float]
Arc = tuple[int, int]

GAP_X = 22.0
GAP_Y = 30.0
_LINE = 10.0  # the room that a line has which passes by boxes
_FOOT = 20.0  # below the lowest box of an opened group
_RELAXATIONS = 10
_STILL = 0.25
_STRAIGHT = 6.0  # how much more than boxes long lines want to be straight
_ASPECT = 1.5  # width to height that a picture should have
_COLUMNS = 7  # at most
_LANE = 9.0  # between lines from one column to the next
_GUTTER = 26.0
_WINDOW = 0.25  # of a column's height, in which a cut may move to where fewer lines cross it


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
    trunks: dict[int, list[int]] = {}  # for each point of a long line, all points of that line
    chains: list[list[int]] = []  # for each link its nodes, from box to box
    arcs: Sequence[Arc] = ()
    before: Sequence[Sequence[int]] = ()  # of each node: those above it that an arc joins it with
    after: Sequence[Sequence[int]] = ()
    layers: Sequence[Sequence[int]] = ()
    x: list[float] = []  # centres; then corners, and where along its boxes each line ends
    lefts: list[float] = []
    tops: list[float] = []
    home: Mapping[int, _Column] = {}  # of each rank
    enters: dict[Arc, float] = {}
    leaves: dict[Arc, float] = {}


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
    rank = ranks(len(sizes), [(link.source, link.target) for link in links], first, last)
    work = _work(sizes, links, rank)
    _spread(work)
    return _to_the_edge(_placed(work, links, len(sizes), tallest), sizes, links, first, last)


def _work(sizes: Sequence[tuple[float, float]], links: Sequence[Link], rank: list[int]) -> _Work:
    work = _Work(list(sizes), rank)
    lines: dict[tuple[int, float | None], list[int]] = {}
    trunks: dict[tuple[int, float | None, int], int] = {}
    arcs: dict[Arc, None] = {}
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
    layers: list[list[int]] = [[] for _ in range(max(work.rank) + 1)]
    for node, level in enumerate(work.rank):
        layers[level].append(node)
    work.arcs = list(arcs)
    work.before, work.after = neighbours(len(work.sizes), work.arcs)
    work.layers = ordered(layers, work.arcs, len(work.sizes))
    work.x = [0.0] * len(work.sizes)
    return work


# -- from left to right


def _spread(work: _Work) -> None:
    """Place each node near the middle of its neighbours, without any two on top of each other."""
    for layer in work.layers:
        _settle(work, layer, [0.0] * len(layer), [1.0] * len(layer))
    for turn in range(_RELAXATIONS):
        near, was = (work.after if turn % 2 else work.before), list(work.x)
        for layer in reversed(work.layers) if turn % 2 else work.layers:
            wanted, weights = [], []
            for node in layer:
                is_line = node in work.trunks and any(other in work.trunks for other in near[node])
                wanted.append(_middle(work, node, near[node]))
                weights.append(_STRAIGHT if is_line else 1.0 if near[node] else 0.1)
            _settle(work, layer, wanted, weights)
        if _is_still(was, work.x):
            break
    both = [[*above, *below] for above, below in zip(work.before, work.after, strict=True)]
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


def _settle(work: _Work, layer: Sequence[int], wanted: Sequence[float], weights: Sequence[float]) -> None:
    """As near as possible to where they want to be, in order and apart: pools of neighbours that push each other."""
    if len(layer) == 1:
        work.x[layer[0]] = wanted[0]
        return
    offsets = [0.0]
    for left, right in pairwise(layer):
        lines = (work.sizes[left][1] == 0) + (work.sizes[right][1] == 0)
        gap = (GAP_X, GAP_X * 0.6, 4.0)[lines]
        offsets.append(offsets[-1] + (work.sizes[left][0] + work.sizes[right][0]) / 2 + gap)
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


# -- from top to bottom, in columns


class _Column(Struct, frozen=True):
    """Some layers, one above the other: so that a long chain fits a screen."""

    first: int
    last: int  # one after the last
    tops: Sequence[float]  # of each layer
    shift: float  # to the right
    right: float
    top_line: float  # above it, lines from the column before turn
    bottom_line: float  # below it, lines to the next column turn
    # Of each line to the next column: how far out it turns below this one, and how far above the next.
    lanes: Mapping[Arc, tuple[float, float]]


def _columns(work: _Work, tallest: float) -> list[_Column]:
    """The layers in one column, or in several where that would be taller than `tallest`."""
    below: list[list[Arc]] = [[] for _ in work.layers]  # the lines from each layer to the next, from left to right
    for arc in sorted(work.arcs, key=lambda arc: work.x[arc[0]]):
        below[work.rank[arc[0]]].append(arc)
    heights = [max(work.sizes[node][1] for node in layer) for layer in work.layers]
    lefts = [min(work.x[n] - work.sizes[n][0] / 2 for n in layer) for layer in work.layers]
    rights = [max(work.x[n] + work.sizes[n][0] / 2 for n in layer) for layer in work.layers]
    gaps, ends = [], [0.0]
    for height, lines in zip(heights, below, strict=True):
        far = max((abs(work.x[source] - work.x[target]) for source, target in lines), default=0.0)
        gaps.append(GAP_Y + min(far / 14, GAP_Y * 1.2))  # more room where lines go far to the side
        ends.append(ends[-1] + height + gaps[-1])
    cuts = _cuts(ends, below, max(rights) - min(lefts), tallest)
    most = max((len(below[last - 1]) for _, last in cuts[:-1]), default=0)
    head = most * _LANE + 24.0 if most else 0.0
    made, left = [], 0.0
    for first, last in cuts:
        tops = [head]
        for level in range(first, last - 1):
            tops.append(tops[-1] + heights[level] + gaps[level])
        # The line that starts furthest to the left turns last, and comes in lowest: so they nest, and do not cross.
        turns = [8 + _LANE * (number + 1) for number in range(len(below[last - 1]))]
        lanes = dict(zip(below[last - 1], zip(reversed(turns), turns, strict=True), strict=True))
        leftmost, bottom = min(lefts[first:last]), tops[-1] + heights[last - 1]
        right = left + max(rights[first:last]) - leftmost
        made.append(_Column(first, last, tops, left - leftmost, right, head - 8, bottom, lanes))
        left = right + 2 * _GUTTER + _LANE * len(lanes)
    return made


def _cuts(
    ends: Sequence[float], crossing: Sequence[Sequence[Arc]], width: float, tallest: float
) -> list[tuple[int, int]]:
    """The first and last layer of each column; a cut moves to where few lines cross it."""
    height, count, cuts = ends[-1], 1, [0]
    if height > tallest:
        ways = range(1, _COLUMNS + 1)
        count = min(ways, key=lambda n: abs(log((n * (width + 2 * _GUTTER)) / (height / n) / _ASPECT)))
    for number in range(1, count):
        ideal, room = height * number / count, height / count * _WINDOW
        near = [k for k in range(cuts[-1] + 1, len(ends) - 1) if abs(ends[k] - ideal) <= room]
        if near:
            cuts.append(min(near, key=lambda k: (len(crossing[k - 1]), abs(ends[k] - ideal))))
    return list(pairwise([*cuts, len(ends) - 1]))


def _placed(work: _Work, links: Sequence[Link], count: int, tallest: float) -> Placement:
    columns = _columns(work, tallest)
    work.home = {level: column for column in columns for level in range(column.first, column.last)}
    for node, level in enumerate(work.rank):
        column = work.home[level]
        work.lefts.append(work.x[node] - work.sizes[node][0] / 2 + column.shift)
        work.tops.append(column.tops[level - column.first])
    for node in range(len(work.sizes)):
        work.enters.update(((other, node), x) for other, x in _along(work, node, work.before[node]))
        work.leaves.update(((node, other), x) for other, x in _along(work, node, work.after[node]))
    routes = tuple(tuple(_route(work, link, chain)) for link, chain in zip(links, work.chains, strict=True))
    places = tuple(zip(work.lefts[:count], work.tops[:count], strict=True))
    bottoms = [each.bottom_line + (_LANE * len(each.lanes) + 16 if each.lanes else 0) for each in columns]
    return Placement(max(column.right for column in columns), max(bottoms), places, routes)


def _along(work: _Work, node: int, near: Sequence[int]) -> list[tuple[int, float]]:
    """Where along a box the lines to others end: in the order of where these are, apart from each other."""
    width, middle = work.sizes[node][0], work.lefts[node] + work.sizes[node][0] / 2
    if node in work.trunks:
        return [(other, middle) for other in near]
    if len(near) == 1:
        aside = work.x[near[0]] - work.x[node]
        straight = abs(aside) < width * 0.4 and work.sizes[near[0]][0] < width
        return [(near[0], middle + aside if straight else middle)]
    step = min(width * 0.8 / max(len(near), 1), 26.0)
    start = middle - step * (len(near) - 1) / 2
    return [(other, start + number * step) for number, other in enumerate(sorted(near, key=lambda n: work.x[n]))]


def _route(work: _Work, link: Link, chain: Sequence[int]) -> Iterator[Point]:
    """The points that a line goes through, from box to box."""
    for source, target in pairwise(chain):
        out, into = work.leaves[source, target], work.enters[source, target]
        if source == link.source and link.leaves is not None:
            out = work.lefts[source] + link.leaves
        if target == link.target and link.enters is not None:
            into = work.lefts[target] + link.enters
        depth = work.sizes[source][1]
        if not depth:  # a line passes the whole layer
            depth = max(work.sizes[other][1] for other in work.layers[work.rank[source]])
        yield out, work.tops[source] + depth
        above, below = work.home[work.rank[source]], work.home[work.rank[target]]
        if above is not below:
            turn, drop = above.lanes[source, target]
            gutter = above.right + turn
            yield from ((out, above.bottom_line + turn), (gutter, above.bottom_line + turn))
            yield from ((gutter, below.top_line - drop), (into, below.top_line - drop))
        yield into, work.tops[target]


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
