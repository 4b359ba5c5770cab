"""A level with some of its groups opened in place, every box and line at its position."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.analysis.level_tree import Group
from compiler_lens.analysis.levels import Box, BoxKind, Edge, Level, Levels
from compiler_lens.model import Node
from compiler_lens.render.graph import labels
from compiler_lens.render.graph.labels import Tint
from compiler_lens.render.graph.layout import Link, Placement, Point, place
from compiler_lens.render.graph.measure import TEXT, TITLE, text_width

ROOMY = 32  # boxes that a picture may have by being opened further
_ROOMY_KERNELS = 90  # the same, where what opens are kernels
_MOST = 400  # boxes of a picture, however deep it was asked to be
_PAD = 16.0
HEADER = 30.0
LINE = 15.0
_PORT = (6.0, 2.0)
_LABEL_HEIGHT = 13.0


@dataclass(frozen=True, slots=True)
class Drawn:
    """A box at its place; an opened one has a picture inside."""

    x: float
    y: float
    width: float
    height: float
    box: Box
    lines: tuple[str, ...]
    tint: Tint
    inner: Picture | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A line between boxes, through its points."""

    points: tuple[Point, ...]
    values: tuple[Node, ...]
    arrow: bool = True


@dataclass(frozen=True, slots=True)
class Caption:
    """Words on a line."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A level, drawn."""

    width: float
    height: float
    boxes: tuple[Drawn, ...]
    lines: tuple[Line, ...]
    captions: tuple[Caption, ...]
    ports: Mapping[str, tuple[tuple[str, float], ...]]  # "in", "out": values that cross the edge, and where


def picture(levels: Levels, group: Group | None = None, depth: int | None = None) -> Picture:
    """A level as a picture. `depth` is how many levels are opened in place; None: as many as stay readable."""
    opened = _opened(levels, group or levels.root, depth)
    return _picture(levels, levels.level(group), opened, {})


def _opened(levels: Levels, group: Group, depth: int | None) -> frozenset[int]:
    """The groups to open: rank by rank, all of a rank or none, so that brothers look alike."""
    opened: set[int] = set()
    room = _MOST if depth is not None else _ROOMY_KERNELS if levels.kernels else ROOMY
    count = len(levels.level(group).boxes)
    rank, deep = [group], 0
    while rank and (depth is None or deep < depth):
        boxes = [box for each in rank for box in levels.level(each).boxes]
        rank = [box.group for box in boxes if box.group and len(box.group) > 1]
        count += sum(len(levels.level(each).boxes) for each in rank)
        if count > room:
            break
        opened |= {id(each) for each in rank}
        deep += 1
    return frozenset(opened)


def _picture(levels: Levels, level: Level, opened: frozenset[int], crossing: Mapping[str, str]) -> Picture:
    """`crossing` has the names of values that come in or go out through the edge of an opened group."""
    drawn = [_draw(levels, level, number, opened, crossing) for number in range(len(level.boxes))]
    tops = [number for number, box in enumerate(level.boxes) if _is_port(box, crossing, "in")]
    bottoms = [number for number, box in enumerate(level.boxes) if _is_port(box, crossing, "out")]
    sizes = [(each.width, each.height) for each in drawn]
    links, owners, words = _links(level, drawn)
    sizes += [(text_width(word, TEXT) + 8, _LABEL_HEIGHT) for word in words]
    placed = place(sizes, links, first=tops, last=bottoms)
    return _assembled(level, drawn, placed, links, owners, words, tops, bottoms)


def _is_port(box: Box, crossing: Mapping[str, str], way: str) -> bool:
    kind = BoxKind.INPUT if way == "in" else BoxKind.OUTPUT
    return box.kind is kind and bool(crossing) and all(crossing.get(f"{way} {n.name}") for n in box.nodes)


