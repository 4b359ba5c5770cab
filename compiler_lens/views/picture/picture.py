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
from compiler_lens.views.picture.tooltips import tensors, tooltip

ROOMY = 44  # boxes that a picture may have by being opened further
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
    opening = Opening.of(levels, group or levels.root, depth)
    drawn = opening.picture(group or levels.root)
    return replace(drawn, stopped=opening.deep) if opening.is_full and depth is not None else drawn


def pair(forward: Levels, backward: Levels, depth: int | None = None) -> tuple[Picture, Picture]:
    """Return two graphs to stand beside each other: opened equally deep."""
    if depth is None:
        depth = min(Opening.of(each, each.root, None).deep for each in (forward, backward))
    return picture(forward, None, depth), picture(backward, None, depth)


def closed_picture(level: Level) -> Picture:
    """Return a level with nothing opened."""
    boxes = tuple(_closed(box, level.group.module) for box in level.boxes)
    return Picture(boxes, tuple(_edge(level, edge, edge.values) for edge in level.edges))


class Opening(Struct):
    """Which groups of a graph are opened in place."""

    levels: Levels
    known: dict[GroupId, Level] = field(default_factory=dict)
    opened: set[GroupId] = field(default_factory=set)
    deep: int = 0  # ranks of groups that are opened
    is_full: bool = False  # there was no room for more

    @classmethod
    def of(cls, levels: Levels, group: Group, depth: int | None) -> Opening:
        """Return the groups to open, `depth` levels of them; None: as many as stay readable.

        Rank by rank, all of a rank or none, so that brothers look alike. Without a depth kernels open last, all of the
        picture or none.
        """
        self = cls(levels)
        if depth == 0:
            return self
        room = _MOST if depth is not None else _ROOMY_KERNELS if levels.kernels else ROOMY
        count = len(self.level(group).boxes)
        rank, kernels = [group], list[Group]()
        while rank and (depth is None or self.deep < depth):
            rank = self._inside(rank)
            if depth is None:
                kernels += [each for each in rank if each.kernel]
                rank = [each for each in rank if not each.kernel]
            count += self._boxes(rank)
            if count > room or not rank:
                break
            self.opened.update(each.id for each in rank)
            self.deep += 1
        if not rank and count + self._boxes(kernels) <= room:
            self.opened.update(each.id for each in kernels)
        self.is_full = count > room
        return self

    def level(self, group: Group) -> Level:
        """Return the level of a group, made once."""
        found = self.known.get(group.id)
        if found is None:
            found = self.known[group.id] = self.levels.level(group)
        return found

    def picture(self, group: Group) -> Picture:
        """Return the picture of a group's level."""
        return _picture(self, self.level(group), frozenset())

    def _boxes(self, groups: Sequence[Group]) -> int:
        return sum(len(self.level(each).boxes) for each in groups)

    def _inside(self, groups: Sequence[Group]) -> list[Group]:
        """The groups one level further in. A single op says all in its own box, but for one that a branch runs."""
        inner = [box.group for each in groups for box in self.level(each).boxes if box.group]
        return [each for each in inner if len(each) > 1 or each.kind is GroupKind.BODY]


# A value that comes in or goes out through the edge of an opened group.
_Crossing = tuple[BoxKind, str]


def _picture(opening: Opening, level: Level, crossing: frozenset[_Crossing]) -> Picture:
    boxes: list[PictureBox] = []
    ports: dict[int, Mapping[_Crossing, list[int]]] = {}  # of each opened box: those inside of it
    for number, box in enumerate(level.boxes):
        if crossing.issuperset((box.kind, node.name) for node in box.nodes):
            boxes.append(PictureBox(box, tint(box), is_port=True))
            continue
        drawn = _closed(box, level.group.module)
        if box.group and box.group.id in opening.opened:
            inside = opening.level(box.group)
            inner = _picture(opening, inside, _crossing(opening.levels, level, number, inside))
            ports[number] = _ports(inside, inner)
            title = " · ".join(word for word in (*drawn.lines[:2], labels.time_words(box)) if word)
            drawn = replace(drawn, lines=(title,), inner=inner)
        boxes.append(drawn)
    edges = (part for edge in level.edges for part in _parts(opening.levels, level, edge, ports))
    return Picture(tuple(boxes), tuple(edges))


def _closed(box: Box, within: str) -> PictureBox:
    return PictureBox(box, tint(box), labels.lines(box, within), tooltip(box))


def _crossing(levels: Levels, level: Level, number: int, inside: Level) -> frozenset[_Crossing]:
    """The values that come into a box and go out of it, where it is opened."""
    found: set[_Crossing] = set()
    for edge in level.edges:
        if edge.target == number:
            found.update((BoxKind.INPUT, node.name) for node in edge.values)
        if edge.source == number:
            made = (levels.as_first(level.boxes[number], node.name) for node in edge.values)
            found.update((BoxKind.OUTPUT, name) for name in made)
    for box in inside.boxes:
        if box.kind is BoxKind.OUTPUT and box.places:
            found.update((BoxKind.OUTPUT, node.name) for node in box.nodes)
    return frozenset(found)


def _ports(inside: Level, inner: Picture) -> Mapping[_Crossing, list[int]]:
    found: dict[_Crossing, list[int]] = {}
    for number, (box, drawn) in enumerate(zip(inside.boxes, inner.boxes, strict=True)):
        for node in box.nodes if drawn.is_port else ():
            found.setdefault((box.kind, node.name), []).append(number)
    return found


def _parts(
    levels: Levels, level: Level, edge: Edge, ports: Mapping[int, Mapping[_Crossing, list[int]]]
) -> list[PictureEdge]:
    """An edge once for each pair of ports through which its values leave and enter opened groups."""
    source, target = ports.get(edge.source), ports.get(edge.target)
    parts: dict[tuple[int | None, int | None], list[Node]] = {}
    for node in edge.values:
        leaves: int | None = None
        if source:
            # Of repeats folded into one, the first is drawn: another one's result leaves where the first one's does.
            made = levels.as_first(level.boxes[edge.source], node.name)
            leaves = next(iter(source.get((BoxKind.OUTPUT, made), ())), None)
        entering: Sequence[int | None] = target.get((BoxKind.INPUT, node.name), ()) if target else ()
        for enters in entering or (None,):
            parts.setdefault((leaves, enters), []).append(node)
    return [
        replace(_edge(level, edge, values), leaves=leaves, enters=enters) for (leaves, enters), values in parts.items()
    ]


def _edge(level: Level, edge: Edge, values: Sequence[Node]) -> PictureEdge:
    is_labelled = len(values) > 1 or level.boxes[edge.source].group
    label = labels.specs_of(values) if is_labelled else ""
    return PictureEdge(edge.source, edge.target, tuple(node.name for node in values), tensors(values), label)
