"""A level with some of its groups opened in place, every box and line at its position."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import inf

from compiler_lens.facts.graphs.level_boxes import Box, BoxKind, Edge, Level
from compiler_lens.facts.graphs.level_tree import Group, GroupKind
from compiler_lens.facts.graphs.levels import Levels
from compiler_lens.recording.model import Node
from compiler_lens.render.picture.layout import Link, Placement, Point, place
from compiler_lens.render.picture.measure import TEXT, TITLE, text_width
from compiler_lens.views.picture import labels
from compiler_lens.views.picture.tints import Tint, tint

ROOMY = 44  # boxes that a picture may have by being opened further
_ROOMY_KERNELS = 90  # the same, where what opens are kernels
_MOST = 400  # boxes of a picture, however deep it was asked to be
_ALONE = 6  # boxes without lines, in one column
_PAD = 16.0
HEADER = 30.0
LINE = 15.0
TIME = 6.0  # room for the bar of a box's time
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
    stopped: int | None = None  # how many levels are opened, where that is fewer than were asked for


def inside(picture: Picture, x: float = 0.0, y: float = 0.0) -> Iterator[tuple[float, float, Drawn]]:
    """Every closed box of a picture and of what is opened in it, with where it is."""
    for drawn in picture.boxes:
        if drawn.inner is None:
            yield x + drawn.x, y + drawn.y, drawn
        else:
            left = x + drawn.x + (drawn.width - drawn.inner.width) / 2
            yield from inside(drawn.inner, left, y + drawn.y + HEADER)


def picture(levels: Levels, group: Group | None = None, depth: int | None = None) -> Picture:
    """A level as a picture. `depth` is how many levels are opened in place; None: as many as stay readable."""
    opened, deep, more = _opened(levels, group or levels.root, depth)
    drawn = _picture(_Style(levels, opened), levels.level(group), {})
    return replace(drawn, stopped=deep) if more and depth is not None else drawn


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
    tallest: float = 1000.0


def _opened(levels: Levels, group: Group, depth: int | None) -> tuple[frozenset[int], int, bool]:
    """The groups to open: rank by rank, all of a rank or none, so that brothers look alike.

    With how many ranks that are, and whether there was no room for more.
    """
    if depth == 0:
        return frozenset(), 0, False
    opened: set[int] = set()
    room = _MOST if depth is not None else _ROOMY_KERNELS if levels.kernels else ROOMY
    count = len(levels.level(group).boxes)
    rank, deep, kernels = [group], 0, list[Group]()
    while rank and (depth is None or deep < depth):
        inner = [box.group for each in rank for box in levels.level(each).boxes if box.group and _opens(box.group)]
        if depth is None:  # kernels open last, all of the picture or none
            kernels += [each for each in inner if each.kernel]
            inner = [each for each in inner if not each.kernel]
        rank = inner
        count += sum(len(levels.level(each).boxes) for each in rank)
        if count > room or not rank:
            break
        opened |= {id(each) for each in rank}
        deep += 1
    if not rank and count + sum(len(levels.level(each).boxes) for each in kernels) <= room:
        opened |= {id(each) for each in kernels}
    return frozenset(opened), deep, count > room


def _opens(group: Group) -> bool:
    """A single op says all in its own box, but for one that a branch runs."""
    return len(group) > 1 or group.kind is GroupKind.BODY


@dataclass(slots=True)
class _Plan:
    """What a level's picture is made of, before anything has its place."""

    level: Level
    drawn: list[Drawn]
    tops: list[int]  # boxes that are only a place on the edge, at which values come in
    bottoms: list[int]
    links: list[Link] = field(default_factory=list)
    owners: list[Edge | None] = field(default_factory=list)  # the edge that each link belongs to; some show nothing
    words: list[str] = field(default_factory=list)  # that stand on lines, laid out like boxes


def _picture(style: _Style, level: Level, crossing: Mapping[str, str]) -> Picture:
    """`crossing` has the names of values that come in or go out through the edge of an opened group."""
    drawn = [_draw(style, level, number, crossing) for number in range(len(level.boxes))]
    tops = [number for number, box in enumerate(level.boxes) if _is_port(box, crossing, "in")]
    bottoms = [number for number, box in enumerate(level.boxes) if _is_port(box, crossing, "out")]
    plan = _Plan(level, drawn, tops, bottoms)
    _link(style.levels, plan)
    sizes = [(each.width, each.height) for each in drawn]
    sizes += [(text_width(word, TEXT) + 8, _LABEL_HEIGHT) for word in plan.words]
    return _assembled(plan, place(sizes, plan.links, first=tops, last=bottoms, tallest=style.tallest))


