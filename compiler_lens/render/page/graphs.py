"""Graphs for the page: of every compilation its stages, as code and as pictures, as far as there is room for these."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.graphs import graph_choice
from compiler_lens.facts.graphs.graph_bodies import op_count
from compiler_lens.facts.graphs.level_tree import Group, GroupId, GroupKind
from compiler_lens.facts.graphs.levels import Box, Levels, levels
from compiler_lens.facts.program.coverage import Function, Treatment, function_name
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, Direction, Graph, GraphStage, Kernel, Recording
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.links import PageLinks, address
from compiler_lens.render.page.pool import Pool
from compiler_lens.render.picture.svg import to_svg
from compiler_lens.views import words
from compiler_lens.views.frames import treated
from compiler_lens.views.picture.labels import kept_words, op_words
from compiler_lens.views.picture.picture import picture
from compiler_lens.views.picture.sheet import TITLES, Panel, Sheet, frame_sheet, level_note, piece_words, sheet
from compiler_lens.views.text import clean, times

# How the page's buttons call a stage within its compilation, in their order: a group, and a short name in it.
_BUTTONS: Mapping[str, tuple[str, str]] = {
    "dynamo": ("", "Dynamo"),
    "joint": ("", "joint"),
    "forward": ("", "forward"),
    "inference": ("", "inference"),
    "backward": ("", "backward"),
    "training": ("", "both"),
    "post_grad": ("post-grad", "forward"),
    "post_grad_backward": ("post-grad", "backward"),
    "kernels": ("kernels", "forward"),
    "kernels_backward": ("kernels", "backward"),
    "frame": ("", "breaks"),
    "code-forward": ("code", "forward"),
    "code-inference": ("code", "inference"),
    "code-backward": ("code", "backward"),
}
_PLACES = {key: place for place, key in enumerate(_BUTTONS)}
_MOST = 300  # pictures in a page: some seconds of drawing at most, and some hundred kilobytes
_KERNELS: Mapping[GraphStage, tuple[str, tuple[Direction, ...]]] = {
    GraphStage.POST_GRAD: (graph_choice.KERNELS, (Direction.FORWARD, Direction.INFERENCE)),
    GraphStage.POST_GRAD_BACKWARD: (graph_choice.KERNELS_BACKWARD, (Direction.BACKWARD,)),
}

_FUNCTIONS = 200  # where the view begins: the table below has all
_PIECES = 12  # of a function
_PREFERRED = ("frame", "dynamo", "forward", "inference", "post_grad", "kernels")

Shown = list[list[Any]]  # each level: its address, name, the address of the one around it, its picture


def graph_data(context: PageContext) -> list[dict[str, Any]]:
    """Return every compilation with its graphs and its output code, in order."""
    recording, links, pool = context.recording, context.links, context.pool
    codes: defaultdict[CompileId, list[dict[str, Any]]] = defaultdict(list)
    for code in recording.output_codes:
        told = f"output code, {words.PASSES[code.direction]}" + (f", graph {code.ordinal + 1}" if code.ordinal else "")
        key = f"code-{code.direction.value}" + (f"-{code.ordinal}" if code.ordinal else "")
        codes[code.compile_id].append({"key": key, "name": told, "note": "", "code": pool.add(code.code)})
    compilations = {each.compile_id: each for each in recording.compilations}
    graphs = grouped(recording.graphs, lambda graph: graph.compile_id)
    album = _Album(context, graphs, grouped(recording.kernels, lambda kernel: kernel.compile_id))
    # Where there is not room for all pictures, the first of each frame come first.
    first = sorted(compilations.values(), key=lambda each: each.compile_id.recompile or 0)
    pictures = {each.compile_id: album.of_compilation(each) for each in first}
    found = []
    for compile_id, each in compilations.items():
        name, (drawn, more) = function_name(each), pictures[compile_id]
        own = zip(graphs.get(compile_id, ()), drawn, strict=True)
        stages = [*(_stage(graph, shown, pool) for graph, shown in own), *more, *codes[compile_id]]
        made = {
            "id": str(compile_id),
            "key": address(compile_id),
            "function": name.name,
            "at": links.at(name) if name.file else "",
            "href": links.href(name) if name.file else "",
            "stages": [stage for *_, stage in sorted(map(_with_button, stages), key=lambda one: one[:2])],
        }
        found.append(made)
    return found


def _stage(graph: Graph, shown: Shown, pool: Pool) -> dict[str, Any]:
    number = f", graph {graph.ordinal + 1}" if graph.ordinal else ""
    kept = f"; {kept_words(graph.saved)}" if graph.saved else ""
    return {
        "key": _key(graph),
        "name": words.STAGES[graph.stage] + number,
        "note": op_words(*op_count(graph)) + kept,
        "code": pool.add(graph.code) if graph.code else None,
        "levels": shown,
    }


def _key(graph: Graph) -> str:
    """A graph within its compilation, as a part of an address."""
    return graph.stage.value + (f"-{graph.ordinal}" if graph.ordinal else "")


def _with_button(stage: dict[str, Any]) -> tuple[int, int, dict[str, Any]]:
    """The place of a stage's button, and the stage with what stands on it."""
    key, _, part = stage["key"].rpartition("-") if stage["key"][-1].isdigit() else (stage["key"], "", "")
    group, short = _BUTTONS[key]
    number = f" {int(part) + 1}" if part else ""
    return _PLACES[key], int(part or 0), stage | {"group": group, "short": short + number}


