"""How much of a program runs in graphs: a backend that generates nothing counts the operators of each that runs."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import aot_eager
from compiler_lens.measure.what_if import captured

_OPTIMIZERS = f"{os.sep}torch{os.sep}optim{os.sep}"
Compiled = Callable[..., Any]


class Graphs:
    """Backends that count what runs in graphs, but for the step of an optimizer, which is compiled beside them.

    Attributes:
        operators: those that have run so far, with all their repetitions.
        launches: how often a graph has run.
        is_plain: AOTAutograd traces no graph any more.

    """

    def __init__(self) -> None:
        self.operators = self.launches = 0
        self.is_plain = False

    def captured(self, graph_module: Any, inputs: Any) -> Compiled:
        """Run a graph as Dynamo captured it."""
        made = captured(graph_module, inputs)
        return made if _is_of_optimizer(graph_module) else self._counting(operators_of(graph_module), made)

    def aot_eager(self, graph_module: Any, inputs: Any) -> Compiled:
        """Run it as AOTAutograd has it; an optimizer's, which no change is made for, as Dynamo captured it."""
        if self.is_plain or _is_of_optimizer(graph_module):
            return self.captured(graph_module, inputs)
        operators = operators_of(graph_module)
        return self._counting(operators, aot_eager()(graph_module, inputs))

    def aot_of_floats(self, graph_module: Any, inputs: Any) -> Compiled:
        """Run it as AOTAutograd has it where it has an open float, which that may have to know; else as captured."""
        values = (node.meta.get("example_value") for node in graph_module.graph.nodes)
        has_float = any(isinstance(one, torch.SymFloat) for one in values)
        return (self.aot_eager if has_float else self.captured)(graph_module, inputs)

    def _counting(self, operators: int, compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            self.operators += operators
            self.launches += 1
            return compiled(*args)

        return run


def _is_of_optimizer(graph_module: Any) -> bool:
    """Return whether a graph is of an optimizer's step, which torch compiles by itself, and nothing else.

    The first frame of a node's stack is that of the function that is compiled (`torch.fx.Node.stack_trace`).
    """
    traces = [node.stack_trace or "" for node in graph_module.graph.nodes if node.op.startswith("call_")]
    first = [trace.strip().partition("\n")[0] for trace in traces]
    return bool(first) and all(_OPTIMIZERS in one for one in first)


def operators_of(graph_module: Any) -> int:
    """Return how many operators of a graph give tensors; an operator with graphs counts as the longest of these."""
    count = 0
    for node in graph_module.graph.nodes:
        if node.op.startswith("call_"):
            inner = [getattr(graph_module, one.target) for one in node.all_input_nodes if one.op == "get_attr"]
            longest = max((operators_of(one) for one in inner if isinstance(one, torch.fx.GraphModule)), default=0)
            count += longest or isinstance(node.meta.get("example_value"), torch.Tensor)
    return count