def _is_port(box: Box, crossing: Mapping[str, str], way: str) -> bool:
    kind = BoxKind.INPUT if way == "in" else BoxKind.OUTPUT
    return box.kind is kind and bool(crossing) and all(crossing.get(f"{way} {n.name}") for n in box.nodes)


def _draw(style: _Style, level: Level, number: int, crossing: Mapping[str, str]) -> Drawn:
    box = level.boxes[number]
    if _is_port(box, crossing, "in") or _is_port(box, crossing, "out"):
        return Drawn(0, 0, *_PORT, box, (), tint(box))
    lines = labels.lines(box, level.group.module)
    if box.group is None or id(box.group) not in style.opened:
        width = max(text_width(line, TEXT if place else TITLE) for place, line in enumerate(lines)) + 26
        height = 14 + LINE * len(lines) + (TIME if box.spent else 0)
        return Drawn(0, 0, max(width + (36 if box.repeats > 1 else 0), 48), height, box, lines, tint(box))
    inside = style.levels.level(box.group)
    inner = _picture(style, inside, _crossing(style.levels, level, number, inside))
    title = " · ".join(word for word in (*lines[:2], labels.time_words(box)) if word)
    width = max(inner.width + 2 * _PAD, text_width(title, TITLE) + 70)
    return Drawn(0, 0, width, inner.height + HEADER + _PAD, box, (title,), tint(box), inner)


def _crossing(levels: Levels, level: Level, number: int, inside: Level) -> dict[str, str]:
    """The values that come into a box and go out of it, where it is opened."""
    box = level.boxes[number]
    read = {node.name for edge in level.edges if edge.target == number for node in edge.values}
    made = {levels.as_first(box, node.name) for edge in level.edges if edge.source == number for node in edge.values}
    made |= {node.name for each in inside.boxes if each.kind is BoxKind.OUTPUT and each.places for node in each.nodes}
    return {**{f"in {name}": name for name in read}, **{f"out {name}": name for name in made}}


def _link(levels: Levels, plan: _Plan) -> None:
    captions: dict[tuple[int, tuple[str, ...], float | None], int] = {}
    for edge in plan.level.edges:
        for leaves, enters, values in _ends(levels, edge, plan.drawn):
            part = replace(edge, values=values)
            word = labels.edge_label(part) if plan.level.boxes[edge.source].group else ""
            start, out = edge.source, leaves
            if word:
                key = (edge.source, tuple(node.name for node in values), leaves)
                if key not in captions:
                    captions[key] = len(plan.drawn) + len(plan.words)
                    plan.words.append(word)
                    plan.links.append(Link(edge.source, captions[key], leaves, None))
                    plan.owners.append(part)
                start, out = captions[key], None
            plan.links.append(Link(start, edge.target, out, enters))
            plan.owners.append(part)
    _stacked(plan)


def _stacked(plan: _Plan) -> None:
    """Boxes without any line, one below the other: beside each other they would make the picture wide."""
    tied = {number for edge in plan.level.edges for number in (edge.source, edge.target)}
    alone = [number for number in range(len(plan.level.boxes)) if number not in tied]
    for number, (above, below) in enumerate(pairwise(alone), 1):
        if number % _ALONE:
            plan.links.append(Link(above, below))
            plan.owners.append(None)


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


def _assembled(plan: _Plan, placed: Placement) -> Picture:
    count, ports = len(plan.drawn), {*plan.tops, *plan.bottoms}
    boxes = (
        replace(each, x=x, y=y)
        for number, (each, (x, y)) in enumerate(zip(plan.drawn, placed.places[:count], strict=True))
        if number not in ports
    )
    captions = (Caption(x + 4, y + 10, word) for word, (x, y) in zip(plan.words, placed.places[count:], strict=True))
    lines = (
        Line(route, edge.values, arrow=link.target < count and link.target not in ports)
        for route, edge, link in zip(placed.routes, plan.owners, plan.links, strict=True)
        if edge
    )
    crossing = {
        way: tuple(
            (node.name, placed.places[number][0] + _PORT[0] / 2)
            for number in numbers
            for node in plan.level.boxes[number].nodes
        )
        for way, numbers in (("in", plan.tops), ("out", plan.bottoms))
    }
    size = (placed.width, placed.height)
    return Picture(*size, tuple(boxes), tuple(lines), tuple(captions), crossing)
