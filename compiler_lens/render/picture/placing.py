"""Every box and line of a picture at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.graphs.levels import BoxKind
from compiler_lens.render.picture.layout import Link, Point, place
from compiler_lens.render.picture.style import TEXT, TITLE, lines_width, text_width
from compiler_lens.views.picture.picture import Picture, PictureBox, PictureEdge

TALLEST = 1000.0  # taller pictures are cut into columns
HEADER = 30.0  # of an opened box
LINE = 15.0
_ALONE = 6  # boxes without lines, in one column
_PAD = 16.0
_TIME = 6.0  # room for the bar of a box's time
_PORT = (6.0, 2.0)
_LABEL_HEIGHT = 13.0


class PlacedBox(Struct, frozen=True):
    """A box at its place."""

    x: float
    y: float
    width: float
    height: float
    drawn: PictureBox
    inner: PlacedPicture | None = None

    @property
    def left(self) -> float:
        """Where in an opened box the picture inside begins."""
        return (self.width - self.inner.width) / 2 if self.inner else 0.0

    def port(self, number: int | None) -> float | None:
        """Return where along an opened box the lines through one of its ports end."""
        if self.inner is None or number is None:
            return None
        ports = self.inner.entries if number in self.inner.entries else self.inner.exits
        return self.left + ports[number]


class PlacedLine(Struct, frozen=True):
    """A line between boxes, through its points."""

    points: tuple[Point, ...]
    tooltip: str
    has_arrow: bool


class Caption(Struct, frozen=True):
    """Words on a line."""

    x: float
    y: float
    text: str


class PlacedPicture(Struct, frozen=True):
    """A picture with everything at its place."""

    width: float
    height: float
    boxes: tuple[PlacedBox, ...]
    lines: tuple[PlacedLine, ...]
    captions: tuple[Caption, ...]
    entries: Mapping[int, float]  # of each port at which values come in: where along the edge
    exits: Mapping[int, float]
    is_upwards: bool = False

    def closed(self, x: float = 0.0, y: float = 0.0) -> Iterator[PlacedBox]:
        """Yield every closed box, those inside of opened ones included, at its place in the whole."""
        for box in self.boxes:
            if box.inner:
                yield from box.inner.closed(x + box.x + box.left, y + box.y + HEADER)
            else:
                yield replace(box, x=x + box.x, y=y + box.y)


def placed(picture: Picture, tallest: float = TALLEST) -> PlacedPicture:
    """Return a picture with everything at its place, cut into columns where it would be taller than that."""
    boxes = [_sized(box, tallest) for box in picture.boxes]
    links, owners, words = _links(picture, boxes)
    sizes = [(each.width, each.height) for each in boxes]
    sizes += [(text_width(word, TEXT) + 8, _LABEL_HEIGHT) for word in words]
    ports = [number for number, box in enumerate(picture.boxes) if box.is_port]
    tops = [number for number in ports if picture.boxes[number].box.kind is BoxKind.INPUT]
    bottoms = [number for number in ports if picture.boxes[number].box.kind is BoxKind.OUTPUT]
    found = place(sizes, links, first=tops, last=bottoms, tallest=tallest)
    boxes = [replace(box, x=x, y=y) for box, (x, y) in zip(boxes, found.places, strict=False)]
    captions = zip(words, found.places[len(boxes) :], strict=True)
    lines = [
        PlacedLine(route, edge.tooltip, link.target < len(boxes) and not picture.boxes[link.target].is_port)
        for route, edge, link in zip(found.routes, owners, links, strict=True)
        if edge
    ]
    return PlacedPicture(
        found.width,
        found.height,
        tuple(box for box in boxes if not box.drawn.is_port),
        tuple(lines),
        tuple(Caption(x + 4, y + 10, word) for word, (x, y) in captions),
        {number: boxes[number].x + _PORT[0] / 2 for number in tops},
        {number: boxes[number].x + _PORT[0] / 2 for number in bottoms},
    )


def _sized(box: PictureBox, tallest: float) -> PlacedBox:
    if box.is_port:
        return PlacedBox(0, 0, *_PORT, box)
    if box.inner:
        inner = placed(box.inner, tallest)
        width = max(inner.width + 2 * _PAD, text_width(box.lines[0], TITLE) + 70)
        return PlacedBox(0, 0, width, inner.height + HEADER + _PAD, box, inner)
    width = lines_width(box.lines) + 26 + (36 if box.box.repeats > 1 else 0)
    height = 14 + LINE * len(box.lines) + (_TIME if box.box.spent else 0)
    return PlacedBox(0, 0, max(width, 48), height, box)


def _links(picture: Picture, boxes: Sequence[PlacedBox]) -> tuple[list[Link], list[PictureEdge | None], list[str]]:
    """A link for each edge, or two with its words between; the edge of each, and the words, laid out like boxes.

    Edges with the same values from one place share their words. A link without an edge only keeps boxes apart.
    """
    links: list[Link] = []
    owners: list[PictureEdge | None] = []
    words: list[str] = []
    captions: dict[tuple[int, tuple[str, ...], int | None], int] = {}
    for edge in picture.edges:
        start, leaves = edge.source, boxes[edge.source].port(edge.leaves)
        if edge.label and picture.boxes[edge.source].box.group:
            key = (edge.source, edge.values, edge.leaves)
            if key not in captions:
                captions[key] = len(boxes) + len(words)
                words.append(edge.label)
                links.append(Link(start, captions[key], leaves))
                owners.append(edge)
            start, leaves = captions[key], None
        links.append(Link(start, edge.target, leaves, boxes[edge.target].port(edge.enters)))
        owners.append(edge)
    # Boxes without any line stand one below the other: beside each other they would make the picture wide.
    tied = {number for edge in picture.edges for number in (edge.source, edge.target)}
    alone = [number for number in range(len(boxes)) if number not in tied]
    links += [Link(*both) for number, both in enumerate(pairwise(alone), 1) if number % _ALONE]
    owners += [None] * (len(links) - len(owners))
    return links, owners, words


def upwards(picture: PlacedPicture) -> PlacedPicture:
    """Return the picture upside down: what it starts with at the bottom."""
    height = picture.height
    boxes = (
        replace(box, y=height - box.y - box.height, inner=upwards(box.inner) if box.inner else None)
        for box in picture.boxes
    )
    lines = (replace(line, points=tuple((x, height - y) for x, y in line.points)) for line in picture.lines)
    captions = (replace(caption, y=height - caption.y + 7) for caption in picture.captions)
    return replace(
        picture, boxes=tuple(boxes), lines=tuple(lines), captions=tuple(captions), is_upwards=not picture.is_upwards
    )
