"""Which graph a user means: a stage, a compilation, a module. A `UsageError` says what there is instead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.graphs.level_tree import Group, GroupKind
from compiler_lens.facts.graphs.levels import Levels
from compiler_lens.facts.program.select import instead, select_ids
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import CompileId, Graph, GraphStage, Recording

KERNELS = "kernels"
KERNELS_BACKWARD = "kernels_backward"
TRAINING = "training"  # the forward beside the backward
FRAME = "frame"  # all graphs of a function, with the graph breaks between them

_UNDER: Mapping[str, GraphStage] = {
    KERNELS: GraphStage.POST_GRAD,
    KERNELS_BACKWARD: GraphStage.POST_GRAD_BACKWARD,
    TRAINING: GraphStage.AOT_FORWARD,
    FRAME: GraphStage.DYNAMO,
}
_ABOUT = 0.75  # of two graphs: the smaller one is about as large
STAGES = (*(stage.value for stage in GraphStage), *_UNDER)


class Choice(Struct, frozen=True):
    """What is to be drawn."""

    graph: Graph
    view: str  # a stage's name, or one of those above
    others: tuple[CompileId, ...] = ()  # compilations that were meant as well, and have this view too


def choose(recording: Recording, stage: str = "", compile_id: str = "", part: int | None = None) -> Choice:
    """Return the graph of a stage, a compilation and a part; without them, the largest Dynamo graph, or what there is.

    Raises:
        UsageError: there is no such graph; says what there is.
    """
    graphs = [graph for graph in recording.graphs if graph.nodes]
    if compile_id:
        ids = select_ids(recording, compile_id)
        graphs = [graph for graph in graphs if graph.compile_id in ids]
    if not graphs:
        where = f"compilation {compile_id}" if compile_id else "this recording"
        raise UsageError(f"no graph in {where}: nothing was compiled, or nobody recorded it")
    there = _views(recording, graphs)
    view = stage.strip().lower().replace("-", "_") if stage else next(iter(there))
    if view not in there:
        where = f" of {compile_id}" if compile_id else ""
        raise UsageError(f"no {stage!r} graph{where}{instead(view, there)}")
    fitting = there[view]
    timed: list[Graph] = []  # by the last profile
    if view.startswith(KERNELS) and recording.profiles:
        measured = {time.compile_id for time in recording.profiles[-1].launches}
        timed = [graph for graph in fitting if graph.compile_id in measured]
    found = _largest(timed or fitting)
    others = dict.fromkeys(graph.compile_id for graph in fitting if graph.compile_id != found.compile_id)
    if part is not None:
        parts = {graph.ordinal + 1: graph for graph in reversed(fitting) if graph.compile_id == found.compile_id}
        if part not in parts:
            which = f"it has {len(parts)}" if len(parts) > 1 else "it is whole"
            raise UsageError(f"no part {part} of this graph of {found.compile_id}: {which}")
        found = parts[part]
    return Choice(found, view, tuple(others))


def _largest(graphs: Sequence[Graph]) -> Graph:
    """The largest graph; where that is of a recompile, the first of its frame that is about as large."""
    largest = max(graphs, key=lambda graph: len(graph.nodes))
    same = [graph for graph in graphs if graph.compile_id.of_frame == largest.compile_id.of_frame]
    first = next(graph for graph in same if len(graph.nodes) >= _ABOUT * len(largest.nodes))
    return max((graph for graph in same if graph.compile_id == first.compile_id), key=lambda graph: len(graph.nodes))


def _views(recording: Recording, graphs: Sequence[Graph]) -> dict[str, list[Graph]]:
    """What can be drawn, with the graphs that each view can begin with.

    Of an interrupted run, backwards and kernels may not be there.
    """
    backwards = {(graph.compile_id, graph.ordinal) for graph in graphs if graph.stage is GraphStage.AOT_BACKWARD}
    launched = {kernel.code_id.graph for kernel in recording.kernels}
    found: dict[str, list[Graph]] = {}
    for view in STAGES:
        stage = _UNDER.get(view) or GraphStage(view)
        fitting = [graph for graph in graphs if graph.stage is stage]
        if view == TRAINING:
            fitting = [graph for graph in fitting if (graph.compile_id, graph.ordinal) in backwards]
        elif view.startswith(KERNELS):
            fitting = [graph for graph in fitting if graph.id in launched]
        if fitting:
            found[view] = fitting
    return found


def choose_module(levels: Levels, module: str) -> Group:
    """Return the group of a module by its path or the end of it; of a module that is called twice, the first.

    Raises:
        UsageError: there is no such module, or several; says which there are.
    """
    wanted = module.strip().strip(".")
    if not wanted:
        return levels.root
    groups = {group.module: group for group in reversed(list(levels.root.walk())) if group.module}
    if wanted in groups:
        return groups[wanted]
    paths = {step.node.module for step in levels.flow.steps if step.node.module} | set(groups)
    for path in list(paths):
        parts = path.split(".")
        paths.update(".".join(parts[:count]) for count in range(1, len(parts)))
    ends = sorted(path for path in paths if path == wanted or path.endswith(f".{wanted}"))
    if wanted not in ends and len(ends) != 1:
        hint = instead(wanted, ends or sorted(paths)) if paths else ": its nodes tell of none"
        raise UsageError(f"{'which' if ends else 'no'} module {module!r} in this graph{hint}")
    path = wanted if wanted in ends else ends[0]
    if path in groups:
        return groups[path]
    # A module that is no group of its own: the first run of its steps.
    inside = {n for n, step in enumerate(levels.flow.steps) if f"{step.node.module}.".startswith(f"{path}.")}
    if not inside:
        raise UsageError(f"no module {path!r} in this graph: it has no ops here")
    first = last = min(inside)
    while last in inside:
        last += 1
    same = (group for group in levels.root.walk() if (group.first, group.last) == (first, last))
    return next(same, Group(GroupKind.MODULE, path, first, last, tuple(range(first, last)), path))