def _draw(levels: Levels, level: Level, number: int, opened: frozenset[int], crossing: Mapping[str, str]) -> Drawn:
    box = level.boxes[number]
    if _is_port(box, crossing, "in") or _is_port(box, crossing, "out"):
        return Drawn(0, 0, *_PORT, box, (), labels.tint(box))
    lines, tint = labels.lines(box, level.group.module), labels.tint(box)
    if box.group is None or id(box.group) not in opened:
        width = max(text_width(line, TITLE if not place else TEXT) for place, line in enumerate(lines)) + 26
        pill = box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}
        extra = 18 if box.repeats > 1 else 0
        return Drawn(0, 0, max(width + extra, 48), 12 + LINE * len(lines) - (2 if pill else 0), box, lines, tint)
    through = {f"in {node.name}": node.name for e in level.edges if e.target == number for node in e.values}
    through |= {f"out {node.name}": node.name for e in level.edges if e.source == number for node in e.values}
    inner_level = levels.level(box.group)
    through |= {f"out {n.name}": n.name for b in inner_level.boxes if b.kind is BoxKind.OUTPUT and b.places for n in b.nodes}
    inner = _picture(levels, inner_level, opened, through)
    title = " · ".join(lines[:2]) if len(lines) > 1 else lines[0]
    header = (title, *lines[2:3])
    width = max(inner.width + 2 * _PAD, text_width(title, TITLE) + 70)
    return Drawn(0, 0, width, inner.height + HEADER + _PAD, box, header, tint, inner)


def _links(level: Level, drawn: Sequence[Drawn]) -> tuple[list[Link], list[Edge], list[str]]:
    """The lines to lay out, the edge that each belongs to, and the words that stand on the way as boxes of their own."""
    links: list[Link] = []
    owners: list[Edge] = []
    words: list[str] = []
    captions: dict[tuple[int, tuple[str, ...], float | None], int] = {}
    for edge in level.edges:
        for leaves, enters, values in _ends(edge, drawn):
            part = replace(edge, values=values)
            word = labels.edge_label(part) if drawn[edge.source].box.group else ""
            if not word:
                links.append(Link(edge.source, edge.target, leaves, enters))
                owners.append(part)
                continue
            key = (edge.source, tuple(node.name for node in values), leaves)
            if key not in captions:
                captions[key] = len(drawn) + len(words)
                words.append(word)
                links.append(Link(edge.source, captions[key], leaves, None))
                owners.append(part)
            links.append(Link(captions[key], edge.target, None, enters))
            owners.append(part)
    return links, owners, words


def _ends(edge: Edge, drawn: Sequence[Drawn]) -> list[tuple[float | None, float | None, tuple[Node, ...]]]:
    """An edge once for each place at which its values leave and enter opened groups."""
    parts: dict[tuple[float | None, float | None], list[Node]] = {}
    for node in edge.values:
        for leaves in _port(drawn[edge.source], "out", node.name):
            for enters in _port(drawn[edge.target], "in", node.name):
                parts.setdefault((leaves, enters), []).append(node)
    return [(leaves, enters, tuple(values)) for (leaves, enters), values in parts.items()]


def _port(drawn: Drawn, way: str, name: str) -> list[float | None]:
    if drawn.inner is None:
        return [None]
    ports = drawn.inner.ports[way]
    left = (drawn.width - drawn.inner.width) / 2
    exact: list[float | None] = [left + x for value, x in ports if value == name]
    # Of repeats folded into one, the first is drawn: the last one's result leaves where the first one's does.
    return exact[:1] if way == "out" and exact else exact or [left + x for _, x in ports[:1]] or [None]


def _assembled(
    level: Level,
    drawn: Sequence[Drawn],
    placed: Placement,
    links: Sequence[Link],
    owners: Sequence[Edge],
    words: Sequence[str],
    tops: Sequence[int],
    bottoms: Sequence[int],
) -> Picture:
    ports = {*tops, *bottoms}
    boxes = [
        replace(each, x=placed.places[number][0], y=placed.places[number][1])
        for number, each in enumerate(drawn)
        if number not in ports
    ]
    captions = [
        Caption(placed.places[len(drawn) + number][0] + 4, placed.places[len(drawn) + number][1] + 10, word)
        for number, word in enumerate(words)
    ]
    lines = [
        Line(route, edge.values, arrow=link.target < len(drawn) and link.target not in bottoms)
        for route, edge, link in zip(placed.routes, owners, links, strict=True)
    ]
    through = {
        way: tuple(
            (node.name, placed.places[number][0] + _PORT[0] / 2) for number in numbers for node in level.boxes[number].nodes
        )
        for way, numbers in (("in", tops), ("out", bottoms))
    }
    return Picture(placed.width, placed.height, tuple(boxes), tuple(lines), tuple(captions), through)
