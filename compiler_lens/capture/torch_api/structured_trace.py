"""torch's structured trace: its logger, the function that every record goes through, and its table of file names.

And the records that must come with a compilation that comes so far. Whether one does is seen by a hook, so neither a
backend that ends early nor a warm cache raises a false alarm.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from compiler_lens.capture.torch_api.places import Place

# Every stack that torch takes for its trace becomes text here; log_dynamo_start() in torch/_dynamo/convert_frame.py
# counts off frames of torch's, of which ours is one more.
STACK = Place(
    "torch.utils._traceback", "_extract_symbolized_tb", "stacks in torch's trace as they are without a lens", ("tb",)
)

# What is missing where one never comes.
EXPECTED: Mapping[str, str] = {
    "dynamo_start": "where compiled functions were called",
    "dynamo_cpp_guards_str": "guards",
    "compilation_metrics": "times and counts of compilations",
    "dynamo_output_graph": "Dynamo graphs",
    "aot_joint_graph": "joint graphs",
    "aot_forward_graph": "forward graphs",
    "aot_backward_graph": "backward graphs",
    "aot_inference_graph": "inference graphs",
    "inductor_post_grad_graph": "post-grad graphs",
    "inductor_output_code": "output code, and the kernels in it",
}

_METRICS = ("compilation_metrics", "bwd_compilation_metrics")

# With every frame that got compiled code.
OF_A_FRAME = ("dynamo_start", "dynamo_cpp_guards_str")
# With every frame that no other compilation is around: MetricsContext in torch/_dynamo/metrics_context.py counts what
# compiles within a compilation, compiled autograd's included, as a part of that.
OF_AN_OUTERMOST_FRAME = ("compilation_metrics",)


def trace_logger() -> logging.Logger:
    """Return the logger that torch's structured trace goes through."""
    return logging.getLogger("torch.__trace")


def trace_structured_code() -> Any:
    """Return the code object of torch's trace function, to recognise its frame."""
    from torch._logging import _internal

    return _internal.trace_structured.__code__


def requested(parameters: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return which event a call of trace_structured() is about, from its locals; and what is taken of it here.

    The payload of a timed event is a dict: taking its begin or end here spares its JSON, its hash and a log record, a
    hundred times a frame. Of metrics torch copies each of a hundred fields, if it is asked for them.
    """
    name = parameters["name"]
    if name == "artifact":
        return parameters["metadata_fn"]()["name"], None
    if name in _METRICS:
        return name, _metrics(parameters["metadata_fn"])
    if name != "chromium_event":
        return name, None
    event = parameters["payload_fn"]()
    is_timed = event["ph"] in ("B", "E")
    return name, {"name": event["name"], "ph": event["ph"], "ts": event["ts"]} if is_timed else None


def _metrics(metadata: Any) -> dict[str, Any] | None:
    """The metrics that record_compilation_metrics() in torch/_dynamo/utils.py would copy; None where it has others."""
    cell = dict(zip(metadata.__code__.co_freevars, metadata.__closure__ or (), strict=True)).get("compilation_metrics")
    if cell is None:
        return None
    return {key: list(value) if isinstance(value, set) else value for key, value in vars(cell.cell_contents).items()}


def interned_files() -> dict[str, int]:
    """Return the file names that the trace refers to by number."""
    from torch._logging import structured

    table: dict[str, int] = structured.INTERN_TABLE
    return table.copy()  # in one step: other threads may be compiling
