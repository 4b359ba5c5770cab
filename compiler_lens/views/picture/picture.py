"""A level of a graph as a picture: what stands in its boxes and on its lines; where all that goes is not known here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.graphs.level_tree import Group, GroupId, GroupKind
from compiler_lens.facts.graphs.levels import Box, BoxKind, Edge, Level, Levels
from compiler_lens.recording.model import Node
from compiler_lens.views.picture import labels
from compiler_lens.views.picture.tints import Tint, tint

_ROOMY = 44  # boxes that a picture may have by being opened further
_ROOMY_KERNELS = 90  # the same, where what opens are kernels
_MOST = 400  # boxes of a picture, however deep it was asked to be


class PictureBox(Struct, frozen=True):
    """A box with its words; one that is opened in place has a picture inside."""

    box: Box
    tint: Tint
    lines: tuple[str, ...] = ()  # its name first
    tooltip: str = ""
    inner: Picture | None = None
    is_port: bool = False  # inside of an opened box: only a place on its edge, at which values come in or go out


class PictureEdge(Struct, frozen=True):
    """Values that one box makes and another reads; between opened boxes from port to port."""

    source: int
    target: int
    values: tuple[str, ...]
    tooltip: str
    label: str = ""
    leaves: int | None = None  # of an opened source: the port, by its number inside
    enters: int | None = None


class Picture(Struct, frozen=True):
    """A level with some of its groups opened in place."""

    boxes: tuple[PictureBox, ...]
    edges: tuple[PictureEdge, ...]
    stopped: int | None = None  # how many levels are opened, where that is fewer than were asked for

    def every_box(self) -> Iterator[PictureBox]:
        """Yield every box, each opened one and then those inside of it; ports are none."""
        for box in self.boxes:
            if not box.is_port:
                yield box
            if box.inner:
                yield from box.inner.every_box()


def picture(levels: Levels, group: Group | None = None, depth: int | None = None) -> Picture:
    """Return a level as a picture.

    Args:
        group: whose level; without it, the whole graph.
        depth: how many levels are opened in place; None: as many as stay readable.
    """
    opening = _Opening(levels)
    opening.open(group or levels.root, depth)
    drawn = opening.picture(opening.level(group or levels.root), frozenset())
    return replace(drawn, stopped=opening.deep) if opening.is_full and depth is not None else drawn


def pair(forward: Levels, backward: Levels, depth: int | None = None) -> tuple[Picture, Picture]:
    """Return two graphs to stand beside each other: opened equally deep."""
    if depth is None:
        both = (_Opening(forward), _Opening(backward))
        for each in both:
            each.open(each.levels.root, None)
        depth = min(each.deep for each in both)
    return picture(forward, None, depth), picture(backward, None, depth)


def closed_picture(level: Level) -> Picture:
    """Return a level with nothing opened."""
    boxes = tuple(_closed(box, level.group.module) for box in level.boxes)
    return Picture(boxes, tuple(_edge(level, edge, edge.values) for edge in level.edges))


def _closed(box: Box, within: str) -> PictureBox:
    return PictureBox(box, tint(box), labels.lines(box, within), labels.tooltip(box))


def _edge(level: Level, edge: Edge, values: Sequence[Node]) -> PictureEdge:
    label = labels.specs_of(values) if len(values) > 1 or level.boxes[edge.source].group else ""
    return PictureEdge(edge.source, edge.target, tuple(node.name for node in values), labels.tensors(values), label)


# A value that comes in or goes out through the edge of an opened group; and the ports for each, by their numbers.
_Crossing = tuple[BoxKind, str]
_Ports = dict[_Crossing, list[int]]


class _Opening(Struct):
    """Which groups of a graph are opened in place."""

    levels: Levels
    known: dict[GroupId, Level] = field(default_factory=dict)
    opened: set[GroupId] = field(default_factory=set)
    deep: int = 0  # ranks of groups that are opened
    is_full: bool = False  # there was no room for more

    def open(self, group: Group, depth: int | None) -> None:
        """Open `depth` levels of groups; None: as many as stay readable.

        Rank by rank, all of a rank or none, so that brothers look alike. Without a depth kernels open last, all of the
        picture or none.
        """
        if depth == 0:
            return
        room = _MOST if depth is not None else _ROOMY_KERNELS if self.levels.kernels else _ROOMY
        count = len(self.level(group).boxes)
        rank, kernels = [group], list[Group]()
        while rank and (depth is None or self.deep < depth):
            inner = [box.group for each in rank for box in self.level(each).boxes if box.group]
            # A single op says all in its own box, but for one that a branch runs.
            rank = [each for each in inner if len(each) > 1 or each.kind is GroupKind.BODY]
            if depth is None:
                kernels += [each for each in rank if each.kernel]
                rank = [each for each in rank if not each.kernel]
            count += sum(len(self.level(each).boxes) for each in rank)
            if count > room or not rank:
                break
            self.opened.update(each.id for each in rank)
            self.deep += 1
        if not rank and count + sum(len(self.level(each).boxes) for each in kernels) <= room:
            self.opened.update(each.id for each in kernels)
        self.is_full = count > room

    def level(self, group: Group) -> Level:
        """The level of a group, made once."""
        found = self.known.get(group.id)
        if found is None:
            found = self.known[group.id] = self.levels.level(group)
        return found

    def picture(self, level: Level, crossing: frozenset[_Crossing]) -> Picture:
        """The picture of a level; what crosses its edge comes through ports."""
        boxes: list[PictureBox] = []
        ports: dict[int, _Ports] = {}  # of each opened box: those inside of it
        for number, box in enumerate(level.boxes):
            if crossing.issuperset((box.kind, node.name) for node in box.nodes):
                boxes.append(PictureBox(box, tint(box), is_port=True))
                continue
            drawn = _closed(box, level.group.module)
            if box.group and box.group.id in self.opened:
                inside = self.level(box.group)
                inner = self.picture(inside, self._crossing(level, number, inside))
                ports[number] = {}
                for at, each in enumerate(inner.boxes):
                    for node in each.box.nodes if each.is_port else ():
                        ports[number].setdefault((each.box.kind, node.name), []).append(at)
                title = " · ".join(word for word in (*drawn.lines[:2], labels.time_words(box)) if word)
                drawn = replace(drawn, lines=(title,), inner=inner)
            boxes.append(drawn)
        edges = (part for edge in level.edges for part in self._parts(level, edge, ports))
        return Picture(tuple(boxes), tuple(edges))

    def _crossing(self, level: Level, number: int, inside: Level) -> frozenset[_Crossing]:
        """The values that come into a box and go out of it, where it is opened."""
        found: set[_Crossing] = set()
        for edge in level.edges:
            if edge.target == number:
                found.update((BoxKind.INPUT, node.name) for node in edge.values)
            if edge.source == number:
                made = (self.levels.as_first(level.boxes[number], node.name) for node in edge.values)
                found.update((BoxKind.OUTPUT, name) for name in made)
        for box in inside.boxes:
            if box.kind is BoxKind.OUTPUT and box.places:
                found.update((BoxKind.OUTPUT, node.name) for node in box.nodes)
        return frozenset(found)

    def _parts(self, level: Level, edge: Edge, ports: Mapping[int, _Ports]) -> Iterator[PictureEdge]:
        """Yield an edge once for each pair of ports through which its values leave and enter opened groups."""
        source, target = ports.get(edge.source), ports.get(edge.target, {})
        parts: dict[tuple[int | None, int | None], list[Node]] = {}
        for node in edge.values:
            leaves: int | None = None
            if source:
                # Of repeats folded into one the first is drawn: another one's result leaves where the first one's does.
                made = self.levels.as_first(level.boxes[edge.source], node.name)
                leaves = next(iter(source.get((BoxKind.OUTPUT, made), ())), None)
            for enters in target.get((BoxKind.INPUT, node.name)) or (None,):
                parts.setdefault((leaves, enters), []).append(node)
        for (leaves, enters), values in parts.items():
            yield replace(_edge(level, edge, values), leaves=leaves, enters=enters)
