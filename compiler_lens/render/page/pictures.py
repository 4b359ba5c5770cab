"""Pictures of graphs for the page: of each its levels, which open into each other, as far as there is room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.graphs import graph_choice
from compiler_lens.facts.graphs.frame_graphs import FrameGraphs
from compiler_lens.facts.graphs.graph_choice import choose
from compiler_lens.facts.graphs.level_tree import Group, GroupId, GroupKind
from compiler_lens.facts.graphs.levels import Box, Levels, levels
from compiler_lens.recording.model import Compilation, CompileId, Direction, Graph, GraphStage, Kernel, Recording
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.links import address
from compiler_lens.render.picture.svg import to_svg
from compiler_lens.views.picture.picture import picture
from compiler_lens.views.picture.sheet import TITLES, Panel, Sheet, frame_sheet, level_note, sheet
from compiler_lens.views.text import clean

_MOST = 300  # pictures in a page: some seconds of drawing at most, and some hundred kilobytes
_KERNELS: Mapping[GraphStage, tuple[str, tuple[Direction, ...]]] = {
    GraphStage.POST_GRAD: (graph_choice.KERNELS, (Direction.FORWARD, Direction.INFERENCE)),
    GraphStage.POST_GRAD_BACKWARD: (graph_choice.KERNELS_BACKWARD, (Direction.BACKWARD,)),
}

Shown = list[list[Any]]  # each level: its address, name, the address of the one around it, its picture


class Album(Struct):
    """The pictures of a page; each compilation takes its part of what room is left."""

    context: PageContext
    graphs: Mapping[CompileId, Sequence[Graph]]
    kernels: Mapping[CompileId, Sequence[Kernel]]
    compilations: Mapping[CompileId, Compilation]
    frames: FrameGraphs
    broken: frozenset[CompileId]  # compilations with a graph break
    left: int = _MOST
    # Functions with their breaks, each by its first compilation.
    drawn: dict[CompileId, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, context: PageContext, graphs: Mapping[CompileId, Sequence[Graph]]) -> Album:
        """An empty one."""
        recording, summary = context.recording, context.summary
        kernels: defaultdict[CompileId, list[Kernel]] = defaultdict(list)
        for kernel in recording.kernels:
            kernels[kernel.compile_id].append(kernel)
        frames = FrameGraphs.of(recording, summary.coverage, summary.cards)
        compilations = {each.compile_id: each for each in reversed(recording.compilations)}
        return cls(
            context,
            graphs,
            kernels,
            compilations,
            frames,
            frozenset(event.compile_id for event in recording.graph_breaks),
        )

    def of_compilation(self, compile_id: CompileId) -> tuple[list[Shown], list[dict[str, Any]]]:
        """The levels of each of its graphs; and what is drawn of it besides."""
        graphs = self.graphs.get(compile_id, ())
        if not self.left or not graphs:
            return [[] for _ in graphs], []
        # Its own part of the recording: nothing looks through all the others.
        own = replace(
            self.context.recording,
            graphs=tuple(graphs),
            kernels=tuple(self.kernels.get(compile_id, ())),
            compilations=(self.compilations[compile_id],),
        )
        shown = [self._graph(own, graph) for graph in graphs]
        return shown, list(self._more(own, compile_id))

    def _graph(self, own: Recording, graph: Graph) -> Shown:
        if not self.left or not graph.ops:
            return []
        return self._levels(levels(own, graph), graph, stage_key(graph))

    def _more(self, own: Recording, compile_id: CompileId) -> Iterator[dict[str, Any]]:
        """Forward beside backward, kernels, breaks."""
        graphs = own.graphs
        stages = {graph.stage for graph in graphs if graph.ops}
        if {GraphStage.AOT_FORWARD, GraphStage.AOT_BACKWARD} <= stages:
            yield from self._whole(
                graph_choice.TRAINING, lambda: sheet(own, choose(own, graph_choice.TRAINING, str(compile_id)))
            )
        for graph in graphs:
            key, parts = _KERNELS.get(graph.stage, ("", ()))
            if graph.ops and not graph.ordinal and self.left and any(k.direction in parts for k in own.kernels):
                known = levels(own, graph, kernels=True)
                yield _stage(key, self._levels(known, graph, key))
        if compile_id in self.broken and GraphStage.DYNAMO in stages:
            yield from self._function(compile_id)

    def _function(self, compile_id: CompileId) -> Iterator[dict[str, Any]]:
        """The graphs of the function that a compilation belongs to: the same picture for each of them."""
        function = self.frames.functions.get(compile_id)
        key = function.compile_ids[0] if function else compile_id
        if key not in self.drawn:
            found = self.frames.pieces(compile_id)
            ids = dict.fromkeys(piece.compile_id for piece in found.pieces)
            graphs = tuple(graph for each in ids for graph in self.graphs.get(each, ()))
            own = replace(self.context.recording, graphs=graphs, kernels=())
            for stage in self._whole(graph_choice.FRAME, lambda: frame_sheet(own, found)):
                self.drawn[key] = stage
        if key in self.drawn:
            yield self.drawn[key]

    def _whole(self, view: str, drawing: Callable[[], Sheet]) -> Iterator[dict[str, Any]]:
        """A picture without levels of its own."""
        if self.left:
            self.left -= 1
            yield _stage(view, [["", "", None, self.context.pool.add(to_svg(drawing(), styled=False))]])

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


def stage_key(graph: Graph) -> str:
    """A graph within its compilation, as a part of an address."""
    return graph.stage.value + (f"-{graph.ordinal}" if graph.ordinal else "")


def _stage(view: str, shown: Shown) -> dict[str, Any]:
    return {"key": view, "name": TITLES[view], "note": "", "code": None, "levels": shown}


def _addresses(groups: Sequence[Group]) -> Mapping[GroupId, str]:
    """The path of a module, so that other stages know it too; else where in the graph it is. The root has none."""
    found: dict[GroupId, str] = {}
    taken = {""}
    for place, group in enumerate(groups):
        path = "" if not place else clean(group.module) if group.kind is GroupKind.MODULE else ""
        if place and path in taken:
            path = f"{path}~{group.first}-{group.last}"
        taken.add(path)
        found[group.id] = path
    return found
