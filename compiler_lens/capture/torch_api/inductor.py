"""Inductor: its wrapper as a backend, its caches, its code generation, the compiled graph and CUDA graphs."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

from compiler_lens.capture.torch_api import versions
from compiler_lens.capture.torch_api.places import Place

POST_GRAD = Place("torch._inductor.compile_fx", "_recursive_post_grad_passes", "origins of post-grad nodes", ("gm",))
# Code generators import it by name, IR nodes at each call.
KERNEL_NODES = tuple(
    Place(
        module,
        "set_kernel_post_grad_provenance_tracing",
        "which nodes each kernel computes",
        ("node_schedule", "kernel_name", "is_extern"),
    )
    for module in ("torch._inductor.debug", "torch._inductor.codegen.cpp", "torch._inductor.codegen.triton")
)
POST_COMPILE = Place(
    "torch._inductor.output_code",
    "CompiledFxGraph.post_compile",
    "CUDA graphs, and facts of earlier runs on a warm cache",
    ("self", "graph_kwargs"),
)


def inductor_wrapper(mode: str | None, options: dict[str, Any] | None, name: str | None) -> Callable[..., Any]:
    """Return what `torch.compile(backend="inductor")` builds: the compiler that we hand over to.

    Raises what torch raises for a mode or an option that it does not know.
    """
    import torch

    wrapper = torch._TorchCompileInductorWrapper
    if name is None or not versions.WRAPPER_NAME.is_here:
        return wrapper(mode, options, None)  # type: ignore[no-any-return]
    return wrapper(mode, options, None, name)  # type: ignore[no-any-return]


def graph_lowering() -> Any:
    """Return Inductor's GraphLowering while it generates code, else None."""
    from torch._inductor.virtualized import V

    graph = V.graph
    return graph if hasattr(graph, "is_backward") else None


def cache_folder() -> str:
    """Return where Inductor keeps its caches."""
    from torch._inductor.runtime.runtime_utils import cache_dir

    return str(cache_dir())


def fx_cache_key(compiled: Any) -> Any:
    """Return what a CompiledFxGraph, or what stands for one, says of its entry in the FX graph cache."""
    return getattr(compiled, "_fx_graph_cache_key", None) or getattr(compiled, "cache_key", None)


def entry_name(compiled: Any) -> str:
    """Return the key that the calls of a CompiledFxGraph carry in a profile; empty where it is in no cache."""
    return str(getattr(compiled, "_fx_graph_cache_key", None) or "")


def direction_of_lowering(graph: Any) -> str:
    """Return which program a GraphLowering is: the value of `model.Direction`."""
    return _direction(is_backward=bool(graph.is_backward), is_inference=bool(graph.is_inference))


def direction_of(compiled: Any, graph_kwargs: Any) -> str:
    """Return the same of a CompiledFxGraph. On a cache hit only the first line of its code tells inference apart."""
    head = (getattr(compiled, "source_code", None) or "")[:80]
    return _direction(is_backward=bool(graph_kwargs.get("is_backward")), is_inference="_inference']" in head)


def _direction(*, is_backward: bool, is_inference: bool) -> str:
    if is_backward:
        return "backward"
    return "inference" if is_inference else "forward"


# -- what one code generation call covers
#
# `node_schedule` is what set_kernel_post_grad_provenance_tracing() in torch/_inductor/debug.py takes: an ExternKernel,
# or a list of scheduler nodes with marker classes (EnableReduction) among them.


def kernel_origins(node_schedule: Any, is_extern: bool) -> list[str]:
    """Return the names of the post-grad nodes that it covers, in order."""
    if is_extern:
        origin = getattr(node_schedule, "origin_node", None)
        return [origin.name] if origin is not None else [node.name for node in node_schedule.origins]
    names: dict[str, None] = {}
    for entry in node_schedule:
        # A fused node (in a foreach kernel) has no IR node of its own, but parts that do.
        for part in entry.get_nodes() if _is_node(entry) else (entry,):
            ir_node = getattr(part, "node", None)
            if ir_node is not None:
                names.update((origin.name, None) for origin in ir_node.origins)
    return list(names)


def kernel_ops(node_schedule: Any, is_extern: bool) -> list[str]:
    """Return the scheduler's names for it: "op3"."""
    if is_extern:
        return [node_schedule.get_operation_name()]
    nodes = filter(_is_node, node_schedule)
    return list(dict.fromkeys(part.get_name() for node in nodes for part in node.get_nodes()))


def _is_node(entry: Any) -> bool:
    return hasattr(entry, "get_nodes") and not isinstance(entry, type)


# -- CUDA graphs: whether Inductor captured one, and why not


def cudagraph_logger() -> logging.Logger:
    """Return the logger that says why a CUDA graph was skipped when it came to run."""
    return logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")


def cudagraphs_requested(graph_kwargs: Any) -> bool:
    """Return whether CUDA graphs are asked for; CompiledFxGraph.post_compile() withdraws that in place."""
    return bool(graph_kwargs.get("cudagraphs"))


def cudagraph_outcome(compiled: Any, graph_kwargs: Any, *, requested: bool) -> dict[str, Any]:
    """Return state, reason and number of partitions, after CompiledFxGraph.post_compile() has decided."""
    on_cpu = set(getattr(compiled, "device_types", None) or ()) == {"cpu"}  # nothing there to capture
    if on_cpu or not requested:
        return {"state": "not_requested", "reason": "", "partitions": 0}
    reason = str(getattr(compiled, "disabled_cudagraphs_reason", None) or "")
    failures = getattr(getattr(compiled, "cudagraph_info", None), "cudagraph_fail_reasons", None) or ()
    reason = reason or "; ".join(map(str, failures))
    if not cudagraphs_requested(graph_kwargs):
        return {"state": "skipped", "reason": reason, "partitions": 0}
    partitions = getattr(compiled, "partition_maps", None) or ()
    state = "partitioned" if len(partitions) > 1 else "captured"
    return {"state": state, "reason": reason, "partitions": len(partitions)}


def forget_recorded_cudagraphs() -> None:
    """Drop all CUDA graphs that Inductor has recorded in this process."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        trees.reset_cudagraph_trees()
