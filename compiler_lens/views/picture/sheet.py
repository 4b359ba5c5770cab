"""What a user asks for as a picture: one graph, a forward beside its backward, a function's graphs with its breaks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.graphs import graph_choice
from compiler_lens.facts.graphs.frame_graphs import Cut, FramePieces, Piece, frame_pieces
from compiler_lens.facts.graphs.graph_choice import Choice, choose_module
from compiler_lens.facts.graphs.level_tree import Group
from compiler_lens.facts.graphs.levels import Box, BoxKind, Level, Levels, levels
from compiler_lens.facts.kernels.graph_flow import Role
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import GraphStage, Node, Recording, SavedTensor
from compiler_lens.views.picture.labels import amount, kept_words, op_words, short
from compiler_lens.views.picture.picture import Picture, PictureBox, pair, picture
from compiler_lens.views.picture.tooltips import tensors
from compiler_lens.views.text import microseconds, number, plural, short_paths
from compiler_lens.views.words import STAGES

_GRAPHS = 20  # of a function that a picture shows
_OTHERS = 4  # compilations that are named
TITLES = {
    graph_choice.KERNELS: "kernels over the post-grad graph",
    graph_choice.KERNELS_BACKWARD: "kernels over the post-grad graph of the backward",
    graph_choice.TRAINING: "forward and backward",
    graph_choice.FRAME: "graphs and graph breaks",
}


class Panel(Struct, frozen=True):
    """A picture with its title."""

    picture: Picture
    title: str = ""


class Break(Struct, frozen=True):
    """A graph break between two graphs."""

    lines: tuple[str, ...]


class Saved(Struct, frozen=True):
    """Tensors that go from a box of the forward to one of the backward, each counted among the closed ones."""

    source: int
    target: int
    tooltip: str


class Sheet(Struct, frozen=True):
    """A whole page."""

    title: str
    note: str = ""  # beside the title
    name: str = ""  # what a file with it could be called, without an ending
    parts: tuple[Panel | Break, ...] = ()  # one below the other
    backward: Panel | None = None  # beside the only part, which is its forward
    saved: tuple[Saved, ...] = ()
    level: Level | None = None  # of a single graph's picture, its groups closed

    @property
    def pictures(self) -> list[Picture]:
        """All its pictures."""
        panels = [part for part in self.parts if isinstance(part, Panel)]
        return [panel.picture for panel in (*panels, *([self.backward] if self.backward else []))]


def sheet(recording: Recording, choice: Choice, module: str = "", depth: int | None = None) -> Sheet:
    """Return what a user chose; `module` and `depth` are those of `compiler_lens.draw`.

    Raises:
        UsageError: there is no such module, or the choice takes none; says what there is.
    """
    if depth is not None and depth < 0:
        raise UsageError(f"depth {depth}: it counts levels to open, 0 or more")
    if choice.view in {graph_choice.FRAME, graph_choice.TRAINING} and module:
        raise UsageError(f"--module goes with one graph; {choice.view} draws several")
    if choice.view == graph_choice.FRAME:
        found = frame_pieces(recording, choice.graph.compile_id)
        return replace(frame_sheet(recording, found, depth), name=_name(choice))
    if choice.view == graph_choice.TRAINING:
        return _training(recording, choice, depth)
    return _single(recording, choice, module, depth)


# -- one graph


def _single(recording: Recording, choice: Choice, module: str, depth: int | None) -> Sheet:
    known = levels(recording, choice.graph, kernels=choice.view.startswith(graph_choice.KERNELS))
    group = choose_module(known, module)
    drawn = picture(known, group, depth)
    note = level_note(known, group) + _others(choice) + _end(recording)
    if drawn.stopped is not None:
        opened = f"opened {plural(drawn.stopped, 'level')} deep" if drawn.stopped else "nothing opened"
        note += f"; {opened}, with more it could not be read"
    title, name = _title(recording, choice, group.module), _name(choice, group.module)
    return Sheet(title, note, name, (Panel(drawn),), level=known.level(group))


def level_note(known: Levels, group: Group) -> str:
    """Return what is said beside the title of a level: its ops, and how long its launches took."""
    spent = known.spent(group.first, group.last)
    words = op_words(*known.op_count(group)) + (f", {microseconds(spent.microseconds)} per call" if spent else "")
    return words + (_unplaced(known) if group is known.root else "")


def _unplaced(known: Levels) -> str:
    """How many launches a picture cannot show, and why."""
    launches = known.unplaced_launches
    if not launches:
        return ""
    unknown = sum(not call.nodes for call in launches)
    elsewhere = len(launches) - unknown
    reasons = []
    if unknown:
        reasons.append("what they compute is not recorded" + (f" of {number(unknown)}" if elsewhere else ""))
    if elsewhere:
        reasons.append(f"{number(elsewhere)} compute what other boxes have")
    of_all = f"{number(len(launches))} of {plural(len(known.calls), 'launch', 'launches')} in no box"
    return f"; {of_all}: {', '.join(reasons)}"


def _others(choice: Choice) -> str:
    """The compilations whose graphs could have been drawn as well."""
    named = ", ".join(f"[{each}]" for each in choice.others[:_OTHERS])
    more = f" and {len(choice.others) - _OTHERS} more" if len(choice.others) > _OTHERS else ""
    return f"; also there: {named}{more}" if named else ""


def _end(recording: Recording) -> str:
    return "; the recording is not finished" if recording.unfinished else ""


def _title(recording: Recording, choice: Choice, module: str = "") -> str:
    graph = choice.graph
    what = TITLES.get(choice.view) or STAGES[graph.stage]
    function = next((c for c in recording.compilations if c.compile_id == graph.compile_id), None)
    name = (function.definition.function if function.definition else function.function) if function else ""
    several = sum((g.compile_id, g.stage) == (graph.compile_id, graph.stage) for g in recording.graphs)
    part = f"part {graph.ordinal + 1} of {several}" if several > 1 else ""
    return " · ".join(word for word in (f"{what} [{graph.compile_id}]", name, part, module) if word)


def _name(choice: Choice, module: str = "") -> str:
    """Without anything that a file's name should not have."""
    part = str(choice.graph.ordinal + 1) if choice.graph.ordinal else ""
    parts = (choice.view, str(choice.graph.compile_id).replace("/", "_"), part, module)
    return "-".join(re.sub(r"[^\w.@-]+", "_", part)[:60] for part in parts if part)


