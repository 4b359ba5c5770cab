"""Every box and line of a sheet at its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from math import inf

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.graphs.levels import BoxKind
from compiler_lens.render.picture.layout import Link, Placement, Point, place
from compiler_lens.render.picture.measure import TEXT, TITLE, text_width
from compiler_lens.views.picture.picture import Picture, PictureBox, PictureEdge
from compiler_lens.views.picture.sheet import Break, Panel, Sheet

TALLEST = 1000.0  # taller pictures are cut into columns
HEADER = 30.0  # of an opened box
LINE = 15.0
_ALONE = 6  # boxes without lines, in one column
_PAD = 16.0
_TIME = 6.0  # room for the bar of a box's time
_PORT = (6.0, 2.0)
_LABEL_HEIGHT = 13.0
_BETWEEN = 150.0  # a forward and its backward: room for the saved tensors' lines
_HEAD = 26.0  # above a panel with a title
_BREAK_GAP = 12.0
_BREAK_LINE = 17.0
_NARROWEST = 300.0


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
    has_arrow: bool = True


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


class PlacedPanel(Struct, frozen=True):
    """A picture on a sheet, with its title."""

    x: float
    y: float
    picture: PlacedPicture
    title: str
    title_at: Point


class PlacedBreak(Struct, frozen=True):
    """A graph break across the sheet."""

    y: float
    height: float
    lines: tuple[str, ...]


class PlacedSheet(Struct, frozen=True):
    """A sheet with everything at its place."""

    width: float
    height: float
    panels: tuple[PlacedPanel, ...]
    breaks: tuple[PlacedBreak, ...] = ()
    saved: tuple[PlacedLine, ...] = ()  # of saved tensors, from the forward to the backward


# -- a sheet


def placed_sheet(sheet: Sheet) -> PlacedSheet:
    """Return a sheet with everything at its place."""
    if sheet.backward:
        return _beside(sheet, sheet.backward)
    return _below(sheet.parts)


def _beside(sheet: Sheet, backward: Panel) -> PlacedSheet:
    """The forward from top to bottom, the backward upwards beside it, each in one column."""
    (forward,) = (part for part in sheet.parts if isinstance(part, Panel))
    first = placed(forward.picture, inf)
    second = upwards(placed(backward.picture, inf))
    height = max(first.height, second.height)
    far = first.width + _BETWEEN
    left = PlacedPanel(0, _HEAD + (height - first.height) / 2, first, forward.title, (0, 12))
    right = PlacedPanel(far, _HEAD + (height - second.height) / 2, second, backward.title, (far, 12))
    makers, readers = list(first.closed(left.x, left.y)), list(second.closed(right.x, right.y))
    saved = []
    for each in sheet.saved:
        source, target = makers[each.source], readers[each.target]
        start = (source.x + source.width, source.y + source.height / 2)
        saved.append(PlacedLine((start, (target.x, target.y + target.height / 2)), each.tooltip))
    return PlacedSheet(far + second.width, height + _HEAD, (left, right), saved=tuple(saved))


def _below(parts: Sequence[Panel | Break]) -> PlacedSheet:
    """One below the other, in the middle of the widest."""
    pictures = [placed(part.picture) if isinstance(part, Panel) else None for part in parts]
    width = max((each.width for each in pictures if each), default=_NARROWEST)
    for part in parts:
        if isinstance(part, Break):
            widths = (text_width(line, TEXT if number else TITLE) for number, line in enumerate(part.lines))
            width = max(width, *(each + 40 for each in widths))
    panels, breaks = [], []
    y = 0.0
    for part, picture in zip(parts, pictures, strict=True):
        if isinstance(part, Break):
            height = _BREAK_LINE * len(part.lines) + 14
            breaks.append(PlacedBreak(y, height, part.lines))
            y += height + _BREAK_GAP
        elif picture:
            head = _HEAD if part.title else 0.0
            panels.append(PlacedPanel((width - picture.width) / 2, y + head, picture, part.title, (0, y + head - 12)))
            y += head + picture.height + (_BREAK_GAP if part.title else 0.0)
    return PlacedSheet(width, y, tuple(panels), tuple(breaks))


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


# -- a picture


class _Plan(Struct):
    """What a picture is made of, before anything has its place."""

    boxes: list[PlacedBox]
    links: list[Link] = field(default_factory=list)
    owners: list[PictureEdge | None] = field(default_factory=list)  # of each link; what has none only keeps apart
    words: list[str] = field(default_factory=list)  # that stand on lines, laid out like boxes

    def tie(self, link: Link, owner: PictureEdge | None) -> None:
        self.links.append(link)
        self.owners.append(owner)


def placed(picture: Picture, tallest: float = TALLEST) -> PlacedPicture:
    """Return a picture with everything at its place, cut into columns where it would be taller than that."""
    plan = _Plan([_sized(box, tallest) for box in picture.boxes])
    _link(picture, plan)
    _stack(picture, plan)
    sizes = [(each.width, each.height) for each in plan.boxes]
    sizes += [(text_width(words, TEXT) + 8, _LABEL_HEIGHT) for words in plan.words]
    ports = [number for number, box in enumerate(picture.boxes) if box.is_port]
    tops = [number for number in ports if picture.boxes[number].box.kind is BoxKind.INPUT]
    bottoms = [number for number in ports if picture.boxes[number].box.kind is BoxKind.OUTPUT]
    return _assembled(plan, place(sizes, plan.links, first=tops, last=bottoms, tallest=tallest), tops, bottoms)


def _sized(box: PictureBox, tallest: float) -> PlacedBox:
    if box.is_port:
        return PlacedBox(0, 0, *_PORT, box)
    if box.inner:
        inner = placed(box.inner, tallest)
        width = max(inner.width + 2 * _PAD, text_width(box.lines[0], TITLE) + 70)
        return PlacedBox(0, 0, width, inner.height + HEADER + _PAD, box, inner)
    width = max(text_width(line, TEXT if number else TITLE) for number, line in enumerate(box.lines)) + 26
    if box.box.repeats > 1:
        width += 36
    height = 14 + LINE * len(box.lines) + (_TIME if box.box.spent else 0)
    return PlacedBox(0, 0, max(width, 48), height, box)


def _link(picture: Picture, plan: _Plan) -> None:
    """A link for each edge, or two with its words between; edges with the same values from one place share these."""
    captions: dict[tuple[int, tuple[str, ...], int | None], int] = {}
    for edge in picture.edges:
        start, leaves = edge.source, plan.boxes[edge.source].port(edge.leaves)
        if edge.label and picture.boxes[edge.source].box.group:
            key = (edge.source, edge.values, edge.leaves)
            if key not in captions:
                captions[key] = len(plan.boxes) + len(plan.words)
                plan.words.append(edge.label)
                plan.tie(Link(start, captions[key], leaves), edge)
            start, leaves = captions[key], None
        plan.tie(Link(start, edge.target, leaves, plan.boxes[edge.target].port(edge.enters)), edge)


def _stack(picture: Picture, plan: _Plan) -> None:
    """Boxes without any line, one below the other: beside each other they would make the picture wide."""
    tied = {number for edge in picture.edges for number in (edge.source, edge.target)}
    alone = [number for number in range(len(picture.boxes)) if number not in tied]
    for number, (above, below) in enumerate(pairwise(alone), 1):
        if number % _ALONE:
            plan.tie(Link(above, below), None)


def _assembled(plan: _Plan, found: Placement, tops: Sequence[int], bottoms: Sequence[int]) -> PlacedPicture:
    count, ports = len(plan.boxes), {*tops, *bottoms}
    boxes = [replace(box, x=x, y=y) for box, (x, y) in zip(plan.boxes, found.places[:count], strict=True)]
    captions = [Caption(x + 4, y + 10, word) for word, (x, y) in zip(plan.words, found.places[count:], strict=True)]
    lines = [
        PlacedLine(route, edge.tooltip, link.target < count and link.target not in ports)
        for route, edge, link in zip(found.routes, plan.owners, plan.links, strict=True)
        if edge
    ]
    return PlacedPicture(
        found.width,
        found.height,
        tuple(box for box in boxes if not box.drawn.is_port),
        tuple(lines),
        tuple(captions),
        {number: boxes[number].x + _PORT[0] / 2 for number in tops},
        {number: boxes[number].x + _PORT[0] / 2 for number in bottoms},
    )
