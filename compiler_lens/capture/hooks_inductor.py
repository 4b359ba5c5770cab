"""What each hook round a function of Inductor's observes: code generation, autotuning, the compiled graph.

Importing these parts is slow, and a warm cache needs few of them: each is hooked when the compilation at hand is about
to import it.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from compiler_lens.capture import fusion, inductor, sidecar
from compiler_lens.capture.patches import Function, Hook, observe_after, observe_before
from compiler_lens.capture.torch_api import compat
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import GraphStage

if TYPE_CHECKING:
    from compiler_lens.capture.attribution import FrameRecord
    from compiler_lens.capture.tap import Tap


def _kernel_nodes(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        graph = compat.graph_lowering()
        if graph is None or not tap.here().sessions:
            return
        node_schedule, kernel_name, *rest = args
        is_extern = kwargs.get("is_extern", rest[0] if rest else False)
        names = inductor.kernel_origins(node_schedule, is_extern)
        told = _told_of(tap.here(), graph, "lens.kernel_nodes", {"kernels": [], "ops": []})
        told["kernels"].append([kernel_name, names])
        told["ops"].append(inductor.kernel_ops(node_schedule, is_extern))

    return observe_before("kernel nodes", tap.safely, observe)(original)


def _told_of(record: FrameRecord, graph: Any, name: str, empty: dict[str, Any]) -> Mapping[str, Any]:
    """What is told of the graph being generated: one pending event, grown in place until the graph is done."""
    for event in record.pending:
        if event.name == name:
            return event.meta
    part = inductor.part_name(is_backward=bool(graph.is_backward), is_inference=bool(graph.is_inference))
    event = Event(name, time.time(), meta={"part": part, **empty})
    record.pending.append(event)
    return event.meta


def _not_fused(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        record = tap.here()
        if record.sessions:
            why, reason, *arguments = args
            pair = (why.name1, why.name2)
            record.refused.pop(pair, None)  # the latest word stands last
            record.refused[pair] = reason, tuple(arguments)

    return observe_before("fusion", tap.safely, observe)(original)


def _fused(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        record, graph = tap.here(), compat.graph_lowering()
        refused, record.refused = record.refused, {}
        if graph is None or not record.sessions:
            return
        nodes = kwargs["nodes"] if "nodes" in kwargs else args[0]
        told = _told_of(record, graph, "lens.fusion", {"nodes": [], "refusals": []})
        for key, rows in fusion.describe(nodes, refused, graph.get_output_names()).items():
            told[key].extend(rows)  # a subgraph has a scheduler of its own

    return observe_after("fusion", tap.safely, observe)(original)


def _autotune(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        record = tap.here()
        if record.sessions:
            names = ("name", "input_nodes", "timings", "elapse", "precompile_elapse")
            values = {**dict(zip(names, args, strict=False)), **kwargs}
            record.pending.append(tap.note("lens.autotune", inductor.autotune_table(*(values[n] for n in names))))

    return observe_before("autotuning", tap.safely, observe)(original)


def _triton_configs(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        _note_tuning(tap, args[0], inductor.triton_configs(args[0], result))

    return observe_after("Triton configs", tap.safely, observe)(original)


def _triton_descent(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], result: Any) -> None:
        _note_tuning(tap, args[0], inductor.descent_config(args[0], result))

    return observe_after("coordinate descent", tap.safely, observe)(original)


def _note_tuning(tap: Tap, tuner: Any, meta: Mapping[str, Any]) -> None:
    # It runs at the first call, outside of any compilation: the tuner itself knows whose it is.
    is_backward = bool(getattr(tuner, "is_backward", False))
    compile_id = str(getattr(tuner, "compile_id", None) or "")
    event = tap.note_later("lens.triton_configs", {**meta, "backward": is_backward}, compile_id)
    key = tap.cache_keys.get((event.run, is_backward))
    if key is not None:
        sidecar.add(key, event)


def post_compile(tap: Tap, original: Function) -> Function:
    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        graph_kwargs: Any = None
        requested = False

        def before() -> None:
            nonlocal graph_kwargs, requested
            graph_kwargs = kwargs["graph_kwargs"] if "graph_kwargs" in kwargs else args[3]
            requested = bool(graph_kwargs.get("cudagraphs"))  # post_compile switches it off in place

        tap.safely("compiled graph", before)
        result = original(*args, **kwargs)
        if graph_kwargs is not None:
            tap.safely("compiled graph", lambda: _note_compiled(tap, args[0], graph_kwargs, requested))
        return result

    return hooked


def _note_compiled(tap: Tap, compiled: Any, graph_kwargs: Any, requested: bool) -> None:
    record = tap.here()
    pending, record.pending = record.pending, []
    record.refused = {}
    if compat.TRITON_CONFIGS.module in sys.modules:  # its configs are timed at the first call
        tap.install(RUNTIME_HOOKS)
    if not record.sessions:
        return
    key = sidecar.cache_key(compiled)
    part = inductor.part_of(compiled, graph_kwargs)
    # Inductor's own passes ran: the graph is new, else it came from a cache.
    if any(event.meta.get("stage") == GraphStage.POST_GRAD.value for event in pending):
        for event in pending:
            if event.name in ("lens.kernel_nodes", "lens.fusion"):
                tap.note(event.name, event.meta)
        if key is not None:
            tap.safely("facts kept for warm runs", functools.partial(sidecar.write, key, pending))
    else:
        _recall(tap, key, {(event.name, event.meta.get("stage")) for event in pending})
    event = tap.note(
        "lens.cudagraph", inductor.cudagraph_state(compiled, graph_kwargs, direction=part, requested=requested)
    )
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
    *(Hook(place, _kernel_nodes) for place in compat.KERNEL_NODES),
    Hook(compat.FUSED, _fused),
    Hook(compat.NOT_FUSED, _not_fused),
    Hook(compat.AUTOTUNE, _autotune),
)
RUNTIME_HOOKS = (
    Hook(compat.TRITON_CONFIGS, _triton_configs),
    Hook(compat.TRITON_DESCENT, _triton_descent),
)
