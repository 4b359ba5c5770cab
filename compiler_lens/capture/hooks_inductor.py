"""What each hook round a function of Inductor's observes: code generation, autotuning, the compiled graph.

Importing these parts is slow, and a warm cache needs few of them: each is hooked when the compilation at hand is about
to import it.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping
from typing import Any

from compiler_lens.capture import fusion, sidecar
from compiler_lens.capture.attribution import FrameRecord
from compiler_lens.capture.patches import Function, Hook, observe_after, observe_before
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import autotuning, cudagraphs, inductor, scheduler
from compiler_lens.capture.torch_api.places import Arguments
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import GraphStage
from compiler_lens.recording.torch_names import OUTPUT_CODE_RECORD


def _kernel_nodes(tap: Tap, node_schedule: Any, kernel_name: str, is_extern: bool) -> None:
    graph = inductor.graph_lowering()
    if graph is None or not tap.here().sessions:
        return
    names = inductor.kernel_origins(node_schedule, is_extern)
    found = _pending(tap.here(), graph, "lens.kernel_nodes", {"kernels": [], "ops": []})
    found["kernels"].append([kernel_name, names])
    found["ops"].append(inductor.kernel_ops(node_schedule, is_extern))


def _pending(record: FrameRecord, graph: Any, name: str, empty: dict[str, Any]) -> Mapping[str, Any]:
    """What is known of the graph being generated: one pending event, grown in place until the graph is done."""
    for event in record.pending:
        if event.name == name:
            return event.meta
    event = Event(name, time.time(), meta={"part": inductor.direction_of_lowering(graph), **empty})
    record.pending.append(event)
    return event.meta


def _not_fused(tap: Tap, why: Any, reason: str, arguments: tuple[Any, ...]) -> None:
    record = tap.here()
    if record.sessions:
        pair = scheduler.names_of_pair(why)
        record.refused.pop(pair, None)  # the latest word stands last
        record.refused[pair] = reason, arguments


def _fused(tap: Tap, _result: Any, nodes: Any) -> None:
    record, graph = tap.here(), inductor.graph_lowering()
    refused, record.refused = record.refused, {}
    if graph is None or not record.sessions:
        return
    found = _pending(record, graph, "lens.fusion", {"nodes": [], "refusals": []})
    for key, rows in fusion.describe(nodes, refused, graph.get_output_names()).items():
        found[key].extend(rows)  # a subgraph has a scheduler of its own


def _choices(tap: Tap, *values: Any) -> None:
    record = tap.here()
    if record.sessions:
        record.pending.append(tap.note("lens.autotune", autotuning.choices_table(*values)))


def _triton_configs(tap: Tap, timings: Any, tuner: Any) -> None:
    _note_tuning(tap, tuner, autotuning.triton_configs(tuner, timings))


def _triton_descent(tap: Tap, launcher: Any, tuner: Any) -> None:
    _note_tuning(tap, tuner, autotuning.descent_config(tuner, launcher))


def _note_tuning(tap: Tap, tuner: Any, meta: Mapping[str, Any]) -> None:
    # It runs at the first call, outside of any compilation: the tuner itself knows whose it is.
    event = tap.note_later("lens.triton_configs", meta, autotuning.compile_id_of(tuner))
    key = tap.cache_keys.get((event.run, meta["backward"]))
    if key is not None:
        sidecar.add(key, event)


def post_compile(tap: Tap, arguments: Arguments, original: Function) -> Function:
    """Return the hook round what every compiled graph goes through, new or from a cache."""

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        compiled: Any = None
        graph_kwargs: Any = None
        requested = False

        def before() -> None:
            nonlocal compiled, graph_kwargs, requested
            compiled, graph_kwargs = arguments.of(args, kwargs)
            requested = cudagraphs.are_requested(graph_kwargs)

        tap.safely("compiled graph", before)
        result = original(*args, **kwargs)
        if graph_kwargs is not None:
            tap.safely("compiled graph", lambda: _note_compiled(tap, compiled, graph_kwargs, requested))
        return result

    return hooked


def _note_compiled(tap: Tap, compiled: Any, graph_kwargs: Any, requested: bool) -> None:
    record = tap.here()
    pending, record.pending = record.pending, []
    record.refused = {}
    if autotuning.TRITON_CONFIGS.module in sys.modules:  # its configs are timed at the first call
        tap.install(RUNTIME_HOOKS)
    if not record.sessions:
        return
    key = sidecar.cache_key(compiled)
    part = inductor.direction_of(compiled, graph_kwargs)
    # Inductor's own passes ran: the graph is new, else it came from a cache.
    if any(event.meta.get("stage") == GraphStage.POST_GRAD.value for event in pending):
        record.expected.add(OUTPUT_CODE_RECORD)
        tap.notice_missing(record)
        for event in pending:
            if event.name in ("lens.kernel_nodes", "lens.fusion"):
                tap.note(event.name, event.meta)
        if key is not None:
            tap.safely("facts kept for warm runs", functools.partial(sidecar.write, key, pending))
    else:
        _recall(tap, key, {(event.name, event.meta.get("stage")) for event in pending})
    outcome = cudagraphs.outcome(compiled, graph_kwargs, requested=requested)
    event = tap.note("lens.cudagraph", {"part": part, "key": inductor.entry_name(compiled), **outcome})
    if key is not None:
        tap.cache_keys[event.run, part == "backward"] = key


_FORGOTTEN = "node origins, kernel nodes, what launches read and write, and autotuning of a cached graph"


def _recall(tap: Tap, key: str | None, known: set[tuple[str, Any]]) -> None:
    events = sidecar.read(key) if key is not None else None
    if events is None:
        reason = "it came from a cache that was filled without compiler_lens; clear the cache to record them"
        tap.note("lens.unavailable", {"fact": _FORGOTTEN, "reason": reason})
        return
    if any(event.name == "lens.kernel_nodes" for event in events) and not any(e.name == "lens.fusion" for e in events):
        reason = "an older compiler_lens kept what is known of it; clear the cache to record it"
        tap.note("lens.unavailable", {"fact": "what launches of a cached graph read and write", "reason": reason})
    program = tap.here().program
    for event in events:
        if event.meta.get("program", program) != program:
            reason = "the cached graph was compiled from other code, and its origins are of that"
            tap.note("lens.unavailable", {"fact": "exact node origins of a cached graph", "reason": reason})
        elif (event.name, event.meta.get("stage")) not in known:
            tap.note(event.name, event.meta, event.text, cached=True)


CODEGEN_HOOKS = (
    *(Hook(place, observe_before("kernel nodes", _kernel_nodes)) for place in inductor.KERNEL_NODES),
    Hook(scheduler.FUSED, observe_after("fusion", _fused)),
    Hook(scheduler.NOT_FUSED, observe_before("fusion", _not_fused)),
    Hook(autotuning.CHOICES, observe_before("autotuning", _choices)),
)
RUNTIME_HOOKS = (
    Hook(autotuning.TRITON_CONFIGS, observe_after("Triton configs", _triton_configs)),
    Hook(autotuning.TRITON_DESCENT, observe_after("coordinate descent", _triton_descent)),
)
