"""Which launch of a kernel computes each step of a post-grad graph, and the steps in the order of launches."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.analysis.graph_flow import Flow
from compiler_lens.analysis.lineage import is_view
from compiler_lens.analysis.lowered import Scopes
from compiler_lens.analysis.origins import Origins
from compiler_lens.analysis.ownership import Ownership
from compiler_lens.analysis.running_order import running_order
from compiler_lens.model import Graph, GraphStage, Kernel, Pass, Recording

Launched = tuple[int, Kernel] | None  # the launch's place among all of its output code


@dataclass(frozen=True, slots=True)
class Call:
    """A launch of a kernel."""

    place: int  # among all of its output code
    kernel: Kernel
    number: int  # among those of the kernel
    nodes: tuple[str, ...]  # that it computes


def launches_by_graph(recording: Recording, graph: Graph) -> Mapping[str, Sequence[Call]]:
    """The launches of a graph's output code, for the graph itself, "", and for each inside of it."""
    backward = graph.stage is GraphStage.POST_GRAD_BACKWARD
    order = running_order(_code(recording, graph, backward=backward))
    calls = sorted(
        (
            (order(launch.line), kernel.name, number, kernel)
            for kernel in recording.kernels
            if kernel.compile_id == graph.compile_id
            and (kernel.part is Pass.BACKWARD) == backward
            and kernel.ordinal == graph.ordinal
            for number in range(len(kernel.launches))
            for launch in (kernel.launches[number],)
        ),
        key=lambda call: call[:3],
    )
    scopes = Scopes(recording, Origins(Ownership())) if graph.subgraphs else None
    found: dict[str, list[Call]] = {}
    for place, (_, _, number, kernel) in enumerate(calls):
        nodes = kernel.launches[number].nodes
        scope = scopes.of_launch(kernel, number, nodes)[0] if scopes else None
        found.setdefault(scope.name if scope else "", []).append(Call(place, kernel, number, nodes))
    return found


def _code(recording: Recording, graph: Graph, *, backward: bool) -> str:
    place = (graph.compile_id, backward, graph.ordinal)
    codes = (c for c in recording.output_codes if (c.compile_id, c.part is Pass.BACKWARD, c.ordinal) == place)
    return next((code.code for code in codes), "")


def launches_of_steps(calls: Iterable[Call], flow: Flow) -> list[Launched]:
    """The first launch that computes each step: a cheap op may be computed again in later ones."""
    found: list[Launched] = [None] * len(flow.steps)
    for call in calls:
        for name in call.nodes:
            step = flow.makers.get(name)
            if step is not None and found[step] is None:
                found[step] = (call.place, call.kernel)
    return _without_late_views(found, flow)


def _without_late_views(launched: list[Launched], flow: Flow) -> list[Launched]:
    """A view that an earlier launch reads than the one that torch counts it to stands by itself."""
    found = list(launched)
    earliest = [math.inf] * len(found)  # launch that reads what a step makes
    for number in reversed(range(len(found))):
        step, launch = flow.steps[number], found[number]
        if launch and is_view(step.node.target) and earliest[number] < launch[0]:
            launch = found[number] = None
        place = launch[0] if launch else earliest[number]
        for name in step.reads:
            if name in flow.makers:
                earliest[flow.makers[name]] = min(earliest[flow.makers[name]], place)
    return found


def without_steps(calls: Iterable[Call], flow: Flow, launched: Sequence[Launched]) -> Mapping[int, tuple[int, ...]]:
    """Launches that are first with none of their ops, the second half of a reduction say: by the last of these ops."""
    shown = {launch[0] for launch in launched if launch}
    found: dict[int, tuple[int, ...]] = {}
    for call in calls:
        steps = [flow.makers[name] for name in call.nodes if name in flow.makers]
        working = [step for step in steps if launched[step] and not is_view(flow.steps[step].node.target)]
        if call.place not in shown and working:
            found[max(working)] = (*found.get(max(working), ()), call.place)
    return found


def order_of_launches(flow: Flow, launched: Sequence[Launched]) -> tuple[Flow, list[Launched]]:
    """The same flow with the steps of a launch next to each other, and each step's launch in that order."""
    ranks: list[int] = []
    for step, launch in zip(flow.steps, launched, strict=True):
        read = (ranks[flow.makers[name]] for name in step.reads if name in flow.makers)
        ranks.append(max((launch[0] if launch else -1, *read)))
    # A step that is launched before what it reads is shown where it can be, by itself.
    true = [launch if launch and launch[0] == rank else None for launch, rank in zip(launched, ranks, strict=True)]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    for number, launch in enumerate(true):
        if launch:
            first.setdefault(launch[0], number)
            last[launch[0]] = number
    within = [
        (-1 if number < first.get(rank, 0) else 1 if number > last.get(rank, -1) else 0)
        for number, rank in enumerate(ranks)
    ]
    kernels = {launch[0]: launch for launch in true if launch}
    order = sorted(range(len(ranks)), key=lambda number: (ranks[number], within[number], number))
    steps = tuple(flow.steps[number] for number in order)
    makers = {node.name: number for number, step in enumerate(steps) for node in step.nodes}
    # Views between two steps of one launch cost nothing, and belong to it.
    inside = [kernels.get(ranks[number]) if within[number] == 0 else None for number in order]
    return replace(flow, steps=steps, makers=makers), inside
