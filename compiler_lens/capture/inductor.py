"""What Inductor knows while it works, as plain data for events: kernels' nodes, autotuning, configs, CUDA graphs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any


def part_name(*, is_backward: bool, is_inference: bool) -> str:
    """The word for one of a compilation's programs: the value of `model.Pass`."""
    return "backward" if is_backward else "inference" if is_inference else "forward"


def kernel_origins(node_schedule: Any, is_extern: bool) -> list[str]:
    """Names of the post-grad nodes that one code generation call covers, in order.

    `node_schedule` is what set_kernel_post_grad_provenance_tracing() in torch/_inductor/debug.py takes: an
    ExternKernel, or a list of scheduler nodes with marker classes (EnableReduction) among them.
    """
    if is_extern:
        origin = getattr(node_schedule, "origin_node", None)
        return [origin.name] if origin is not None else [node.name for node in node_schedule.origins]
    names: dict[str, None] = {}
    for entry in node_schedule:
        # A fused node (in a foreach kernel) has no IR node of its own, but parts that do.
        for direction in entry.get_nodes() if hasattr(entry, "get_nodes") and not isinstance(entry, type) else (entry,):
            ir_node = getattr(direction, "node", None)
            if ir_node is not None:
                names.update((origin.name, None) for origin in ir_node.origins)
    return list(names)


def kernel_ops(node_schedule: Any, is_extern: bool) -> list[str]:
    """The scheduler's names for what one code generation call covers: "op3"."""
    if is_extern:
        return [node_schedule.get_operation_name()]
    nodes = [entry for entry in node_schedule if hasattr(entry, "get_nodes") and not isinstance(entry, type)]
    return list(dict.fromkeys(direction.get_name() for node in nodes for direction in node.get_nodes()))


def autotune_table(name: str, input_nodes: Any, timings: Any, seconds: float, precompile: float) -> dict[str, Any]:
    """The meta of a `lens.autotune` event, from the arguments of AlgorithmSelectorCache.log_results()."""
    return {
        "op": name,
        "inputs": [_input_text(node) for node in input_nodes],
        "choices": [
            [choice.name, _choice_kind(choice), _milliseconds(time), _choice_detail(choice)]
            for choice, time in sorted(timings.items(), key=lambda item: float(item[1]))
        ],
        "seconds": seconds,
        "precompile_seconds": precompile,
    }


def _milliseconds(time: Any) -> float | None:
    return float(time) if math.isfinite(float(time)) else None


def _input_text(node: Any) -> str:
    dtype = str(node.get_dtype()).removeprefix("torch.")
    return f"{dtype}[{', '.join(map(str, node.get_size()))}]"


def _choice_kind(choice: Any) -> str:
    kind = type(choice).__name__
    for word in ("Extern", "Triton", "CUTLASS", "Cutlass", "CUDATemplate", "Cpp"):
        if word in kind:
            return "extern" if word == "Extern" else "template"
    return kind


def _choice_detail(choice: Any) -> str:
    description = getattr(choice, "description", "")
    return str(description or "")[:300]


def triton_configs(tuner: Any, timings: Any) -> dict[str, Any]:
    """The meta of a `lens.triton_configs` event, from a CachingAutotuner and its benchmark's result."""
    fastest = min(timings, key=lambda launcher: timings[launcher]) if timings else None
    return {
        "kernel": tuner.inductor_meta.get("kernel_name") or tuner.fn.__name__,
        "configs": [_config_row(launcher, time, chosen=launcher is fastest) for launcher, time in timings.items()],
    }


def descent_config(tuner: Any, launcher: Any) -> dict[str, Any]:
    """The meta of a `lens.triton_configs` event for where coordinate descent ended: chosen, and not timed for us."""
    return {
        "kernel": tuner.inductor_meta.get("kernel_name") or tuner.fn.__name__,
        "configs": [_config_row(launcher, math.inf, chosen=True)],
    }


def _config_row(launcher: Any, time: Any, *, chosen: bool) -> dict[str, Any]:
    config = launcher.config
    return {
        "values": {**config.kwargs, "num_warps": config.num_warps, "num_stages": config.num_stages},
        "milliseconds": _milliseconds(time),
        "registers": getattr(launcher, "n_regs", None),
        "spills": getattr(launcher, "n_spills", None),
        "shared_bytes": getattr(launcher, "shared", None),
        "chosen": chosen,
    }


def part_of(compiled: Any, graph_kwargs: Any) -> str:
    """Which program a CompiledFxGraph is. On a cache hit only the first line of its code tells inference apart."""
    head = (getattr(compiled, "source_code", None) or "")[:80]
    return part_name(is_backward=bool(graph_kwargs.get("is_backward")), is_inference="_inference']" in head)


def cudagraph_state(compiled: Any, graph_kwargs: Any, *, direction: str, requested: bool) -> dict[str, Any]:
    """The meta of a `lens.cudagraph` event, once CompiledFxGraph.post_compile() has decided."""
    key = str(getattr(compiled, "_fx_graph_cache_key", None) or "")
    return {"part": direction, "key": key, **_cudagraph_outcome(compiled, graph_kwargs, requested=requested)}


def _cudagraph_outcome(compiled: Any, graph_kwargs: Any, *, requested: bool) -> dict[str, Any]:
    reason = str(getattr(compiled, "disabled_cudagraphs_reason", None) or "")
    failures = getattr(getattr(compiled, "cudagraph_info", None), "cudagraph_fail_reasons", None) or ()
    reason = reason or "; ".join(map(str, failures))
    partitions = getattr(compiled, "partition_maps", None) or ()
    on_cpu = set(getattr(compiled, "device_types", None) or ()) == {"cpu"}  # nothing there to capture
    if on_cpu or not requested:
        return {"state": "not_requested", "reason": "", "partitions": 0}
    if not bool(graph_kwargs.get("cudagraphs")):
        return {"state": "skipped", "reason": reason, "partitions": 0}
    state = "partitioned" if len(partitions) > 1 else "captured"
    return {"state": state, "reason": reason, "partitions": len(partitions)}


def cache_answer(meta: Mapping[str, Any], text: str) -> tuple[Mapping[str, Any], str]:
    """An FX graph cache event with the parts of its key taken out of the text, into texts of their own.

    They are 70 kB a graph, of which the settings are the same in every compilation: apart, the journal keeps them once.
    """
    try:
        answer = json.loads(text)
        parts: list[str] = answer.pop("components")
        settings = "\n".join(direction for direction in parts if "] inductor_config[" in direction[:90])
        others = "\n".join(direction for direction in parts if "] inductor_config[" not in direction[:90])
    except (ValueError, KeyError, TypeError):
        return meta, text
    return {**meta, "key_settings": settings, "key_parts": others}, json.dumps(answer)
