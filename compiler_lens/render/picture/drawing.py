"""`draw`: what a user asks for as a picture. It shows itself in a notebook, and saves as SVG, DOT or PNG."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from compiler_lens.facts.graphs import graph_choice
from compiler_lens.facts.graphs.frame_graphs import FramePieces, frame_pieces
from compiler_lens.facts.graphs.graph_choice import Choice, choose, choose_module
from compiler_lens.facts.graphs.level_boxes import Level
from compiler_lens.facts.graphs.level_tree import Group
from compiler_lens.facts.graphs.levels import Levels, levels
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import CompileId, GraphStage, Recording
from compiler_lens.render.picture.svg import to_svg
from compiler_lens.views.picture.labels import kept_words, op_words
from compiler_lens.views.picture.scene import Picture, pair, picture
from compiler_lens.views.picture.sheet import Sheet, beside, broken, single
from compiler_lens.views.text import microseconds, number, plural
from compiler_lens.views.words import STAGES

if TYPE_CHECKING:
    from graphviz import Source
    from pydot import Dot

_GRAPHS = 20  # of a function that a picture shows
_OTHERS = 4  # compilations that are named
_SIDE, _PIXELS = 32_000.0, 1e8  # of a PNG; cairo's limit is 32,767 on a side
_SIZE = re.compile(r'width="([\d.]+)" height="([\d.]+)"')
TITLES = {
    graph_choice.KERNELS: "kernels over the post-grad graph",
    graph_choice.KERNELS_BACKWARD: "kernels over the post-grad graph of the backward",
    graph_choice.TRAINING: "forward and backward",
    graph_choice.FRAME: "graphs and graph breaks",
}
FORMATS = (".svg", ".dot", ".png")


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of a graph.

    Attributes:
        title: what it shows.
        svg: the picture, as the text of an SVG file.
        level: the boxes and lines of a single graph's picture, closed.
        name: what a file with it could be called, without an ending.
    """

    title: str
    svg: str
    name: str
    level: Level | None = None

    @property
    def dot(self) -> str:
        """The picture's own level, its groups closed, in Graphviz's language. Raises `UsageError` as `pydot` does."""
        return str(self.pydot().to_string())

    def pydot(self) -> Dot:
        """Return the picture's own level, its groups closed, as a `pydot.Dot`.

        Raises:
            UsageError: the picture shows several graphs.
        """
        from compiler_lens.render.picture.dot import to_pydot

        if self.level is None:
            raise UsageError(f"no DOT of {self.title}: it shows several graphs; draw one of them by its stage")
        return to_pydot(self.level, self.title)

    def graphviz(self) -> Source:
        """Return the text of `dot` as a `graphviz.Source`, which renders where Graphviz is installed.

        Raises:
            UsageError: the picture shows several graphs.
        """
        from graphviz import Source

        return Source(self.dot, filename=f"{self.name}.gv")

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write a file, in the format that its name ends with: .svg, .dot or .png."""
        target = Path(path)
        if target.suffix.lower() not in FORMATS:
            raise UsageError(f"cannot write {target}: the name of a picture ends in {', '.join(FORMATS)}")
        content = self._content(target.suffix.lower())
        try:
            target.write_bytes(content)
        except OSError as error:
            raise UsageError(f"cannot write {target}: {error.strerror or error}") from error
        return target

    def _content(self, suffix: str) -> bytes:
        if suffix == ".png":
            return _png(self)
        return (self.dot if suffix == ".dot" else self.svg).encode()

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return f"<drawing of {self.title}>"


def draw(  # noqa: PLR0913 -- what a user chooses
    recording: Recording,
    stage: str | GraphStage = "",
    compile_id: str | CompileId = "",
    *,
    module: str = "",
    depth: int | None = None,
    part: int | None = None,
) -> Drawing:
    """A graph of a recording as a picture.

    Args:
        stage: dynamo, joint, forward, backward, inference, post_grad, post_grad_backward; kernels, kernels_backward;
            training: the forward beside the backward; frame: a function's graphs with the breaks between them.
            Without one, the first of these that there is.
        compile_id: "0/1", or "0" for a frame; without one, the largest graph's, of a
            recompiled function the first that is about as large.
        module: draw this module only: "h.3.attn", or any end of its path.
        depth: how many levels of modules to open in place; without it, as many as stay readable.
        part: which, of a graph that the backend was given in several parts (DDP splits it), counted from 1; without it,
            the largest.

    Raises:
        UsageError: there is no such graph or module; says what there is.
    """
    choice = choose(recording, stage.value if isinstance(stage, GraphStage) else stage, str(compile_id), part)
    if depth is not None and depth < 0:
        raise UsageError(f"depth {depth}: it counts levels to open, 0 or more")
    if choice.view in {graph_choice.FRAME, graph_choice.TRAINING} and module:
        raise UsageError(f"--module goes with one graph; {choice.view} draws several")
    if choice.view == graph_choice.FRAME:
        return _frame(recording, choice, depth)
    if choice.view == graph_choice.TRAINING:
        return _training(recording, choice, depth)
    return _one(recording, choice, module, depth)


def _one(recording: Recording, choice: Choice, module: str, depth: int | None) -> Drawing:
    known = levels(recording, choice.graph, kernels=choice.view.startswith(graph_choice.KERNELS))
    group = choose_module(known, module)
    drawn = picture(known, group, depth)
    title = _title(recording, choice, group.module)
    note = level_note(known, group) + _others(choice) + _end(recording)
    if drawn.stopped is not None:
        opened = f"opened {plural(drawn.stopped, 'level')} deep" if drawn.stopped else "nothing opened"
        note += f"; {opened}, with more it could not be read"
    svg = to_svg(single(drawn), title, note=note)
    return Drawing(title, svg, _name(choice, group.module), known.level(group))


def level_note(known: Levels, group: Group) -> str:
    """What is said beside the title of a level: its ops, and how long its launches took."""
    spent = known.spent(group.first, group.last)
    told = op_words(*known.op_count(group)) + (f", {microseconds(spent.microseconds)} per call" if spent else "")
    return told + (_unplaced(known) if group is known.root else "")


def _unplaced(known: Levels) -> str:
    """How many launches a picture cannot show, and why."""
    unknown = sum(not call.nodes for call in known.unplaced_launches)
    elsewhere = len(known.unplaced_launches) - unknown
    which = f" of {number(unknown)}" if elsewhere else ""
    reasons = (
        *((f"what they compute is not recorded{which}",) if unknown else ()),
        *((f"{number(elsewhere)} compute what other boxes have",) if elsewhere else ()),
    )
    of_all = f"{number(len(known.unplaced_launches))} of {plural(len(known.calls), 'launch', 'launches')} in no box"
    return f"; {of_all}: {', '.join(reasons)}" if reasons else ""


def _training(recording: Recording, choice: Choice, depth: int | None) -> Drawing:
    same = [g for g in recording.graphs if g.compile_id == choice.graph.compile_id]
    backward = next(g for g in same if g.stage is GraphStage.AOT_BACKWARD and g.ordinal == choice.graph.ordinal)
    pictures = pair(levels(recording, choice.graph), levels(recording, backward), depth)
    title = _title(recording, choice)
    note = kept_words(choice.graph.saved) + _others(choice) + _end(recording)
    svg = to_svg(beside(*pictures, choice.graph.saved), title, note=note)
    return Drawing(title, svg, _name(choice))


def _others(choice: Choice) -> str:
    """The compilations whose graphs could have been drawn as well."""
    named = ", ".join(f"[{each}]" for each in choice.others[:_OTHERS])
    more = f" and {len(choice.others) - _OTHERS} more" if len(choice.others) > _OTHERS else ""
    return f"; also there: {named}{more}" if named else ""


def _end(recording: Recording) -> str:
    return "; the recording is not finished" if recording.unfinished else ""


def _frame(recording: Recording, choice: Choice, depth: int | None) -> Drawing:
    return draw_frame(recording, frame_pieces(recording, choice.graph.compile_id), _name(choice), depth)


def draw_frame(recording: Recording, found: FramePieces, name: str = "", depth: int | None = None) -> Drawing:
    """A function's graphs with the breaks between them; of the recording only those graphs are asked for."""
    shown = replace(found, pieces=found.pieces[:_GRAPHS])
    sheet = _broken(recording, shown, depth)
    title = f"{found.name}: {TITLES[graph_choice.FRAME]}"
    breaks = len({piece.cut.number for piece in found.pieces if piece.cut})
    rest = len(found.pieces) - len(shown.pieces)
    graphs = len({piece.compile_id for piece in found.pieces if piece.graph})
    parts = sum(piece.part > 0 for piece in found.pieces)
    note = ", ".join(
        (
            plural(graphs, "graph"),
            *((f"compiled in {plural(parts, 'part')}",) if parts else ()),
            plural(breaks, "graph break") + (f"; {rest} more" if rest else ""),
        )
    )
    note += _end(recording)
    return Drawing(title, to_svg(sheet, title, note=note), name)


