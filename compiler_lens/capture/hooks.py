"""What each hook round a function of torch observes: frames and graphs, code generation, autotuning, compiled graphs.

The tables at the end say which are put in together. Importing parts of Inductor is slow, and a warm cache needs few of
them: each is hooked when the compilation at hand is about to import it.
"""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from types import CodeType, MethodType
from typing import Any

from compiler_lens.capture import fusion, sidecar, sources
from compiler_lens.capture.session import FrameRecord, Moment, owner_of
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import dynamo, graphs, inductor, scheduler, settings, structured_trace
from compiler_lens.capture.torch_api.places import Arguments, Function, Hook, Place
from compiler_lens.recording.errors import CaptureError
from compiler_lens.recording.event import WRAPPER_FILE, Event
from compiler_lens.recording.ids import GraphStage
from compiler_lens.recording.journal import TIMED
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.torch_names import GRAPH_RECORDS, OUTPUT_CODE_RECORD


def before(place: Place, name: str, observer: Callable[..., None]) -> Hook:
    """Return a hook that looks at a call before it changes its arguments: `observer(tap, *what the place reads)`."""

    def make(tap: Tap, arguments: Arguments, original: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            tap.safely(name, lambda: observer(tap, *arguments.of(args, kwargs)))
            return original(*args, **kwargs)

        return hooked

    return Hook(place, make)


def after(place: Place, name: str, observer: Callable[..., None]) -> Hook:
    """Return a hook that looks at a call once it has returned: `observer(tap, result, *what the place reads)`."""

    def make(tap: Tap, arguments: Arguments, original: Function) -> Function:
        def hooked(*args: Any, **kwargs: Any) -> Any:
            result = original(*args, **kwargs)
            tap.safely(name, lambda: observer(tap, result, *arguments.of(args, kwargs)))
            return result

        return hooked

    return Hook(place, make)


# -- frames

# Frames that Dynamo passes over by design: torch's own and the standard library's, and frames already running.
_NO_NEWS = frozenset(("frame is in the Dynamo skipfiles list", "frame has already started executing"))
# It looks into everything that runs below a compiled call, also what the garbage collector happens to call there.
_NO_TENSORS = "no tensor-related objects found in frame"


def _frame(tap: Tap, _arguments: Arguments, original: Function) -> Function:
    def hooked(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        frames = tap.local.thread.frames
        around = len(frames)
        entered: list[FrameRecord] = []
        try:
            if tap.sessions:  # else somebody wrapped this hook, and it could not be taken out
                tap.safely("frame", _enter, tap, self, frame, entered)
            result = original(self, frame, *args, **kwargs)
        except BaseException as error:
            tap.safely("frame", _leave, tap, entered, frame_error, error)
            raise
        else:
            tap.safely("frame", _leave, tap, entered, _frame_result, self, frame, result)
            return result
        finally:
            del frames[around:]

    return hooked


def _enter(tap: Tap, callback: Any, frame: Any, entered: list[FrameRecord]) -> None:
    backend = dynamo.innermost_backend(callback)
    owner = owner_of(dynamo.compiler_of(backend))
    facts = _frame_facts(frame, backend, is_ours=owner is not None)
    record = tap.enter(facts, owner)
    record.is_eager = dynamo.is_eager(backend)
    entered.append(record)
    if record.run and not tap.knows(settings.SET):  # from the second on: a lens may be opened for one alone
        tap.install(SETTING_HOOKS)
    if record.sessions and (owner is not None or "inductor" in facts["backend"]):
        tap.install(INDUCTOR_HOOKS)
    tap.safely("names", _add_names, facts, frame)  # apart: a frame without a name is a frame


def _leave(tap: Tap, entered: list[FrameRecord], meta: Callable[..., Mapping[str, Any]], *of: Any) -> None:
    if entered:
        tap.leave(entered[0], meta(*of))


def frame_error(error: BaseException) -> dict[str, Any]:
    """Return what is noted of a compilation that ends with an error."""
    name, message = type(error).__name__, str(error)
    # torch puts an exception's name before its message where it raises another in its place.
    reason = message if message.startswith(f"{name}: ") else f"{name}: {message}"
    return {"result": "error", "reason": reason[:2000]}


def _frame_result(callback: Any, frame: Any, result: Any) -> dict[str, Any]:
    has_code, reason = dynamo.frame_result(result, callback, frame)
    is_no_news = reason in _NO_NEWS or (reason == _NO_TENSORS and not sources.is_kept(frame.f_code.co_filename))
    return {"result": "code" if has_code else "none", "reason": "" if is_no_news else reason}


def _frame_facts(frame: Any, backend: Any, *, is_ours: bool) -> dict[str, Any]:
    code = frame.f_code
    mode, options = settings.mode_and_options(backend)
    return {
        "function": code.co_name,
        "file": code.co_filename,
        "line": code.co_firstlineno,
        "backend": "inductor" if is_ours else dynamo.backend_name(backend),
        "mode": mode,
        "options": {str(key): repr(value)[:200] for key, value in options.items()},
        "dynamic": getattr(backend, "dynamic", None),
    }


def _add_names(facts: dict[str, Any], frame: Any) -> None:
    """Add what the author calls it: the class of the module whose frame it is, its object, the function."""
    code, values = frame.f_code, frame.f_locals
    receiver = _receiver_name(code, values)
    name = receiver or "self"
    value = values.get(name) if name in code.co_varnames or name in code.co_freevars else None
    owner = value.__self__ if type(value) is MethodType else value
    facts["module"], facts["receiver"] = dynamo.module_class(value), receiver
    facts["instance"] = id(owner) if receiver else 0
    facts.update(sources.definition(code, values))


def _receiver_name(code: CodeType, values: Mapping[str, Any]) -> str:
    """What a method calls its object, `self` as a rule; `fn` in torch's wrapper around a module; else empty."""
    if code.co_filename.endswith(WRAPPER_FILE):
        return "fn"
    method = plain_function(code.co_name)
    for name in code.co_varnames[: code.co_argcount]:  # a resume function has its values of the stack before them
        chain = sources.decorated(_of_class(type(values.get(name)), method))
        theirs = chain[-1].__code__ if chain else None
        if theirs is not None and theirs.co_varnames[: min(theirs.co_argcount, 1)] == (name,):
            return str(name)
    return ""


_mro = vars(type)["__mro__"].__get__  # which no metaclass can have in its place


def _of_class(kind: type, name: str) -> Any:
    """What a class or one that it inherits from has under a name, without running the user's code."""
    if type(kind).__getattribute__ is not type.__getattribute__:  # a metaclass's own
        return inspect.getattr_static(kind, name, None)
    return next((vars(one)[name] for one in _mro(kind) if name in vars(one)), None)


def _stack(tap: Tap, _arguments: Arguments, original: Function) -> Function:
    """Leave our frames out of a stack, before torch leaves out a number of its own."""

    def hooked(tb: Any, *args: Any, **kwargs: Any) -> Any:
        return original(tap.without_our_frames(tb), *args, **kwargs)

    return hooked


def _setting(tap: Tap, _arguments: Arguments, original: Function) -> Function:
    def hooked(self: Any, name: str, *value: Any) -> Any:
        if type(name) is str:  # else it is torch's error
            tap.settings_set.add(name)
        return original(self, name, *value)

    return hooked


def _timed(tap: Tap, _arguments: Arguments, original: Function) -> Function:
    """Hear the begin and end of each phase. The smallest compilation has sixteen: no more is done than it takes."""
    clock, thread_id = time.perf_counter, threading.get_ident
    torchs = dynamo.thread_state()

    def hooked(event: Any, *others: Any) -> Any:
        start = clock()
        try:
            context: Any = getattr(torchs, "compile_context", None)
            found = tap.attribution.by_context.get(id(context))
            if found is None or tap.is_watched:
                tap.safely(TIMED, tap.hear_timed, event)
            else:
                found[0].timed.append((structured_trace.timed_row(event), context.attempt, thread_id()))
                tap.seconds += clock() - start  # nothing in here waits for anything: the time on the clock is ours
        except Exception as error:  # noqa: BLE001 -- as in `safely`
            tap.keep_error(TIMED, error)
        return original(event, *others)

    return hooked


# -- graphs

_RECORDS = {stage: name for name, stage in GRAPH_RECORDS.items()}


def _note_graph(
    tap: Tap, moment: Moment, stage: GraphStage, graph_module: Any, *, is_sent: bool = True, **meta: Any
) -> None:
    record = moment.record
    if not record.sessions:
        return
    if is_sent:
        record.expected.add(_RECORDS[stage])
    with_stacks = stage is GraphStage.DYNAMO
    text = graphs.node_facts(graph_module, with_stacks=with_stacks)
    receiver = {"receiver": record.facts["receiver"]} if "receiver" in record.facts else {}
    told = {"stage": stage.value, "program": record.program, **receiver, **meta}
    event = tap.keep(record, moment.event("lens.node_facts", told, text), waits=record.is_eager)
    if with_stacks:
        record.keep_sources(sources.files_named(text), waits=record.is_eager)
    else:  # Dynamo runs on a warm cache too
        record.pending.append(event)


def _hook_inductor_if_there(tap: Tap, record: FrameRecord) -> None:
    # A backend of somebody's own may call Inductor in the end: its name does not tell.
    if record.sessions and inductor.POST_GRAD.module in sys.modules:
        tap.install(INDUCTOR_HOOKS)


def _dynamo_graph(tap: Tap, graph_module: Any) -> None:
    if tap.later("Dynamo graph", lambda moment: _note_graph(tap, moment, GraphStage.DYNAMO, graph_module)):
        return  # of an eager backend: nothing is made of the graph, or changes it
    moment = tap.moment()
    _note_graph(tap, moment, GraphStage.DYNAMO, graph_module)
    record = moment.record
    if not record.is_eager:
        tap.install(AOT_HOOKS)
        record.program = graphs.fingerprint(graph_module)
        _hook_inductor_if_there(tap, record)


def _guards(tap: Tap, _result: Any, guard_manager: Any) -> None:
    tap.print_guards(guard_manager)


def _aot_graphs(place: Place, name: str, *stages: GraphStage) -> Hook:
    def observe(tap: Tap, _result: Any, *read: Any) -> None:
        *graph_modules, aot_config = read
        tap.attribution.remember(aot_config.aot_id, graph_modules[-1])
        for stage, graph_module in zip(stages, graph_modules, strict=True):
            _note_graph(tap, tap.moment(), stage, graph_module, is_sent=graphs.sends_records(aot_config))
        _hook_inductor_if_there(tap, tap.here())

    return after(place, name, observe)


def _post_grad_graph(tap: Tap, arguments: Arguments, original: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        record = None

        def enter() -> None:
            nonlocal record
            record = tap.here()
            record.depth += 1  # it calls itself for subgraphs

        def leave() -> None:
            (graph_module,) = arguments.of(args, kwargs)
            part = "backward" if graphs.is_backward(graph_module) else "forward"
            _note_graph(tap, tap.moment(), GraphStage.POST_GRAD, graph_module, part=part)
            tap.install(CODEGEN_HOOKS)  # code generation comes next, and imports these modules

        try:
            tap.safely("post-grad graph", enter)
            result = original(*args, **kwargs)
        finally:
            if record is not None:
                record.depth -= 1
        if record is not None and record.depth == 0:
            tap.safely("post-grad graph", leave)
        return result

    return hooked


# -- code generation and autotuning


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
        record.pending.append(tap.note("lens.autotune", inductor.choices_table(*values)))


def _triton_configs(tap: Tap, result: Any, tuner: Any) -> None:
    meta = inductor.triton_configs(tuner, result)
    # It runs at the first call, outside of any compilation: the tuner itself knows whose it is.
    event = tap.note_later("lens.triton_configs", meta, inductor.compile_id_of(tuner))
    entry = tap.cache_entries.get((event.run, meta["backward"]))
    if entry is not None:  # its graph was kept before its configs were timed
        sidecar.keep(entry, (event,), is_more=True)


# -- compiled graphs, new or from a cache


def _post_compile(tap: Tap, arguments: Arguments, original: Function) -> Function:
    def hooked(*args: Any, **kwargs: Any) -> Any:
        compiled: Any = None
        graph_kwargs: Any = None
        requested = False

        def before() -> None:
            nonlocal compiled, graph_kwargs, requested
            compiled, graph_kwargs = arguments.of(args, kwargs)
            requested = inductor.cudagraphs_requested(graph_kwargs)

        tap.safely("compiled graph", before)
        result = original(*args, **kwargs)
        if graph_kwargs is not None:
            tap.safely("compiled graph", _note_compiled, tap, compiled, graph_kwargs, requested)
        return result

    return hooked


def _note_compiled(tap: Tap, compiled: Any, graph_kwargs: Any, requested: bool) -> None:
    record = tap.here()
    pending, record.pending = record.pending, []
    record.refused = {}
    if inductor.TRITON_CONFIGS.module in sys.modules:  # its configs are timed at the first call
        tap.install(RUNTIME_HOOKS)
    if not record.sessions:
        return
    entry = sidecar.cache_entry(compiled)
    part = inductor.direction_of(compiled, graph_kwargs)
    # Inductor's own passes ran: the graph is new, else it came from a cache.
    if any(event.meta.get("stage") == GraphStage.POST_GRAD.value for event in pending):
        record.expected.add(OUTPUT_CODE_RECORD)
        tap.notice_missing(record)
        note_kernels(tap, pending)
        if entry is not None:
            with_settings = [*pending, Event(sidecar.TRACED_WITH, time.time(), meta=settings.unkeyed())]
            tap.safely("facts kept for warm runs", sidecar.keep, entry, with_settings)
    else:
        _recall(tap, entry, {(event.name, event.meta.get("stage")) for event in pending})
    outcome = inductor.cudagraph_outcome(compiled, graph_kwargs, requested=requested)
    event = tap.note("lens.cudagraph", {"part": part, "key": inductor.entry_name(compiled), **outcome})
    if entry is not None:
        tap.cache_entries[event.run, part == "backward"] = entry


def note_kernels(tap: Tap, pending: Iterable[Event]) -> None:
    """Note what code generation collected of its kernels, now that all is known."""
    for event in pending:
        if event.name in ("lens.kernel_nodes", "lens.fusion"):
            tap.note(event.name, event.meta)


def _recall(tap: Tap, entry: sidecar.Entry | None, known: set[tuple[str, Any]]) -> None:
    """Note what an earlier run kept of a cached graph."""

    def lacks(fact: str, reason: str) -> None:
        tap.note("lens.unavailable", {"fact": fact, "reason": reason})

    try:
        events = sidecar.recall(entry)
    except CaptureError as error:
        fact = "node origins, kernel nodes, what launches read and write, and autotuning of a cached graph"
        lacks(fact, f"{error}; clear the cache to record them")
        return
    program = tap.here().program
    for event in events:
        if event.name == sidecar.TRACED_WITH:
            for setting, value in settings.unkeyed().items():
                if (then := event.meta.get(setting, value)) != value:
                    tap.note("lens.cached_otherwise", {"setting": setting, "then": then, "now": value})
        elif event.meta.get("program", program) != program:
            reason = "the cached graph was compiled from other code, and its origins are of that"
            lacks("exact node origins of a cached graph", reason)
        elif (event.name, event.meta.get("stage")) not in known:
            tap.note(event.name, event.meta, event.text, cached=True)


# -- which go in together

DYNAMO_HOOKS = (
    Hook(structured_trace.STACK, _stack),
    Hook(structured_trace.TIMED_EVENTS, _timed),
    Hook(dynamo.FRAME, _frame),
    before(dynamo.DYNAMO_GRAPH, "Dynamo graph", _dynamo_graph),
    after(dynamo.GUARDS, "guards", _guards),
)
AOT_HOOKS = (  # an eager backend comes to none of them
    _aot_graphs(graphs.AOT_JOINT, "AOT joint graph", GraphStage.AOT_JOINT),
    _aot_graphs(graphs.AOT_TRAINING, "AOT graphs", GraphStage.AOT_FORWARD, GraphStage.AOT_BACKWARD),
    _aot_graphs(graphs.AOT_INFERENCE, "AOT graph", GraphStage.AOT_INFERENCE),
)
SETTING_HOOKS = (Hook(settings.SET, _setting), Hook(settings.TAKEN_BACK, _setting))
INDUCTOR_HOOKS = (Hook(inductor.POST_GRAD, _post_grad_graph), Hook(inductor.POST_COMPILE, _post_compile))
CODEGEN_HOOKS = (
    *(before(place, "kernel nodes", _kernel_nodes) for place in inductor.KERNEL_NODES),
    after(scheduler.FUSED, "fusion", _fused),
    before(scheduler.NOT_FUSED, "fusion", _not_fused),
    before(inductor.CHOICES, "autotuning", _choices),
)
RUNTIME_HOOKS = (
    after(inductor.TRITON_CONFIGS, "Triton configs", _triton_configs),
    after(inductor.TRITON_DESCENT, "coordinate descent", _triton_configs),
)
