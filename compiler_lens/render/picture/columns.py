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


@dataclass(frozen=True, slots=True)
class Stack:
    """Layers one above the other, each node at its x."""

    layers: Sequence[Sequence[int]]
    sizes: Sequence[tuple[float, float]]
    x: Sequence[float]
    arcs: Sequence[tuple[int, int]]  # between neighbouring layers

    def heights(self) -> list[float]:
        """How tall each layer is."""
        return [max(self.sizes[node][1] for node in layer) for layer in self.layers]

    def gaps(self, gap: float) -> list[float]:
        """The room below each layer: more where lines go far to the side."""
        far = [max((abs(self.x[a] - self.x[b]) for a, b in arcs), default=0.0) for arcs in self.below()]
        return [gap + min(each / 14, gap * 1.2) for each in far]

    def spans(self) -> list[tuple[float, float]]:
        """The left and right end of each layer."""
        return [
            (min(self.x[n] - self.sizes[n][0] / 2 for n in layer), max(self.x[n] + self.sizes[n][0] / 2 for n in layer))
            for layer in self.layers
        ]

    def below(self) -> list[list[tuple[int, int]]]:
        """The lines from each layer to the next, from left to right."""
        rank = {node: number for number, layer in enumerate(self.layers) for node in layer}
        found: list[list[tuple[int, int]]] = [[] for _ in self.layers]
        for arc in self.arcs:
            found[rank[arc[0]]].append(arc)
        return [sorted(arcs, key=lambda arc: self.x[arc[0]]) for arcs in found]


def columns(stack: Stack, tallest: float, gap: float) -> list[Column]:
    """The layers in one column, or in several where that would be taller than `tallest`."""
    gaps, spans, below = stack.gaps(gap), stack.spans(), stack.below()
    ends = [0.0]
    for height, room in zip(stack.heights(), gaps, strict=True):
        ends.append(ends[-1] + height + room)
    width = max(right for _, right in spans) - min(left for left, _ in spans)
    cuts = _cuts(ends, below, _count(ends[-1], width, tallest))
    most = max((len(below[last - 1]) for _, last in cuts[:-1]), default=0)
    head = most * _LANE + 24.0 if most else 0.0
    made: list[Column] = []
    left = 0.0
    for first, last in cuts:
        column = _column(stack, (first, last), gaps, head, left)
        _turn(column, below[last - 1] if last < len(stack.layers) else [])
        left = column.right + 2 * _GUTTER + _LANE * len(column.lanes)
        made.append(column)
    return made


def _column(stack: Stack, cut: tuple[int, int], gaps: Sequence[float], head: float, left: float) -> Column:
    levels, heights, spans = range(*cut), stack.heights(), stack.spans()
    column = Column(*cut, [], top_line=head - 8)
    y = head
    for level in levels:
        column.tops.append(y)
        column.bottom = column.bottom_line = y + heights[level]
        y += heights[level] + gaps[level]
    leftmost = min(spans[level][0] for level in levels)
    column.shift = left - leftmost
    column.right = left + max(spans[level][1] for level in levels) - leftmost
    return column


def _turn(column: Column, lines: Sequence[tuple[int, int]]) -> None:
    """The line that starts furthest to the left turns last, and comes in lowest: so they nest, and do not cross."""
    turns = [8 + _LANE * (number + 1) for number in range(len(lines))]
    column.lanes = dict(zip(lines, zip(reversed(turns), turns, strict=True), strict=True))
    if turns:
        column.bottom += turns[-1] + 8


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
