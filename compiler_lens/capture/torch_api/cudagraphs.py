"""CUDA graphs: whether Inductor captured one, and why not."""

from __future__ import annotations

import logging
import sys
from typing import Any


def cudagraph_logger() -> logging.Logger:
    """Return the logger that says why a CUDA graph was skipped when it came to run."""
    return logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")


def are_requested(graph_kwargs: Any) -> bool:
    """Return whether CUDA graphs are asked for; CompiledFxGraph.post_compile() withdraws that in place."""
    return bool(graph_kwargs.get("cudagraphs"))


def outcome(compiled: Any, graph_kwargs: Any, *, requested: bool) -> dict[str, Any]:
    """Return state, reason and number of partitions, after CompiledFxGraph.post_compile() has decided."""
    on_cpu = set(getattr(compiled, "device_types", None) or ()) == {"cpu"}  # nothing there to capture
    if on_cpu or not requested:
        return {"state": "not_requested", "reason": "", "partitions": 0}
    reason = str(getattr(compiled, "disabled_cudagraphs_reason", None) or "")
    failures = getattr(getattr(compiled, "cudagraph_info", None), "cudagraph_fail_reasons", None) or ()
    reason = reason or "; ".join(map(str, failures))
    if not are_requested(graph_kwargs):
        return {"state": "skipped", "reason": reason, "partitions": 0}
    partitions = getattr(compiled, "partition_maps", None) or ()
    state = "partitioned" if len(partitions) > 1 else "captured"
    return {"state": state, "reason": reason, "partitions": len(partitions)}


def forget_recorded() -> None:
    """Drop all CUDA graphs that Inductor has recorded in this process."""
    trees: Any = sys.modules.get("torch._inductor.cudagraph_trees")
    if trees is not None:
        trees.reset_cudagraph_trees()