# -- forward beside backward


def _training(recording: Recording, choice: Choice, depth: int | None) -> Sheet:
    graph = choice.graph
    backward = next(
        each
        for each in recording.graphs
        if (each.compile_id, each.stage, each.ordinal) == (graph.compile_id, GraphStage.AOT_BACKWARD, graph.ordinal)
    )
    left, right = pair(levels(recording, graph), levels(recording, backward), depth)
    note = kept_words(graph.saved) + _others(choice) + _end(recording)
    return Sheet(
        _title(recording, choice),
        note,
        _name(choice),
        (Panel(left, "forward"),),
        Panel(right, "backward, upwards"),
        _saved(left, right, graph.saved),
    )


def _saved(forward: Picture, backward: Picture, saved: Sequence[SavedTensor]) -> tuple[Saved, ...]:
    """What the backward reads of what the forward makes; tensors that go the same way are one line."""
    makers: dict[str, tuple[int, Node]] = {}
    for place, drawn in enumerate(_closed(forward)):
        if drawn.box.kind is not BoxKind.OUTPUT:
            makers.update((node.name, (place, node)) for node in drawn.box.nodes)
    readers: dict[str, list[int]] = {}
    for place, drawn in enumerate(_closed(backward)):
        for name in _read(drawn.box):
            readers.setdefault(name, []).append(place)
    ways: dict[tuple[int, int], dict[str, Node]] = {}
    for tensor in saved:
        if tensor.name in makers:
            source, node = makers[tensor.name]
            for target in readers.get(tensor.name, ()):
                ways.setdefault((source, target), {})[node.name] = node
    return tuple(Saved(*way, _saved_words(list(nodes.values()))) for way, nodes in ways.items())


def _closed(picture: Picture) -> list[PictureBox]:
    return [box for box in picture.every_box() if not box.inner]


def _read(box: Box) -> list[str]:
    values = (*box.reads, *box.values) if box.kind is BoxKind.INPUT else box.reads
    return [value.node.name for value in values if value.role in {Role.SAVED, Role.PARAMETER}]


def _saved_words(nodes: Sequence[Node]) -> str:
    """How many tensors are kept, what that takes, and which they are."""
    return f"{plural(len(nodes), 'tensor')}{amount(nodes)}: {tensors(nodes)}"


# -- graphs with breaks


def frame_sheet(recording: Recording, found: FramePieces, depth: int | None = None) -> Sheet:
    """Return a function's graphs one below the other, each with its id, and the breaks as cuts between them.

    Of the recording only those graphs are asked for.
    """
    shown = found.pieces[:_GRAPHS]
    paths = short_paths(line.file for piece in shown if piece.cut for line in piece.cut.lines)
    parts: list[Panel | Break] = []
    for piece in shown:
        if piece.graph:
            parts.append(Panel(picture(levels(recording, piece.graph), None, depth or 0), piece_words(piece)))
        if piece.cut:
            parts.append(Break(_cut_lines(piece, piece.cut, paths)))
    title = f"{found.name}: {TITLES[graph_choice.FRAME]}"
    return Sheet(title, _frame_note(found.pieces) + _end(recording), parts=tuple(parts))


def _frame_note(pieces: Sequence[Piece]) -> str:
    split = sum(piece.part > 0 for piece in pieces)
    words = [plural(len({piece.compile_id for piece in pieces if piece.graph}), "graph")]
    if split:
        words.append(f"compiled in {plural(split, 'part')}")
    words.append(plural(len({piece.cut.number for piece in pieces if piece.cut}), "graph break"))
    return ", ".join(words) + (f"; {len(pieces) - _GRAPHS} more" if len(pieces) > _GRAPHS else "")


def piece_words(piece: Piece) -> str:
    """Return which graph it is, and where the function goes on with it."""
    part = f", part {piece.part} of {piece.parts}" if piece.part else ""
    start = f", from line {piece.line}" if piece.line else ""
    return f"{'or ' if piece.instead else ''}graph [{piece.compile_id}]{part}{start}"


def _cut_lines(piece: Piece, cut: Cut, names: Mapping[str, str]) -> tuple[str, ...]:
    lines = (f"{names.get(line.file, line.file)}:{line.line} {short(line.code.strip(), 70)}" for line in cut.lines)
    head = "or, without a graph, " if piece.instead and not piece.graph else ""
    return (f"{head}graph break: {short(cut.card.gb_type, 70)}", *lines)
