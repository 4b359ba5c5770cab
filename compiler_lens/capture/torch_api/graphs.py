"""Live FX graphs: where AOTAutograd's can be seen, and what nodes know beyond the text that torch prints.

That is their modules, stacks and origins.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterable
from typing import Any

import msgspec

from compiler_lens.capture.torch_api.places import Place
from compiler_lens.recording.torch_names import GRADIENT_PREFIX

NO_INDEX = -1
_AOT = "torch._functorch._aot_autograd.graph_compile"
_LOGGING = "torch._functorch._aot_autograd.logging_utils"
_BOTH = ("fw_module", "bw_module", "aot_config")

AOT_JOINT = Place(_AOT, "_log_joint_graph", "origins of nodes of the joint graph", ("fx_g", "aot_config"))
AOT_TRAINING = Place(_AOT, "_log_fw_bw_graphs", "origins of forward and backward nodes", _BOTH)
AOT_INFERENCE = Place(_AOT, "_log_inference_graph", "origins of inference nodes", ("fw_module", "aot_config"))


def sends_records(aot_config: Any) -> bool:
    """Return whether AOTAutograd sends its graphs to the trace: not those of a higher-order op compiled apart."""
    return bool(aot_config.enable_log)


def number_in_progress() -> int | None:
    """Return AOTAutograd's number of the graph being compiled, unique in the process; None if there is none."""
    logging_utils = sys.modules.get(_LOGGING)
    compiling = logging_utils.get_aot_compilation_context()[0] if logging_utils else ()
    number = compiling[0].partition("_")[0] if compiling else ""  # "3_backward"
    return int(number) if number.isdecimal() else None


def node_facts(graph_module: Any, *, with_stacks: bool) -> str:
    """Return the facts of all nodes of a GraphModule, as the text of a `lens.node_facts` event."""
    # Names of a subgraph's nodes, which a higher-order op runs, are those of the outer graph again. An FX name has no
    # dot: with the subgraph's name before it, it is theirs alone.
    modules_inside = [(name, module) for name, module in graph_module.named_modules() if name]
    inside = [(f"{name}.", module.graph) for name, module in modules_inside if hasattr(module, "graph")]
    numbers: dict[str, int] = {}  # of modules' paths
    modules: list[list[str]] = []
    stacks: dict[str, int] = {}
    nodes: list[tuple[Any, ...]] = []
    for prefix, graph in (("", graph_module.graph), *inside):
        for node in graph.nodes:
            meta, module, stack = node.meta, NO_INDEX, NO_INDEX
            if module_stack := meta.get("nn_module_stack") or meta.get("fwd_nn_module_stack"):
                path, kind = next(reversed(module_stack.values()))
                if path not in numbers:
                    # torch.export gives the class's name, Dynamo the class
                    modules.append([path, kind if isinstance(kind, str) else kind.__name__])
                module = numbers.setdefault(path, len(numbers))
            if with_stacks and meta.get("stack_trace"):
                stack = stacks.setdefault(meta["stack_trace"], len(stacks))
            # A sum of gradients carries the number of the last forward op, which it has nothing to do with.
            seq_nr = None if meta.get("is_gradient_acc") else meta.get("seq_nr")
            op = str(meta.get("original_aten") or "")
            origins = _leaf_names(came_from) if (came_from := meta.get("from_node")) else ()
            nodes.append((prefix + node.name, origins, module, op, seq_nr, stack))
    facts = {"modules": modules, "stacks": list(stacks), "nodes": nodes}
    try:
        return str(msgspec.json.encode(facts), "utf-8")
    except UnicodeEncodeError:  # half characters in the user's source
        return json.dumps(facts, separators=(",", ":"))


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
    """Return whether a graph takes gradients in."""
    placeholders = (node for node in graph_module.graph.nodes if node.op == "placeholder")
    return any(node.name.startswith(GRADIENT_PREFIX) for node in placeholders)


def fingerprint(graph_module: Any) -> str:
    """Return a digest of a Dynamo graph: of its nodes' names, targets and modules, but not the lines they stand on.

    One AOTAutograd graph, and so one cache entry, may come from `x.view(4, 2)` and from `x.reshape(4, 2)`.
    """
    lines: list[str] = []
    for node in graph_module.graph.nodes:
        stack = node.meta.get("nn_module_stack")
        module = next(reversed(stack.values()))[0] if stack else ""
        target = node.target if isinstance(node.target, str) else getattr(node.target, "__name__", "")
        lines.append(f"{node.name}\0{target}\0{module}\n")
    return hashlib.blake2b("".join(lines).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
