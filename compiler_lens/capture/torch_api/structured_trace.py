"""torch's structured trace: its logger, the function that every record goes through, and its table of file names.

And the records that must come with a compilation that comes so far. Whether one does is seen by a hook, so neither a
backend that ends early nor a warm cache raises a false alarm.
"""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Mapping
from operator import itemgetter
from typing import Any

from compiler_lens.capture.torch_api.places import Place
from compiler_lens.capture.torch_api.printed import Known, printers
from compiler_lens.recording.journal import TIMED
from compiler_lens.recording.torch_names import UNREAD_METRICS

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
# Its metadata are the sizes of all nodes, which its text has, too: torch goes through the graph for them.
_OF_TEXT_ALONE = "dynamo_output_graph"

# With every frame that got compiled code.
OF_A_FRAME = ("dynamo_start", "dynamo_cpp_guards_str")
# With every frame that no other compilation is around: MetricsContext in torch/_dynamo/metrics_context.py counts what
# compiles within a compilation, compiled autograd's included, as a part of that.
OF_AN_OUTERMOST_FRAME = ("compilation_metrics",)


@functools.cache
def trace_logger() -> logging.Logger:
    """Return the logger that torch's structured trace goes through."""
    return logging.getLogger("torch.__trace")


def trace_structured_code() -> Any:
    """Return the code object of torch's trace function, to recognise its frame."""
    from torch._logging import _internal

    return _internal.trace_structured.__code__


def name_of(parameters: Mapping[str, Any]) -> str:
    """Return the name of the record that a call of trace_structured() is about, from its locals."""
    name: str = parameters["name"]
    if name == "artifact":
        name = parameters["metadata_fn"]()["name"]
    return name


# Of a timed event: its name, phase and microseconds. One in neither of these phases is an instant.
timed_row = itemgetter("name", "ph", "ts")
BEGIN_AND_END = ("B", "E")

# What _log_timed_event() in torch/_dynamo/utils.py hands each event to once it has sent it; outside of Meta it does
# nothing. To find an event among the locals of who sends it takes twice as long.
TIMED_EVENTS = Place(
    "torch._dynamo.utils", "record_chromium_event_internal", "times of the compiler's phases", ("event",)
)


# Nine of ten records: timed events, which are heard there, and tensors, which nobody reads. What sends them sends
# nothing else: ChromiumEventLogger, and torch/_subclasses/meta_utils.py for each input of a graph.
PASSED_OVER = frozenset((TIMED, "describe_storage", "describe_tensor", "describe_source"))


def rendered(name: str, parameters: Mapping[str, Any], known: Known | None = None) -> tuple[Any, str | None]:
    """Return metadata and payload of a record, as trace_structured() renders them, from its locals."""
    meta: Any = None
    if name in _METRICS:  # torch copies each of a hundred fields, if it is asked for them
        meta = _metrics(parameters["metadata_fn"])
    elif name == _OF_TEXT_ALONE:
        meta = {}
    if meta is None:
        meta = parameters["metadata_fn"]()
    ask = parameters["payload_fn"]
    printer = printers().get(name)
    payload = ask() if printer is None else printer.text(ask, known)
    if payload is None or isinstance(payload, str):
        return meta, payload
    if isinstance(payload, list):
        return meta, "[\n" + ",\n".join(json.dumps(one) for one in payload) + "\n]"
    return meta, json.dumps(payload, default=list, indent=0)


def _metrics(metadata: Any) -> dict[str, Any] | None:
    """What is told of metrics that record_compilation_metrics() in torch/_dynamo/utils.py copies, if it has them."""
    cell = dict(zip(metadata.__code__.co_freevars, metadata.__closure__ or (), strict=True)).get("compilation_metrics")
    if cell is None:
        return None
    return _told_metrics(vars(cell.cell_contents))


def _told_metrics(values: Mapping[str, Any]) -> dict[str, Any]:
    # In this order: two of three have no value, and most names are not looked at.
    return {name: value for name, value in values.items() if value is not None and name not in UNREAD_METRICS}


def told(name: str, meta: Any) -> Any:
    """Return metadata that torch rendered, as `rendered` would give it."""
    if name == _OF_TEXT_ALONE:
        return {}
    return _told_metrics(meta) if name in _METRICS and isinstance(meta, Mapping) else meta


def interned_files() -> dict[str, int]:
    """Return the file names that the trace refers to by number."""
    from torch._logging import structured

    table: dict[str, int] = structured.INTERN_TABLE
    return table.copy()  # in one step: other threads may be compiling
