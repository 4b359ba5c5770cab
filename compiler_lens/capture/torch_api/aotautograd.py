"""AOTAutograd: where its graphs can be seen."""

from __future__ import annotations

from typing import Any

from compiler_lens.capture.torch_api.places import Place

_GRAPH_COMPILE = "torch._functorch._aot_autograd.graph_compile"

JOINT_GRAPH = Place(_GRAPH_COMPILE, "_log_joint_graph", "origins of nodes of the joint graph", ("fx_g", "aot_config"))
TRAINING_GRAPHS = Place(
    _GRAPH_COMPILE,
    "_log_fw_bw_graphs",
    "origins of forward and backward nodes",
    ("fw_module", "bw_module", "aot_config"),
)
INFERENCE_GRAPH = Place(
    _GRAPH_COMPILE, "_log_inference_graph", "origins of inference nodes", ("fw_module", "aot_config")
)


def sends_records(aot_config: Any) -> bool:
    """Return whether AOTAutograd sends its graphs to the trace: not those of a higher-order op compiled apart."""
    return bool(aot_config.enable_log)
