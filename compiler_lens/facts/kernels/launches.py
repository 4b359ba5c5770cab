"""Which launch of a kernel computes each step of a post-grad graph."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from compiler_lens.facts.kernels.graph_flow import Flow
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.facts.kernels.lowered import Scopes
from compiler_lens.facts.kernels.origins import Origins
from compiler_lens.facts.kernels.running_order import running_order
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Graph, Kernel, KernelKind, Node, Recording, Subgraph

Launched = tuple[int, Kernel] | None  # the launch's place among all of its output code


@dataclass(frozen=True, slots=True)
class Call:
    """A launch of a kernel."""

    place: int  # among all of its output code
    kernel: Kernel
    number: int  # among those of the kernel
    nodes: tuple[str, ...]  # that it computes
    ops: int = 0  # how many of these do work: views do none


def launches_by_graph(recording: Recording, graph: Graph) -> Mapping[str, Sequence[Call]]:
    """The launches of a graph's output code, for the graph itself, "", and for each inside of it."""
    code = next((code.code for code in recording.output_codes if code.id.graph == graph.id), "")
    order = running_order(code)
    calls = sorted(
        (
            (order(launch.line), kernel.name, number, kernel)
            for kernel in recording.kernels
            if kernel.code_id.graph == graph.id
            for number in range(len(kernel.launches))
            for launch in (kernel.launches[number],)
        ),
        key=lambda call: call[:3],
    )
    scopes = Scopes(recording, Origins(Ownership())) if graph.subgraphs else None
    targets = {inner.name: _targets(inner.nodes) for inner in (Subgraph("", graph.nodes), *graph.subgraphs)}
    found: dict[str, list[Call]] = {}
    for place, (_, _, number, kernel) in enumerate(calls):
        nodes = kernel.launches[number].nodes
        scope = scopes.of_launch(kernel, number, nodes)[0] if scopes else None
        name = scope.name if scope else ""
        own = tuple(node for node in nodes if node in targets[name])
        ops = sum(not is_view(targets[name][node]) for node in own)
        found.setdefault(name, []).append(Call(place, kernel, number, own, ops))
    return found


def _targets(nodes: Iterable[Node]) -> Mapping[str, str]:
    return {node.name: node.target for node in nodes if node.op.startswith("call_")}


def launches_of_steps(calls: Iterable[Call], flow: Flow) -> list[Launched]:
    """The first launch that computes each step: a cheap op may be computed again in later ones."""
    found: list[Launched] = [None] * len(flow.steps)
    # A kernel that lays out what a library call reads is counted to that call's op too: the call comes first.
    told = [(call, name) for call in calls for name in call.nodes]
    for call, name in (*_called(told, flow), *told):
        step = flow.makers.get(name)
        if step is not None and found[step] is None:
            found[step] = (call.place, call.kernel)
    return _without_late(found, flow)


def _is_library(kernel: Kernel) -> bool:
    return kernel.kind in {KernelKind.EXTERN, KernelKind.FALLBACK}


def _called(told: Iterable[tuple[Call, str]], flow: Flow) -> Iterator[tuple[Call, str]]:
    """Library calls, with the ops that they are called by."""
    for call, name in told:
        step = flow.makers.get(name)
        if step is not None and _is_library(call.kernel):
            target = flow.steps[step].node.target
            if not is_view(target) and _is_called(call.kernel.name, target.split(".")[-2:][0]):
                yield call, name


def _is_called(kernel: str, op: str) -> bool:
    """`extern_kernels.bias_addmm` computes addmm, `aten.index_put_` index_put."""
    return any(f"_{part}".rstrip("_").endswith(f"_{op}") for part in kernel.split("."))


def _without_late(launched: list[Launched], flow: Flow) -> list[Launched]:
    """What an earlier launch reads than the one that torch counts it to stands by itself: it is inlined in both."""
    found = list(launched)
    earliest = [math.inf] * len(found)  # launch that reads what a step makes
    for number in reversed(range(len(found))):
        step, launch = flow.steps[number], found[number]
        inlined = launch is not None and (is_view(step.node.target) or not _is_library(launch[1]))
        if launch and inlined and earliest[number] < launch[0]:
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
