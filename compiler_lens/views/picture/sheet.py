"""What stands on one page: a picture, a forward beside its backward, a function's graphs with its breaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.facts.graphs.frame_graphs import Cut, FramePieces, Piece
from compiler_lens.facts.graphs.level_boxes import BoxKind
from compiler_lens.facts.kernels.graph_flow import Role
from compiler_lens.recording.model import Node, SavedTensor
from compiler_lens.render.picture.measure import TEXT, TITLE, text_width
from compiler_lens.views.picture.labels import amount, short
from compiler_lens.views.picture.scene import Drawn, Picture, inside
from compiler_lens.views.text import one_line, plural, short_paths

_BETWEEN = 150.0  # room for the saved tensors' lines
_HEAD = 26.0
_CUT_GAP = 12.0
_CUT_LINE = 17.0


@dataclass(frozen=True, slots=True)
class Panel:
    """A picture with its title, at its place."""

    x: float
    y: float
    title: str
    picture: Picture


@dataclass(frozen=True, slots=True)
class Break:
    """A graph break across the page."""

    y: float
    height: float
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Saved:
    """Tensors that go from a box of the forward to one of the backward."""

    start: tuple[float, float]
    end: tuple[float, float]
    nodes: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Sheet:
    """A page."""

    width: float
    height: float
    panels: tuple[Panel, ...]
    breaks: tuple[Break, ...] = ()
    saved: tuple[Saved, ...] = ()


def single(picture: Picture) -> Sheet:
    """One picture."""
    return Sheet(picture.width, picture.height, (Panel(0, 0, "", picture),))


# -- forward beside backward


def beside(forward: Picture, backward: Picture, saved: Sequence[SavedTensor]) -> Sheet:
    """The forward from top to bottom, the backward upwards beside it, and what it reads of the forward's tensors."""
    mirrored = upwards(backward)
    height = max(forward.height, backward.height)
    left = Panel(0, _HEAD + (height - forward.height) / 2, "forward", forward)
    right = Panel(forward.width + _BETWEEN, _HEAD + (height - backward.height) / 2, "backward, upwards", mirrored)
    return Sheet(right.x + backward.width, height + _HEAD, (left, right), (), tuple(_saved(left, right, saved)))


def upwards(picture: Picture) -> Picture:
    """The picture upside down: what it starts with at the bottom."""
    height = picture.height
    boxes = tuple(
        replace(box, y=height - box.y - box.height, inner=upwards(box.inner) if box.inner else None)
        for box in picture.boxes
    )
    lines = tuple(replace(line, points=tuple((x, height - y) for x, y in line.points)) for line in picture.lines)
    captions = tuple(replace(caption, y=height - caption.y + 7) for caption in picture.captions)
    return replace(picture, boxes=boxes, lines=lines, captions=captions, up=not picture.up)


def _saved(left: Panel, right: Panel, saved: Sequence[SavedTensor]) -> Iterator[Saved]:
    makers = {node.name: place for place in _places(left) for node in place[2].box.nodes if _makes(place[2])}
    readers: dict[str, list[_Placed]] = {}
    for place in _places(right):
        for value in (*place[2].box.reads, *(place[2].box.values if place[2].box.kind is BoxKind.INPUT else ())):
            if value.role in {Role.SAVED, Role.PARAMETER}:
                readers.setdefault(value.node.name, []).append(place)
    ways: dict[tuple[tuple[float, float], tuple[float, float]], dict[str, Node]] = {}
    for tensor in saved:
        if tensor.name in makers:
            start = makers[tensor.name]
            for end in readers.get(tensor.name, ()):
                node = next((n for n in start[2].box.nodes if n.name == tensor.name), None)
                out = (start[0] + start[2].width, start[1] + start[2].height / 2)
                into = (end[0], end[1] + end[2].height / 2)
                if node:
                    ways.setdefault((out, into), {})[node.name] = node
    yield from (Saved(start, end, tuple(nodes.values())) for (start, end), nodes in ways.items())


_Placed = tuple[float, float, Drawn]


def _makes(drawn: Drawn) -> bool:
    return drawn.box.kind is not BoxKind.OUTPUT


def _places(panel: Panel) -> Iterator[_Placed]:
    yield from inside(panel.picture, panel.x, panel.y)


# -- graphs with breaks


def broken(pieces: FramePieces, pictures: Sequence[Picture | None]) -> Sheet:
    """A function's graphs one below the other, each with its id, and the breaks as cuts between them."""
    paths = short_paths(line.file for piece in pieces.pieces if piece.cut for line in piece.cut.lines)
    panels: list[Panel] = []
    breaks: list[Break] = []
    y = 0.0
    wide = max((picture.width for picture in pictures if picture), default=300.0)
    for piece, drawn in zip(pieces.pieces, pictures, strict=True):
        if drawn:
            panels.append(Panel((wide - drawn.width) / 2, y + _HEAD, piece_words(piece), drawn))
            y += _HEAD + drawn.height + _CUT_GAP
        if piece.cut:
            lines = _cut_lines(piece, piece.cut, paths)
            height = _CUT_LINE * len(lines) + 14
            breaks.append(Break(y, height, lines))
            y += height + _CUT_GAP
            wide = max(wide, *(text_width(line, TITLE if not n else TEXT) + 40 for n, line in enumerate(lines)))
    return Sheet(wide, y, tuple(replace(p, x=(wide - p.picture.width) / 2) for p in panels), tuple(breaks))


def piece_words(piece: Piece) -> str:
    """Which graph it is, and where the function goes on with it."""
    part = f", part {piece.part} of {piece.parts}" if piece.part else ""
    start = f", from line {piece.line}" if piece.line else ""
    return f"{'or ' if piece.instead else ''}graph [{piece.compile_id}]{part}{start}"


def _cut_lines(piece: Piece, cut: Cut, names: Mapping[str, str]) -> tuple[str, ...]:
    lines = (f"{names.get(line.file, line.file)}:{line.line} {short(line.code.strip(), 70)}" for line in cut.lines)
    told = "or, without a graph, " if piece.instead and not piece.graph else ""
    return (f"{told}graph break: {short(cut.card.gb_type, 70)}", *lines)


def saved_words(saved: Saved) -> str:
    """How many tensors are kept, and what that takes."""
    return one_line(f"{plural(len(saved.nodes), 'tensor')}{amount(saved.nodes)}")
