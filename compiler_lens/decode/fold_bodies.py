"""Launches inside of a branch: torch counts to them also what the graph around it does, up to the condition."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from compiler_lens.decode.fold_kernels import Place, place_of
from compiler_lens.recording.model import Direction, Graph, GraphStage, Kernel, Launch, Node, OutputCode

_DEF = re.compile(r"\s*def (\w+)\(")
_LOWERED: Mapping[GraphStage, bool] = {GraphStage.POST_GRAD: False, GraphStage.POST_GRAD_BACKWARD: True}


def in_bodies(kernels: Sequence[Kernel], graphs: Iterable[Graph], codes: Iterable[OutputCode]) -> tuple[Kernel, ...]:
    """The same kernels; where graphs run others, each launch with the nodes of the one that it stands in."""
    lowered = {((g.compile_id, _LOWERED[g.stage]), g.ordinal): g for g in graphs if g.stage in _LOWERED and g.subgraphs}
    if not lowered:
        return tuple(kernels)
    functions = {
        place: _functions(code.code)
        for code in codes
        if (place := ((code.compile_id, code.direction is Direction.BACKWARD), code.ordinal)) in lowered
    }
    return tuple(_kept(kernel, lowered.get(place_of(kernel)), functions) for kernel in kernels)


def _functions(code: str) -> tuple[list[int], list[str]]:
    found = [(number, match[1]) for number, text in enumerate(code.split("\n"), 1) if (match := _DEF.match(text))]
    return [number for number, _ in found], [name for _, name in found]


def _kept(kernel: Kernel, graph: Graph | None, functions: Mapping[Place, tuple[list[int], list[str]]]) -> Kernel:
    if graph is None or place_of(kernel) not in functions:
        return kernel
    inner = {each.name: _calls(each.nodes) for each in graph.subgraphs}
    starts, names = functions[place_of(kernel)]

    def own(launch: Launch) -> Launch:
        at = bisect_right(starts, launch.line)
        # The code of a graph inside of one is a function of that graph's name (codegen_subgraph in wrapper.py).
        there = inner.get(names[at - 1] if at else "")
        nodes = tuple(node for node in launch.nodes if there is not None and node in there)
        return replace(launch, nodes=nodes) if nodes else launch

    launches = tuple(map(own, kernel.launches))
    if not launches or not all(launch.nodes for launch in launches):
        return replace(kernel, launches=launches)
    return replace(kernel, launches=launches, nodes=tuple(dict.fromkeys(n for each in launches for n in each.nodes)))


def _calls(nodes: Iterable[Node]) -> frozenset[str]:
    return frozenset(node.name for node in nodes if node.op.startswith("call_"))
