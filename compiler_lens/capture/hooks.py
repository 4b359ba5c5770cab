"""What each hook round a function of torch's observes.

The tables at the end say when they are put in: importing Inductor's parts is slow, and a warm cache needs few of
them, so each is hooked when the compilation at hand is about to import it.
"""

from __future__ import annotations

import functools
import inspect
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from compiler_lens.capture import compat, fusion, graphs, inductor, sidecar, sources
from compiler_lens.capture.compat import Place
from compiler_lens.capture.patches import as_if_it_were, observe_after, observe_before
from compiler_lens.event import WRAPPER_FILE, Event

if TYPE_CHECKING:
    from compiler_lens.capture.attribution import FrameRecord
    from compiler_lens.capture.session import Session
    from compiler_lens.capture.tap import Tap

Function = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Hook:
    """A place in torch, and how to wrap what is there."""

    place: Place
    make: Callable[[Tap, Function], Function]


# -- frames


def _frame_hook(tap: Tap, original: Function) -> Function:
    @functools.wraps(original)
    def hooked(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        record = None
        frames = tap.local.frames
        around = len(frames)

        def enter() -> None:
            nonlocal record
            backend = compat.innermost_backend(self)
            compiler = getattr(backend, "compiler_fn", backend)
            facts = _frame_facts(frame, backend, compiler)
            record = tap.enter(facts, owner_of(compiler), is_inductor=_is_inductor(backend, compiler))
            tap.safely("names", lambda: facts.update(_names(frame)))  # apart: a frame without a name is a frame

        try:
            if tap.sessions:  # else somebody wrapped this hook, and it could not be taken out
                tap.safely("frame", enter)
            result = original(self, frame, *args, **kwargs)
        except BaseException as error:
            _leave(tap, record, functools.partial(_frame_error, error))
            raise
        else:
            _leave(tap, record, functools.partial(_frame_result, frame.f_code.co_filename, result))
            return result
        finally:
            del frames[around:]

    return as_if_it_were(hooked, original)


def _leave(tap: Tap, record: Any, meta: Callable[[], Mapping[str, Any]]) -> None:
    if record is not None:
        tap.safely("frame", lambda: tap.leave(record, meta()))


def _frame_error(error: BaseException) -> dict[str, Any]:
    return {"result": "error", "reason": f"{type(error).__name__}: {error}"[:2000]}


def _frame_result(file: str, result: Any) -> dict[str, Any]:
    has_code = getattr(result, "guarded_code", None) is not None
    reason = getattr(result, "skip_reason", None) or ""  # 2.11 has none
    is_no_news = reason in _NO_NEWS or (reason == _NO_TENSORS and not sources.is_kept(file))
    return {"result": "code" if has_code else "none", "reason": "" if is_no_news else reason}


# Frames that Dynamo passes over by design: torch's own and the standard library's, and frames already running.
_NO_NEWS = frozenset(("frame is in the Dynamo skipfiles list", "frame has already started executing"))
# It looks into everything that runs below a compiled call, also what the garbage collector happens to call there.
_NO_TENSORS = "no tensor-related objects found in frame"


def owner_of(compiler: Any) -> Session | None:
    """The session of a lens that is somebody's backend; None for any other backend."""
    from compiler_lens.capture.session import Session

    session = getattr(compiler, "_session", None)
    return session if isinstance(session, Session) else None


def _is_inductor(backend: Any, compiler: Any) -> bool:
    name = getattr(backend, "compiler_name", "")
    return name == "inductor" or hasattr(compiler, "_session") or "inductor" in str(name)


def _frame_facts(frame: Any, backend: Any, compiler: Any) -> dict[str, Any]:
    code = frame.f_code
    mode, options = compat.mode_and_options(backend)
    return {
        "function": code.co_name,
        "file": code.co_filename,
        "line": code.co_firstlineno,
        "backend": "inductor" if owner_of(compiler) else _backend_name(backend, compiler),
        "mode": mode,
        "options": {str(key): repr(value)[:200] for key, value in options.items()},
        "dynamic": getattr(backend, "dynamic", None),
    }


def _names(frame: Any) -> dict[str, Any]:
    """What the author calls it."""
    return {"module": _module_name(frame), "receiver": _receiver_name(frame), **sources.definition(frame)}


def _module_name(frame: Any) -> str:
    """The class of the module whose frame it is."""
    name = _receiver_name(frame) or "self"
    is_there = name in frame.f_code.co_varnames + frame.f_code.co_freevars
    return compat.module_class(frame.f_locals.get(name)) if is_there else ""


def _receiver_name(frame: Any) -> str:
    """What a method calls its object, `self` as a rule; `fn` in torch's wrapper around a module; else empty."""
    code = frame.f_code
    if code.co_filename.endswith(WRAPPER_FILE):
        return "fn"
    method = sources.plain_name(code.co_name)
    for name in code.co_varnames[: code.co_argcount]:  # a resume function has its values of the stack before them
        chain = sources.decorated(inspect.getattr_static(type(frame.f_locals.get(name)), method, None))
        theirs = chain[-1].__code__ if chain else None
        if theirs is not None and theirs.co_varnames[: min(theirs.co_argcount, 1)] == (name,):
            return str(name)
    return ""


def _backend_name(backend: Any, compiler: Any) -> str:
    name = getattr(backend, "compiler_name", None) or getattr(compiler, "__name__", None) or type(compiler).__name__
    return str(name)[:100]


# -- graphs


def _note_graph(tap: Tap, stage: str, graph_module: Any, *, with_stacks: bool = False, **meta: Any) -> None:
    record = tap.here()
    if not record.sessions:
        return
    text = graphs.node_facts(graph_module, with_stacks=with_stacks)
    receiver = {"receiver": record.facts["receiver"]} if "receiver" in record.facts else {}
    event = tap.note("lens.node_facts", {"stage": stage, "program": record.program, **receiver, **meta}, text)
    if with_stacks:
        tap.tell_sources(sources.files_named(text))
    if stage != "dynamo":  # Dynamo runs on a warm cache too
        record.pending.append(event)


def _dynamo_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        graph_module = kwargs["gm"] if "gm" in kwargs else args[1]
        _note_graph(tap, "dynamo", graph_module, with_stacks=True)
        tap.here().program = graphs.fingerprint(graph_module)
        _hook_inductor_if_there(tap)

    return observe_before("Dynamo graph", tap.safely, observe)(original)


def _hook_inductor_if_there(tap: Tap) -> None:
    # A backend of somebody's own may call Inductor in the end: its name does not tell.
    if tap.here().sessions and compat.POST_GRAD.module in sys.modules:
        tap.install(INDUCTOR_HOOKS)


def _joint_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        _note_graph(tap, "joint", args[0])
        _hook_inductor_if_there(tap)

    return observe_after("AOT joint graph", tap.safely, observe)(original)


def _training_graphs(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        _note_graph(tap, "forward", args[0])
        _note_graph(tap, "backward", args[1])

    return observe_after("AOT graphs", tap.safely, observe)(original)


def _inference_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        _note_graph(tap, "inference", args[0])
        _hook_inductor_if_there(tap)

    return observe_after("AOT graph", tap.safely, observe)(original)


def _post_grad_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        graph_module = kwargs["gm"] if "gm" in kwargs else args[0]
        part = "backward" if graphs.is_backward(graph_module) else "forward"
        _note_graph(tap, "post_grad", graph_module, part=part)
        tap.install(CODEGEN_HOOKS)  # code generation comes next, and imports these modules

    @functools.wraps(original)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        record = None

        def enter() -> None:
            nonlocal record
            record = tap.here()
            record.depth += 1  # it calls itself for subgraphs

        def leave() -> None:
            if record is not None:
                record.depth -= 1

        tap.safely("post-grad graph", enter)
        try:
            result = original(*args, **kwargs)
        finally:
            leave()
        if record is not None and record.depth == 0:
            tap.safely("post-grad graph", lambda: observe(args, kwargs, result))
        return result

    return hooked


# -- Inductor


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


def _post_compile(tap: Tap, original: Function) -> Function:
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
    if any(event.meta.get("stage") == "post_grad" for event in pending):
        for event in pending:
            if event.name in ("lens.kernel_nodes", "lens.fusion"):
                tap.note(event.name, event.meta)
        if key is not None:
            tap.safely("facts kept for warm runs", functools.partial(sidecar.write, key, pending))
    else:
        _recall(tap, key, {(event.name, event.meta.get("stage")) for event in pending})
    event = tap.note("lens.cudagraph", inductor.cudagraph_state(compiled, graph_kwargs, part=part, requested=requested))
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


DYNAMO_HOOKS = (
    Hook(compat.FRAME, _frame_hook),
    Hook(compat.DYNAMO_GRAPH, _dynamo_graph),
    Hook(compat.JOINT_GRAPH, _joint_graph),
    Hook(compat.TRAINING_GRAPHS, _training_graphs),
    Hook(compat.INFERENCE_GRAPH, _inference_graph),
)
INDUCTOR_HOOKS = (
    Hook(compat.POST_GRAD, _post_grad_graph),
    Hook(compat.POST_COMPILE, _post_compile),
)
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
