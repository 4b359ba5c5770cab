"""A level with some of its groups opened in place, every box and line at its position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from compiler_lens.analysis.level_tree import Group
from compiler_lens.analysis.levels import Box, BoxKind, Edge, Level, Levels
from compiler_lens.model import Node
from compiler_lens.render.graph import labels
from compiler_lens.render.graph.graphviz import place_with
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
    up: bool = False  # upside down
    curved: bool = False  # lines are Bezier curves, point by point


def inside(picture: Picture, x: float = 0.0, y: float = 0.0) -> Iterator[tuple[float, float, Drawn]]:
    """Every closed box of a picture and of what is opened in it, with where it is."""
    for drawn in picture.boxes:
        if drawn.inner is None:
            yield x + drawn.x, y + drawn.y, drawn
        else:
            left = x + drawn.x + (drawn.width - drawn.inner.width) / 2
            yield from inside(drawn.inner, left, y + drawn.y + HEADER)


def picture(
    levels: Levels, group: Group | None = None, depth: int | None = None, *, graphviz: str | None = None
) -> Picture:
    """A level as a picture. `depth` is how many levels are opened in place; None: as many as stay readable."""
    opened, _ = _opened(levels, group or levels.root, depth)
    style = _Style(levels, opened, graphviz=graphviz if not opened else None)
    return _picture(style, levels.level(group), {})


def pair(forward: Levels, backward: Levels, depth: int | None = None) -> tuple[Picture, Picture]:
    """Two graphs to stand beside each other: opened equally deep, each in one column."""
    if depth is None:
        depth = min(_opened(each, each.root, None)[1] for each in (forward, backward))
    opened = [_opened(each, each.root, depth)[0] for each in (forward, backward)]
    first, second = (
        _picture(_Style(each, those, tallest=inf), each.level(), {})
        for each, those in zip((forward, backward), opened, strict=True)
    )
    return first, second


@dataclass(frozen=True, slots=True)
class _Style:
    """How one picture is to be made."""

    levels: Levels
    opened: frozenset[int]  # identities of the groups that are opened
    graphviz: str | None = None
    tallest: float = 1000.0


def _opened(levels: Levels, group: Group, depth: int | None) -> tuple[frozenset[int], int]:
    """The groups to open: rank by rank, all of a rank or none, so that brothers look alike; and how many ranks."""
    opened: set[int] = set()
    room = _MOST if depth is not None else _ROOMY_KERNELS if levels.kernels else ROOMY
    count = len(levels.level(group).boxes)
    rank, deep = [group], 0
    while rank and (depth is None or deep < depth):
        boxes = [box for each in rank for box in levels.level(each).boxes]
        rank = [box.group for box in boxes if box.group and len(box.group) > 1]
        count += sum(len(levels.level(each).boxes) for each in rank)
        if count > room or not rank:
            break
        opened |= {id(each) for each in rank}
        deep += 1
    return frozenset(opened), deep


def _picture(style: _Style, level: Level, crossing: Mapping[str, str]) -> Picture:
    """`crossing` has the names of values that come in or go out through the edge of an opened group."""
    drawn = [_draw(style, level, number, crossing) for number in range(len(level.boxes))]
    tops = [number for number, box in enumerate(level.boxes) if _is_port(box, crossing, "in")]
    bottoms = [number for number, box in enumerate(level.boxes) if _is_port(box, crossing, "out")]
    sizes = [(each.width, each.height) for each in drawn]
    links, owners, words = _links(style.levels, level, drawn)
    sizes += [(text_width(word, TEXT) + 8, _LABEL_HEIGHT) for word in words]
    placed = place_with(style.graphviz, sizes, links) if style.graphviz else None
    placed = placed or place(sizes, links, first=tops, last=bottoms, tallest=style.tallest)
    return _assembled(level, drawn, placed, links, owners, words, tops, bottoms)


def _is_port(box: Box, crossing: Mapping[str, str], way: str) -> bool:
    kind = BoxKind.INPUT if way == "in" else BoxKind.OUTPUT
    return box.kind is kind and bool(crossing) and all(crossing.get(f"{way} {n.name}") for n in box.nodes)


def _draw(style: _Style, level: Level, number: int, crossing: Mapping[str, str]) -> Drawn:
    box = level.boxes[number]
    if _is_port(box, crossing, "in") or _is_port(box, crossing, "out"):
        return Drawn(0, 0, *_PORT, box, (), labels.tint(box))
    lines, tint = labels.lines(box, level.group.module), labels.tint(box)
    if box.group is None or id(box.group) not in style.opened:
        width = max(text_width(line, TITLE if not place else TEXT) for place, line in enumerate(lines)) + 26
        pill = box.kind in {BoxKind.INPUT, BoxKind.OUTPUT}
        extra = 18 if box.repeats > 1 else 0
        return Drawn(0, 0, max(width + extra, 48), 12 + LINE * len(lines) - (2 if pill else 0), box, lines, tint)
    through = {f"in {node.name}": node.name for e in level.edges if e.target == number for node in e.values}
    through |= {f"out {node.name}": node.name for e in level.edges if e.source == number for node in e.values}
    inner_level = style.levels.level(box.group)
    through |= {f"out {style.levels.as_first(box, name)}": name for name in list(through.values())}
    through |= {
        f"out {n.name}": n.name for b in inner_level.boxes if b.kind is BoxKind.OUTPUT and b.places for n in b.nodes
    }
    inner = _picture(style, inner_level, through)
    title = " · ".join(lines[:2]) if len(lines) > 1 else lines[0]
    header = (title, *lines[2:3])
    width = max(inner.width + 2 * _PAD, text_width(title, TITLE) + 70)
    return Drawn(0, 0, width, inner.height + HEADER + _PAD, box, header, tint, inner)


def _links(levels: Levels, level: Level, drawn: Sequence[Drawn]) -> tuple[list[Link], list[Edge], list[str]]:
    """The lines to lay out, the edge that each belongs to, and the words that stand on the way as boxes of their own."""
    links: list[Link] = []
    owners: list[Edge] = []
    words: list[str] = []
    captions: dict[tuple[int, tuple[str, ...], float | None], int] = {}
    for edge in level.edges:
        for leaves, enters, values in _ends(levels, edge, drawn):
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


def _ends(
    levels: Levels, edge: Edge, drawn: Sequence[Drawn]
) -> list[tuple[float | None, float | None, tuple[Node, ...]]]:
    """An edge once for each place at which its values leave and enter opened groups."""
    parts: dict[tuple[float | None, float | None], list[Node]] = {}
    for node in edge.values:
        # Of repeats folded into one, the first is drawn: another one's result leaves where the first one's does.
        made = levels.as_first(drawn[edge.source].box, node.name)
        for leaves in _port(drawn[edge.source], "out", made):
            for enters in _port(drawn[edge.target], "in", node.name):
                parts.setdefault((leaves, enters), []).append(node)
    return [(leaves, enters, tuple(values)) for (leaves, enters), values in parts.items()]


def _port(drawn: Drawn, way: str, name: str) -> list[float | None]:
    if drawn.inner is None:
        return [None]
    ports = drawn.inner.ports[way]
    left = (drawn.width - drawn.inner.width) / 2
    exact: list[float | None] = [left + x for value, x in ports if value == name]
    return (exact[:1] if way == "out" else exact) or [None]


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
            (node.name, placed.places[number][0] + _PORT[0] / 2)
            for number in numbers
            for node in level.boxes[number].nodes
        )
        for way, numbers in (("in", tops), ("out", bottoms))
    }
    return Picture(
        placed.width, placed.height, tuple(boxes), tuple(lines), tuple(captions), through, curved=placed.curved
    )