def _broken(recording: Recording, pieces: FramePieces, depth: int | None) -> Sheet:
    pictures: list[Picture | None] = [
        picture(levels(recording, piece.graph), None, depth or 0) if piece.graph else None for piece in pieces.pieces
    ]
    return broken(pieces, pictures)


def _title(recording: Recording, choice: Choice, module: str = "") -> str:
    graph = choice.graph
    what = TITLES.get(choice.view) or STAGES[graph.stage]
    function = next((c for c in recording.compilations if c.compile_id == graph.compile_id), None)
    name = (function.definition.function if function.definition else function.function) if function else ""
    several = sum((g.compile_id, g.stage) == (graph.compile_id, graph.stage) for g in recording.graphs)
    part = f"part {graph.ordinal + 1} of {several}" if several > 1 and choice.view != graph_choice.FRAME else ""
    return " · ".join(word for word in (f"{what} [{graph.compile_id}]", name, part, module) if word)


def _name(choice: Choice, module: str = "") -> str:
    """Without anything that a file's name should not have."""
    number = str(choice.graph.ordinal + 1) if choice.graph.ordinal else ""
    parts = (choice.view, str(choice.graph.compile_id).replace("/", "_"), number, module)
    return "-".join(re.sub(r"[^\w.@-]+", "_", part)[:60] for part in parts if part)


def _scale(svg: str) -> float:
    """Twice the size, for sharp text; less where cairo could not hold it."""
    size = _SIZE.search(svg)
    width, height = (float(size[1]), float(size[2])) if size else (1.0, 1.0)
    return min(2.0, _SIDE / max(width, height), math.sqrt(_PIXELS / (width * height)))


def _png(drawing: Drawing) -> bytes:
    try:
        import cairosvg

    except (ImportError, OSError) as error:  # OSError: the cairo library is not there
        raise UsageError("no PNG: that needs pip install compiler_lens[png]; an .svg opens in any browser") from error
    return bytes(cairosvg.svg2png(bytestring=drawing.svg.encode(), scale=_scale(drawing.svg)))
