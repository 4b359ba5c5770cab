"""In which order launches run, and which launch of a kernel computes each step of a post-grad graph."""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from compiler_lens.facts.kernels.graph_flow import Flow
from compiler_lens.facts.kernels.lineage import bodies, is_generated, is_view
from compiler_lens.facts.kernels.origins import Origins, Scopes
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Graph, Kernel, Recording

_PARTITION = re.compile(r"def partition_(\d+)\(|partitions\[(\d+)\]\(")

Launched = tuple[int, Kernel] | None  # the launch's place among all of its output code


class Call(Struct, frozen=True):
    """A launch of a kernel."""

    place: int  # among all of its output code
    kernel: Kernel
    number: int  # among those of the kernel
    nodes: tuple[str, ...]  # that it computes
    ops: int = 0  # how many of these do work: views do none


@lru_cache(maxsize=64)
def running_order(code: str) -> Callable[[int], tuple[int, int]]:
    """Return a key that sorts lines of an output code: those of a partition run where it is called, further down."""
    starts: list[tuple[int, int]] = []  # line, partition that begins there; -1: none
    called: dict[int, int] = {}
    for number, line in enumerate(code.split("\n"), 1):
        if "partition" in line and (found := _PARTITION.search(line)):
            if found[1]:
                starts.append((number, int(found[1])))
            else:
                called[int(found[2])] = number
        elif starts and starts[-1][1] >= 0 and line and not line[0].isspace():
            starts.append((number, -1))

    def order(line: int) -> tuple[int, int]:
        at = bisect_right(starts, (line, 1 << 30))
        partition = starts[at - 1][1] if at else -1
        return called.get(partition, line), line

    return order


def launches_by_graph(recording: Recording, graph: Graph) -> Mapping[str, Sequence[Call]]:
    """Return the launches of a graph's output code, for the graph itself, "", and for each inside of it."""
    order = running_order(next((code.code for code in recording.output_codes if code.id.graph == graph.id), ""))
    calls: list[tuple[tuple[int, int], str, int, Kernel]] = []
    for kernel in recording.kernels:
        if kernel.code_id.graph == graph.id:
            calls += [(order(launch.line), kernel.name, n, kernel) for n, launch in enumerate(kernel.launches)]
    scopes = Scopes(recording, Origins(Ownership())) if graph.subgraphs else None
    targets: dict[str, Mapping[str, str]] = {}
    for inner in bodies(graph):
        targets[inner.name] = {node.name: node.target for node in inner.nodes if node.op.startswith("call_")}
    found: dict[str, list[Call]] = defaultdict(list)
    for place, (_, _, number, kernel) in enumerate(sorted(calls, key=lambda call: call[:3])):
        nodes = kernel.launches[number].nodes
        scope = scopes.of_launch(kernel, number, nodes)[0] if scopes else None
        name = scope.name if scope else ""
        own = tuple(node for node in nodes if node in targets[name])
        ops = sum(not is_view(targets[name][node]) for node in own)
        found[name].append(Call(place, kernel, number, own, ops))
    return found


def launches_of_steps(calls: Iterable[Call], flow: Flow) -> list[Launched]:
    """Return the first launch that computes each step: a cheap op may be computed again in later ones."""
    named = [(call, flow.makers[name]) for call in calls for name in call.nodes if name in flow.makers]
    found: list[Launched] = [None] * len(flow.steps)
    # A kernel that lays out what a library call reads is counted to that call's op too: the call comes first.
    called = [(call, step) for call, step in named if _is_called(call.kernel, flow.steps[step].node.target)]
    for call, made in (*called, *named):
        found[made] = found[made] or (call.place, call.kernel)
    # What an earlier launch reads than the one that torch counts it to stands by itself: it is inlined in both.
    earliest = [math.inf] * len(found)  # launch that reads what a step makes
    for number in reversed(range(len(found))):
        step, launch = flow.steps[number], found[number]
        inlined = launch is not None and (is_view(step.node.target) or is_generated(launch[1]))
        if launch and inlined and earliest[number] < launch[0]:
            launch = found[number] = None
        place = launch[0] if launch else earliest[number]
        for name in step.reads:
            if name in flow.makers:
                earliest[flow.makers[name]] = min(earliest[flow.makers[name]], place)
    return found


def _is_called(kernel: Kernel, target: str) -> bool:
    """Return whether an op is what a library is called for: `extern_kernels.bias_addmm` computes addmm."""
    if is_generated(kernel) or is_view(target):
        return False
    op = target.split(".")[-2:][0]
    return any(f"_{part}".rstrip("_").endswith(f"_{op}") for part in kernel.name.split("."))


def without_steps(calls: Iterable[Call], flow: Flow, launched: Sequence[Launched]) -> Mapping[int, tuple[int, ...]]:
    """Return launches that come first with none of their ops (the second half of a reduction) by the last of these."""
    shown = {launch[0] for launch in launched if launch}
    found: dict[int, tuple[int, ...]] = {}
    for call in calls:
        steps = [flow.makers[name] for name in call.nodes if name in flow.makers]
        working = [step for step in steps if launched[step] and not is_view(flow.steps[step].node.target)]
        if call.place not in shown and working:
            found[max(working)] = (*found.get(max(working), ()), call.place)
    return found