class _Album(Struct):
    """The pictures of a page; each compilation takes its part of what room is left."""

    context: PageContext
    graphs: Mapping[CompileId, Sequence[Graph]]
    kernels: Mapping[CompileId, Sequence[Kernel]]
    left: int = _MOST
    # Functions with their breaks, each by its first compilation.
    drawn: dict[CompileId, dict[str, Any]] = field(default_factory=dict)

    def of_compilation(self, compilation: Compilation) -> tuple[list[Shown], list[dict[str, Any]]]:
        """The levels of each of its graphs; and what is drawn of it besides."""
        compile_id = compilation.compile_id
        graphs, kernels = self.graphs.get(compile_id, ()), self.kernels.get(compile_id, ())
        if not self.left or not graphs:
            return [[] for _ in graphs], []
        # Its own part of the recording: nothing looks through all the others.
        recording = self.context.recording
        own = replace(recording, graphs=tuple(graphs), kernels=tuple(kernels), compilations=(compilation,))
        shown = [
            self._levels(levels(own, graph), graph, _key(graph)) if self.left and graph.ops else [] for graph in graphs
        ]
        return shown, list(self._more(own, compile_id))

    def _more(self, own: Recording, compile_id: CompileId) -> Iterator[dict[str, Any]]:
        """Forward beside backward, kernels, breaks."""
        stages = {graph.stage for graph in own.graphs if graph.ops}
        if self.left and {GraphStage.AOT_FORWARD, GraphStage.AOT_BACKWARD} <= stages:
            both = sheet(own, graph_choice.choose(own, graph_choice.TRAINING, str(compile_id)))
            yield self._whole(graph_choice.TRAINING, both)
        for graph in own.graphs:
            key, parts = _KERNELS.get(graph.stage, ("", ()))
            if graph.ops and not graph.ordinal and self.left and any(k.direction in parts for k in own.kernels):
                shown = self._levels(levels(own, graph, kernels=True), graph, key)
                yield {"key": key, "name": TITLES[key], "note": "", "code": None, "levels": shown}
        if compile_id not in self.context.broken or GraphStage.DYNAMO not in stages:
            return
        # The graphs of the function that a compilation belongs to: the same picture for each of them.
        frames = self.context.frames
        function = frames.functions.get(compile_id)
        first = function.compile_ids[0] if function else compile_id
        if first not in self.drawn and self.left:
            found = frames.pieces(compile_id)
            ids = dict.fromkeys(piece.compile_id for piece in found.pieces)
            graphs = tuple(graph for each in ids for graph in self.graphs.get(each, ()))
            drawn = frame_sheet(replace(self.context.recording, graphs=graphs, kernels=()), found)
            self.drawn[first] = self._whole(graph_choice.FRAME, drawn)
        if first in self.drawn:
            yield self.drawn[first]

    def _whole(self, key: str, drawn: Sheet) -> dict[str, Any]:
        """A picture without levels of its own."""
        self.left -= 1
        shown = [["", "", None, self.context.pool.add(to_svg(drawn, styled=False))]]
        return {"key": key, "name": TITLES[key], "note": "", "code": None, "levels": shown}

    def _levels(self, known: Levels, graph: Graph, stage: str) -> Shown:
        groups = [group for group in known.groups() if group.kernel is None][: self.left]
        self.left -= len(groups)
        addresses = _addresses(groups)
        around = {child.id: group for group in groups for child in group.children if not isinstance(child, int)}
        base = f"#/graphs/{address(graph.compile_id)}/{stage}"

        def href(box: Box) -> str:
            if box.group is None:
                return ""
            if box.group.kernel is not None:
                return self.context.links.kernel(box.group.kernel)
            to = addresses.get(box.group.id)
            return f"{base}/{quote(to, safe='')}" if to else ""

        shown: Shown = []
        for group in groups:
            parent = around.get(group.id)
            title = group.module or group.label or "the whole graph"
            drawn = Sheet(title, level_note(known, group), parts=(Panel(picture(known, group)),))
            svg = to_svg(drawn, href=href, styled=False)
            up = None if group is known.root else addresses.get(parent.id, "") if parent else ""
            shown.append([addresses[group.id], clean(group.label or title), up, self.context.pool.add(svg)])
        return shown


