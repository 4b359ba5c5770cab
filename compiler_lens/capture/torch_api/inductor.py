"""Inductor: its wrapper as a backend, its caches, its code generation, autotuning, the compiled graph, CUDA graphs."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Callable, Mapping
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
CHOICES = Place(
    "torch._inductor.select_algorithm",
    "AlgorithmSelectorCache.log_results",
    "autotuning tables",
    ("name", "input_nodes", "timings", "elapse", "precompile_elapse"),
)
_TUNER = "torch._inductor.runtime.triton_heuristics"
TRITON_CONFIGS = Place(_TUNER, "CachingAutotuner.benchmark_all_configs", "timings of Triton configs", ("self",))
TRITON_DESCENT = Place(
    _TUNER,
    "CachingAutotuner.coordinate_descent_tuning",
    "the Triton configs that coordinate descent ends at",
    ("self",),
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


def output_code(compiled: Any) -> str:
    """Return the text of a CompiledFxGraph's output code, new or from a cache; empty where it has none."""
    return getattr(compiled, "source_code", None) or ""


def entry_name(compiled: Any) -> str:
    """Return the key that the calls of a CompiledFxGraph carry in a profile; empty where it is in no cache."""
    return str(getattr(compiled, "_fx_graph_cache_key", None) or "")


def direction_of_lowering(graph: Any) -> str:
    """Return which program a GraphLowering is: the value of `model.Direction`."""
    return _direction(is_backward=bool(graph.is_backward), is_inference=bool(graph.is_inference))


def direction_of(compiled: Any, graph_kwargs: Any) -> str:
    """Return the same of a CompiledFxGraph. On a cache hit only the first line of its code tells inference apart."""
    head = output_code(compiled)[:80]
    return _direction(is_backward=bool(graph_kwargs.get("is_backward")), is_inference="_inference']" in head)


def _direction(*, is_backward: bool, is_inference: bool) -> str:
    return "backward" if is_backward else "inference" if is_inference else "forward"


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


# -- autotuning: the choices that Inductor and Triton timed, as plain data for events


def choices_table(name: str, input_nodes: Any, timings: Any, seconds: float, precompile: float) -> dict[str, Any]:
    """Return the meta of a `lens.autotune` event, from the arguments of AlgorithmSelectorCache.log_results()."""
    sizes = [", ".join(map(str, node.get_size())) for node in input_nodes]
    types = [str(node.get_dtype()).removeprefix("torch.") for node in input_nodes]
    choices: list[list[Any]] = []
    for choice, time in sorted(timings.items(), key=lambda item: float(item[1])):
        text = str(getattr(choice, "description", "") or "")[:300]
        choices.append([choice.name, _choice_kind(choice), _milliseconds(time), text])
    return {
        "op": name,
        "inputs": [f"{dtype}[{size}]" for dtype, size in zip(types, sizes, strict=True)],
        "choices": choices,
        "seconds": seconds,
        "precompile_seconds": precompile,
    }


def _milliseconds(time: Any) -> float | None:
    return float(time) if math.isfinite(float(time)) else None


def _choice_kind(choice: Any) -> str:
    kind = type(choice).__name__
    for word in ("Extern", "Triton", "CUTLASS", "Cutlass", "CUDATemplate", "Cpp"):
        if word in kind:
            return "extern" if word == "Extern" else "template"
    return kind


def triton_configs(tuner: Any, result: Any) -> dict[str, Any]:
    """Return the meta of a `lens.triton_configs` event, from a CachingAutotuner and what it came to.

    That is a benchmark's timings of launchers, or the launcher that coordinate descent ended at: chosen, and not timed
    for us.
    """
    timings = list(result.items()) if isinstance(result, Mapping) else [(result, math.inf)]
    fastest = min(timings, key=lambda pair: pair[1])[0] if timings else None
    rows: list[dict[str, Any]] = []
    for launcher, time in timings:
        config = launcher.config
        row = {
            "values": {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
            "milliseconds": _milliseconds(time),
            "registers": getattr(launcher, "n_regs", None),
            "spills": getattr(launcher, "n_spills", None),
            "shared_bytes": getattr(launcher, "shared", None),
            "chosen": launcher is fastest,
        }
        rows.append(row)
    kernel = str(tuner.inductor_meta.get("kernel_name") or tuner.fn.__name__)
    return {"kernel": kernel, "configs": rows, "backward": bool(getattr(tuner, "is_backward", False))}


def compile_id_of(tuner: Any) -> str:
    """Return the compile id that a CachingAutotuner comes from: it runs at the first call, in no compilation."""
    return str(getattr(tuner, "compile_id", None) or "")
