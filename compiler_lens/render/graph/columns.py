"""A tall stack of layers cut into columns, so that a long chain fits a screen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import log

_ASPECT = 1.5  # width to height that a picture should have
_MOST = 7
_LANE = 9.0  # between lines from one column to the next
_GUTTER = 26.0
_WINDOW = 0.25  # of a column's height, in which a cut may move to where fewer lines cross it


@dataclass(slots=True)
class Column:
    """Some layers, one above the other."""

    first: int
    last: int  # one behind the last
    tops: list[float]  # of each layer
    shift: float = 0.0  # to the right
    right: float = 0.0
    bottom: float = 0.0
    bottom_line: float = 0.0  # below it, lines to the next column turn
    top_line: float = 0.0
    # Of each line to the next column: how far out it turns below this one, and how far above the next.
    lanes: dict[tuple[int, int], tuple[float, float]] = field(default_factory=dict)


def columns(
    layers: Sequence[Sequence[int]],
    sizes: Sequence[tuple[float, float]],
    x: Sequence[float],
    arcs: Sequence[tuple[int, int]],
    tallest: float,
    gap: float,
) -> list[Column]:
    """The layers in one column, or in several where that would be taller than `tallest`."""
    heights = [max(sizes[node][1] for node in layer) for layer in layers]
    gaps = _gaps(layers, arcs, x, gap)
    spans = [
        (min(x[n] - sizes[n][0] / 2 for n in layer), max(x[n] + sizes[n][0] / 2 for n in layer)) for layer in layers
    ]
    crossing = _crossing(layers, arcs)
    ends = [0]
    for height, below in zip(heights, gaps, strict=True):
        ends.append(ends[-1] + height + below)
    width = max(right for _, right in spans) - min(left for left, _ in spans)
    cuts = _cuts(ends, crossing, _count(ends[-1], width, tallest))
    return _laid(cuts, heights, gaps, spans, crossing, x)


def _gaps(
    layers: Sequence[Sequence[int]], arcs: Sequence[tuple[int, int]], x: Sequence[float], gap: float
) -> list[float]:
    """More room below a layer whose lines go far to the side."""
    rank = {node: number for number, layer in enumerate(layers) for node in layer}
    far = [0.0] * len(layers)
    for source, target in arcs:
        far[rank[source]] = max(far[rank[source]], abs(x[source] - x[target]))
    return [gap + min(each / 14, gap * 1.2) for each in far]


def _crossing(layers: Sequence[Sequence[int]], arcs: Sequence[tuple[int, int]]) -> list[list[tuple[int, int]]]:
    rank = {node: number for number, layer in enumerate(layers) for node in layer}
    found: list[list[tuple[int, int]]] = [[] for _ in layers]
    for arc in arcs:
        found[rank[arc[0]]].append(arc)
    return found


def _count(height: float, width: float, tallest: float) -> int:
    if height <= tallest:
        return 1
    return min(range(1, _MOST + 1), key=lambda n: abs(log((n * (width + 2 * _GUTTER)) / (height / n) / _ASPECT)))


def _cuts(ends: Sequence[float], crossing: Sequence[Sequence[tuple[int, int]]], count: int) -> list[tuple[int, int]]:
    """The first and last layer of each column; a cut moves to where few lines cross it."""
    cuts = [0]
    for number in range(1, count):
        ideal, room = ends[-1] * number / count, ends[-1] / count * _WINDOW
        near = [k for k in range(cuts[-1] + 1, len(ends) - 1) if abs(ends[k] - ideal) <= room]
        if near:
            cuts.append(min(near, key=lambda k: (len(crossing[k - 1]), abs(ends[k] - ideal))))
    return list(pairwise([*cuts, len(ends) - 1]))


def _laid(
    cuts: Sequence[tuple[int, int]],
    heights: Sequence[float],
    gaps: Sequence[float],
    spans: Sequence[tuple[float, float]],
    crossing: Sequence[Sequence[tuple[int, int]]],
    x: Sequence[float],
) -> list[Column]:
    most = max((len(crossing[last - 1]) for _, last in cuts[:-1]), default=0)
    head = most * _LANE + (24.0 if most else 0.0)
    made: list[Column] = []
    left = 0.0
    for first, last in cuts:
        column = Column(first, last, [])
        y = head
        for level in range(first, last):
            column.tops.append(y)
            column.bottom = y + heights[level]
            y += heights[level] + gaps[level]
        column.shift = left - min(spans[level][0] for level in range(first, last))
        column.right = (
            left + max(spans[k][1] for k in range(first, last)) - min(spans[k][0] for k in range(first, last))
        )
        column.top_line = head - 8
        # The line that starts furthest to the left turns last, and comes in lowest: so they nest, and do not cross.
        lines = sorted(crossing[last - 1], key=lambda arc: x[arc[0]]) if last < len(heights) else []
        turns = [8 + _LANE * (number + 1) for number in range(len(lines))]
        column.lanes = dict(zip(lines, zip(reversed(turns), turns, strict=True), strict=True))
        left = column.right + 2 * _GUTTER + _LANE * len(lines)
        made.append(column)
    for column in made:
        column.bottom_line = column.bottom
        if column.lanes:
            column.bottom += max(turn for turn, _ in column.lanes.values()) + 8
    return made
