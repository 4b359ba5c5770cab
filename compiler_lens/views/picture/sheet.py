"""What a user asks for as a picture: one graph, a forward beside its backward, a function's graphs with its breaks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.graphs import graph_choice
from compiler_lens.facts.graphs.frame_graphs import FramePieces, Piece, frame_pieces
from compiler_lens.facts.graphs.graph_choice import Choice, choose_module
from compiler_lens.facts.graphs.level_tree import Group
from compiler_lens.facts.graphs.levels import Box, BoxKind, Level, Levels, levels
from compiler_lens.facts.kernels.graph_flow import Role
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.ids import GraphId
from compiler_lens.recording.model import GraphStage, Node, Recording, SavedTensor
from compiler_lens.views.picture.labels import amount, kept_words, op_words, short, tensors
from compiler_lens.views.picture.picture import Picture, PictureEdge, pair, picture
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

Break = tuple[str, ...]  # the lines of a graph break between two graphs


class Panel(Struct, frozen=True):
    """A picture with its title."""

    picture: Picture
    title: str = ""


class Sheet(Struct, frozen=True):
    """A whole page."""

    title: str
    note: str = ""  # beside the title
    name: str = ""  # what a file with it could be called, without an ending
    parts: tuple[Panel | Break, ...] = ()  # one below the other
    beside: tuple[Panel, Panel] | None = None  # instead, a forward and its backward beside each other
    saved: tuple[PictureEdge, ...] = ()  # from the closed boxes of the one to those of the other
    level: Level | None = None  # of a single graph's picture, its groups closed


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
    known = levels(recording, choice.graph, kernels=choice.view.startswith(graph_choice.KERNELS))
    group = choose_module(known, module)
    drawn = picture(known, group, depth)
    note = level_note(known, group) + _rest(recording, choice)
    if drawn.stopped is not None:
        opened = f"opened {plural(drawn.stopped, 'level')} deep" if drawn.stopped else "nothing opened"
        note += f"; {opened}, with more it could not be read"
    title, name = _title(recording, choice, group.module), _name(choice, group.module)
    return Sheet(title, note, name, (Panel(drawn),), level=known.level(group))


def level_note(known: Levels, group: Group) -> str:
    """Return what is said beside the title of a level: its ops, how long its launches took, how many have no box."""
    spent = known.spent(group.first, group.last)
    words = op_words(*known.op_count(group)) + (f", {microseconds(spent.microseconds)} per call" if spent else "")
    launches = known.unplaced_launches if group is known.root else ()
    if not launches:
        return words
    unknown = sum(not call.nodes for call in launches)
    elsewhere = len(launches) - unknown
    reasons = []
    if unknown:
        reasons.append("what they compute is not recorded" + (f" of {number(unknown)}" if elsewhere else ""))
    if elsewhere:
        reasons.append(f"{number(elsewhere)} compute what other boxes have")
    of_all = f"{number(len(launches))} of {plural(len(known.calls), 'launch', 'launches')} in no box"
    return f"{words}; {of_all}: {', '.join(reasons)}"


def _rest(recording: Recording, choice: Choice | None = None) -> str:
    """The compilations whose graphs could have been drawn as well, and whether more may come."""
    others = choice.others if choice else ()
    named = ", ".join(f"[{each}]" for each in others[:_OTHERS])
    more = f" and {len(others) - _OTHERS} more" if len(others) > _OTHERS else ""
    words = f"; also there: {named}{more}" if named else ""
    return words + ("; the recording is not finished" if recording.unfinished else "")


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
    wanted = GraphId(graph.compile_id, GraphStage.AOT_BACKWARD, graph.ordinal)
    backward = next(each for each in recording.graphs if each.id == wanted)
    left, right = pair(levels(recording, graph), levels(recording, backward), depth)
    note = kept_words(graph.saved) + _rest(recording, choice)
    beside = (Panel(left, "forward"), Panel(right, "backward, upwards"))
    saved = _saved(left, right, graph.saved)
    return Sheet(_title(recording, choice), note, _name(choice), beside=beside, saved=saved)


def _saved(forward: Picture, backward: Picture, saved: Sequence[SavedTensor]) -> tuple[PictureEdge, ...]:
    """What the backward reads of what the forward makes; tensors that go the same way are one line."""
    makers: dict[str, tuple[int, Node]] = {}
    for place, box in enumerate(_closed(forward)):
        if box.kind is not BoxKind.OUTPUT:
            makers.update((node.name, (place, node)) for node in box.nodes)
    readers: dict[str, list[int]] = {}
    for place, box in enumerate(_closed(backward)):
        for value in (*box.reads, *box.values) if box.kind is BoxKind.INPUT else box.reads:
            if value.role in {Role.SAVED, Role.PARAMETER}:
                readers.setdefault(value.node.name, []).append(place)
    ways: dict[tuple[int, int], dict[str, Node]] = {}
    for tensor in saved:
        if tensor.name in makers:
            source, node = makers[tensor.name]
            for target in readers.get(tensor.name, ()):
                ways.setdefault((source, target), {})[node.name] = node
    found = []
    for way, together in ways.items():
        nodes = list(together.values())
        words = f"{plural(len(nodes), 'tensor')}{amount(nodes)}: {tensors(nodes)}"
        found.append(PictureEdge(*way, tuple(together), words))
    return tuple(found)


def _closed(picture: Picture) -> list[Box]:
    return [drawn.box for drawn in picture.every_box() if not drawn.inner]


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
            head = "or, without a graph, " if piece.instead and not piece.graph else ""
            at = [f"{paths.get(a.file, a.file)}:{a.line} {short(a.code.strip(), 70)}" for a in piece.cut.lines]
            parts.append((f"{head}graph break: {short(piece.cut.card.gb_type, 70)}", *at))
    split = sum(piece.part > 0 for piece in found.pieces)
    words = [plural(len({piece.compile_id for piece in found.pieces if piece.graph}), "graph")]
    if split:
        words.append(f"compiled in {plural(split, 'part')}")
    words.append(plural(len({piece.cut.number for piece in found.pieces if piece.cut}), "graph break"))
    more = f"; {len(found.pieces) - _GRAPHS} more" if len(found.pieces) > _GRAPHS else ""
    title = f"{found.name}: {TITLES[graph_choice.FRAME]}"
    return Sheet(title, ", ".join(words) + more + _rest(recording), parts=tuple(parts))


def piece_words(piece: Piece) -> str:
    """Return which graph it is, and where the function goes on with it."""
    part = f", part {piece.part} of {piece.parts}" if piece.part else ""
    start = f", from line {piece.line}" if piece.line else ""
    return f"{'or ' if piece.instead else ''}graph [{piece.compile_id}]{part}{start}"
