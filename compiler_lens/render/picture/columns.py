"""A tall stack of layers cut into columns, so that a long chain fits a screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log

from msgspec import Struct

_ASPECT = 1.5  # width to height that a picture should have
_MOST = 7
_LANE = 9.0  # between lines from one column to the next
_GUTTER = 26.0
_WINDOW = 0.25  # of a column's height, in which a cut may move to where fewer lines cross it

Arc = tuple[int, int]


class Stack(Struct, frozen=True):
    """Layers one above the other, each node at its x."""

    layers: Sequence[Sequence[int]]
    sizes: Sequence[tuple[float, float]]
    x: Sequence[float]
    arcs: Sequence[Arc]  # between neighbouring layers


class Column(Struct, frozen=True):
    """Some layers, one above the other."""

    first: int
    last: int  # one after the last
    tops: Sequence[float]  # of each layer
    shift: float  # to the right
    right: float
    top_line: float  # above it, lines from the column before turn
    bottom_line: float  # below it, lines to the next column turn
    # Of each line to the next column: how far out it turns below this one, and how far above the next.
    lanes: Mapping[Arc, tuple[float, float]]

    @property
    def bottom(self) -> float:
        """Where it ends with the lines below it."""
        return self.bottom_line + (_LANE * len(self.lanes) + 16 if self.lanes else 0)


def columns(stack: Stack, tallest: float, gap: float) -> list[Column]:
    """Return the layers in one column, or in several where that would be taller than `tallest`."""
    below = _below(stack)
    heights = [max(stack.sizes[node][1] for node in layer) for layer in stack.layers]
    lefts = [min(stack.x[n] - stack.sizes[n][0] / 2 for n in layer) for layer in stack.layers]
    rights = [max(stack.x[n] + stack.sizes[n][0] / 2 for n in layer) for layer in stack.layers]
    gaps = []
    ends = [0.0]
    for height, lines in zip(heights, below, strict=True):
        far = max((abs(stack.x[source] - stack.x[target]) for source, target in lines), default=0.0)
        gaps.append(gap + min(far / 14, gap * 1.2))  # more room where lines go far to the side
        ends.append(ends[-1] + height + gaps[-1])
    cuts = _cuts(ends, below, _count(ends[-1], max(rights) - min(lefts), tallest))
    most = max((len(below[last - 1]) for _, last in cuts[:-1]), default=0)
    head = most * _LANE + 24.0 if most else 0.0
    made: list[Column] = []
    left = 0.0
    for first, last in cuts:
        tops = [head]
        for level in range(first, last - 1):
            tops.append(tops[-1] + heights[level] + gaps[level])
        leftmost = min(lefts[first:last])
        right = left + max(rights[first:last]) - leftmost
        lanes = _lanes(below[last - 1])
        bottom = tops[-1] + heights[last - 1]
        made.append(Column(first, last, tops, left - leftmost, right, head - 8, bottom, lanes))
        left = right + 2 * _GUTTER + _LANE * len(lanes)
    return made


def _below(stack: Stack) -> list[list[Arc]]:
    """The lines from each layer to the next, from left to right."""
    rank = {node: number for number, layer in enumerate(stack.layers) for node in layer}
    found: list[list[Arc]] = [[] for _ in stack.layers]
    for arc in stack.arcs:
        found[rank[arc[0]]].append(arc)
    return [sorted(arcs, key=lambda arc: stack.x[arc[0]]) for arcs in found]


def _lanes(lines: Sequence[Arc]) -> Mapping[Arc, tuple[float, float]]:
    """The line that starts furthest to the left turns last, and comes in lowest: so they nest, and do not cross."""
    turns = [8 + _LANE * (number + 1) for number in range(len(lines))]
    return dict(zip(lines, zip(reversed(turns), turns, strict=True), strict=True))


def _count(height: float, width: float, tallest: float) -> int:
    if height <= tallest:
        return 1
    return min(range(1, _MOST + 1), key=lambda n: abs(log((n * (width + 2 * _GUTTER)) / (height / n) / _ASPECT)))


def _cuts(ends: Sequence[float], crossing: Sequence[Sequence[Arc]], count: int) -> list[tuple[int, int]]:
    """The first and last layer of each column; a cut moves to where few lines cross it."""
    cuts = [0]
    for number in range(1, count):
        ideal, room = ends[-1] * number / count, ends[-1] / count * _WINDOW
        near = [k for k in range(cuts[-1] + 1, len(ends) - 1) if abs(ends[k] - ideal) <= room]
        if near:
            cuts.append(min(near, key=lambda k: (len(crossing[k - 1]), abs(ends[k] - ideal))))
    return list(pairwise([*cuts, len(ends) - 1]))
