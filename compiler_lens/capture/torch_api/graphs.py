"""What live FX graphs know of their nodes beyond the text that torch prints: modules, stacks, origins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

NO_INDEX = -1


class _Table:
    """Numbers values in the order they come."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._numbers: dict[Any, int] = {}

    def number(self, key: Any, value: Any) -> int:
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.values)
            self.values.append(value)
        return number


def node_facts(graph_module: Any, *, with_stacks: bool) -> str:
    """Return the facts of all nodes of a GraphModule, as the text of a `lens.node_facts` event."""
    modules, stacks = _Table(), _Table()
    nodes: list[list[Any]] = []
    for prefix, graph in _graphs(graph_module):
        nodes += [_node_row(node, prefix, modules, stacks if with_stacks else None) for node in graph.nodes]
    return json.dumps({"modules": modules.values, "stacks": stacks.values, "nodes": nodes}, separators=(",", ":"))


def _graphs(graph_module: Any) -> Iterator[tuple[str, Any]]:
    """The graph, then those inside of it, which higher-order ops run, with what their nodes' names begin with."""
    yield "", graph_module.graph
    for name, module in graph_module.named_modules():
        # Names of a subgraph's nodes are those of the outer graph again. An FX name has no dot.
        if name and hasattr(module, "graph"):
            yield f"{name}.", module.graph


def _node_row(node: Any, prefix: str, modules: _Table, stacks: _Table | None) -> list[Any]:
    meta = node.meta
    stack = meta.get("stack_trace") if stacks is not None else None
    return [
        prefix + node.name,
        _leaf_names(meta.get("from_node") or ()),
        _module_number(meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack"), modules),
        str(meta.get("original_aten") or ""),
        # A sum of gradients carries the number of the last forward op, which it has nothing to do with.
        None if meta.get("is_gradient_acc") else meta.get("seq_nr"),
        stacks.number(stack, stack) if stack and stacks is not None else NO_INDEX,
    ]


def _module_number(module_stack: dict[str, Any] | None, modules: _Table) -> int:
    if not module_stack:
        return NO_INDEX
    path, kind = next(reversed(module_stack.values()))
    # torch.export gives the class's name, Dynamo the class
    return modules.number(path, [path, kind if isinstance(kind, str) else kind.__name__])


def _leaf_names(sources: Iterable[Any]) -> list[str]:
    """The names at the far end of NodeSource chains: the nodes of the Dynamo graph, which came from nothing."""
    names: list[str] = []
    pending = list(sources)
    while pending:
        source = pending.pop(0)
        if source.from_node:
            pending = list(source.from_node) + pending
        elif source.node_info is not None and source.node_info.name not in names:
            names.append(source.node_info.name)
    return names


def is_backward(graph_module: Any) -> bool:
    """Return whether a graph takes gradients in: AOTAutograd names them tangents_1, tangents_2 …"""
    return any(node.op == "placeholder" and node.name.startswith("tangents_") for node in graph_module.graph.nodes)


def fingerprint(graph_module: Any) -> str:
    """Return a digest of a Dynamo graph: of its nodes' names, targets and modules, but not the lines they stand on.

    One AOTAutograd graph, and so one cache entry, may come from `x.view(4, 2)` and from `x.reshape(4, 2)`.
    """
    digest = hashlib.blake2b(digest_size=8)
    for node in graph_module.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        module = next(reversed(stack.values()))[0] if stack else ""
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        digest.update(f"{node.name}\0{target}\0{module}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()
