"""How much of a program runs in graphs: a backend that generates nothing counts the operators of each that runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from compiler_lens.capture.torch_api.measuring import aot_eager
from compiler_lens.measure.what_if import captured

Compiled = Callable[..., Any]


class Graphs:
    """Backends that count what runs in graphs.

    Attributes:
        operators: those that have run so far, with all their repetitions.
        launches: how often a graph has run.

    """

    def __init__(self) -> None:
        self.operators = self.launches = 0

    def captured(self, graph_module: Any, inputs: Any) -> Compiled:
        """Run a graph as Dynamo captured it."""
        return self._counting(operators_of(graph_module), captured(graph_module, inputs))

    def aot_eager(self, graph_module: Any, inputs: Any) -> Compiled:
        """Run it as AOTAutograd has it."""
        operators, made = operators_of(graph_module), aot_eager()(graph_module, inputs)
        return self._counting(operators, made)

    def _counting(self, operators: int, compiled: Compiled) -> Compiled:
        def run(*args: Any) -> Any:
            self.operators += operators
            self.launches += 1
            return compiled(*args)

        return run


def operators_of(graph_module: Any) -> int:
    """Return how many operators of a graph give tensors; an operator with graphs counts as the longest of these."""
    count = 0
    for node in graph_module.graph.nodes:
        if node.op.startswith("call_"):
            inner = [getattr(graph_module, one.target) for one in node.all_input_nodes if one.op == "get_attr"]
            longest = max((operators_of(one) for one in inner if isinstance(one, torch.fx.GraphModule)), default=0)
            count += longest or isinstance(node.meta.get("example_value"), torch.Tensor)
    return count