def _addresses(groups: Sequence[Group]) -> Mapping[GroupId, str]:
    """The path of a module, so that other stages know it too; else where in the graph it is. The root has none."""
    found: dict[GroupId, str] = {}
    taken = {""}
    for place, group in enumerate(groups):
        path = clean(group.module) if place and group.kind is GroupKind.MODULE else ""
        if place and path in taken:
            path = f"{path}~{group.first}-{group.last}"
        taken.add(path)
        found[group.id] = path
    return found


# -- where the view of graphs begins


def gallery(context: PageContext, graphs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return every function that has a picture: cut ones first, the user's own before a library's, then by size."""
    drawn = {one["key"]: one for one in graphs}
    known = context.frames.graphs

    def rank(function: Function) -> tuple[bool, bool, int]:
        size = sum(len(known[each].nodes) for each in function.compile_ids if each in known)
        is_plain = function.treatment is Treatment.WHOLE or function.treatment.is_idle
        return is_plain, not function.own, -size

    ranked = sorted(context.summary.coverage.functions, key=rank)[:_FUNCTIONS]
    return [card for each in ranked if (card := _card(context, each, drawn))]


def _card(context: PageContext, function: Function, drawn: Mapping[str, dict[str, Any]]) -> dict[str, Any] | None:
    """A function with its graphs and breaks; of what is whole the picture is the top of its first graph."""
    compiled = [drawn[key] for i in function.compile_ids if (key := address(i)) in drawn]
    stages = {stage["key"]: (one["key"], stage) for one in reversed(compiled) for stage in one["stages"]}
    key = next((key for key in _PREFERRED if key in stages and stages[key][1].get("levels")), "")
    if not key:
        return None
    pieces = []
    for (told, more, to), same in groupby(_pieces(context, function)):
        count = len(list(same))  # breaks at one place, one after another, are one
        pieces.append((told, f"{more} {times(count)}" if count > 1 else more, to))
    compile_key, stage = stages[key]
    return {
        "name": function.name.name,
        "at": context.links.at(function.name) if function.name.file else "",
        "href": context.links.href(function.name) if function.name.file else "",
        "treated": treated(function),
        "mood": "good" if function.treatment.is_compiled else "warn",
        "to": f"#/graphs/{compile_key}/{key}",
        "picture": stage["levels"][0][3],
        "pieces": pieces[:_PIECES],
        "more": max(0, len(pieces) - _PIECES),
    }


def _pieces(context: PageContext, function: Function) -> Iterator[tuple[str, str, str]]:
    """Graphs and breaks in order: what it is, a word on it, where it leads to."""
    for piece in context.frames.pieces(function.compile_ids[0]).pieces:
        if piece.graph is not None:
            yield piece_words(piece), op_words(*op_count(piece.graph)), PageLinks.graph(piece.compile_id)
        if piece.cut is not None:
            card = piece.cut.card
            where = f" {context.links.at(card.place)}" if card.place else ""
            told = "or, without a graph, " if piece.instead and piece.graph is None else ""
            yield "break", f"{told}{card.gb_type}{where}", f"#/breaks/{piece.cut.number}"
