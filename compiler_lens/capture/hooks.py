"""What each hook round a function of torch's observes: frames and graphs. Inductor's are in `hooks_inductor`.

The tables at the end say which are put in together.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from compiler_lens.capture import graphs, sources
from compiler_lens.capture.hooks_inductor import CODEGEN_HOOKS, post_compile
from compiler_lens.capture.patches import Function, Hook, as_if_it_were, observe_after, observe_before
from compiler_lens.capture.torch_api import compat
from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.ids import GraphStage
from compiler_lens.recording.resume_names import plain_function

if TYPE_CHECKING:
    from compiler_lens.capture.session import Session
    from compiler_lens.capture.tap import Tap

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
    method = plain_function(code.co_name)
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


def _note_graph(tap: Tap, stage: GraphStage, graph_module: Any, *, with_stacks: bool = False, **meta: Any) -> None:
    record = tap.here()
    if not record.sessions:
        return
    text = graphs.node_facts(graph_module, with_stacks=with_stacks)
    receiver = {"receiver": record.facts["receiver"]} if "receiver" in record.facts else {}
    event = tap.note("lens.node_facts", {"stage": stage.value, "program": record.program, **receiver, **meta}, text)
    if with_stacks:
        tap.tell_sources(sources.files_named(text))
    if stage is not GraphStage.DYNAMO:  # Dynamo runs on a warm cache too
        record.pending.append(event)


def _dynamo_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        graph_module = kwargs["gm"] if "gm" in kwargs else args[1]
        _note_graph(tap, GraphStage.DYNAMO, graph_module, with_stacks=True)
        tap.here().program = graphs.fingerprint(graph_module)
        _hook_inductor_if_there(tap)

    return observe_before("Dynamo graph", tap.safely, observe)(original)


def _hook_inductor_if_there(tap: Tap) -> None:
    # A backend of somebody's own may call Inductor in the end: its name does not tell.
    if tap.here().sessions and compat.POST_GRAD.module in sys.modules:
        tap.install(INDUCTOR_HOOKS)


def _joint_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        _note_graph(tap, GraphStage.AOT_JOINT, args[0])
        _hook_inductor_if_there(tap)

    return observe_after("AOT joint graph", tap.safely, observe)(original)


def _training_graphs(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        _note_graph(tap, GraphStage.AOT_FORWARD, args[0])
        _note_graph(tap, GraphStage.AOT_BACKWARD, args[1])

    return observe_after("AOT graphs", tap.safely, observe)(original)


def _inference_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], _kwargs: dict[str, Any], _result: Any) -> None:
        _note_graph(tap, GraphStage.AOT_INFERENCE, args[0])
        _hook_inductor_if_there(tap)

    return observe_after("AOT graph", tap.safely, observe)(original)


def _post_grad_graph(tap: Tap, original: Function) -> Function:
    def observe(args: tuple[Any, ...], kwargs: dict[str, Any], _result: Any) -> None:
        graph_module = kwargs["gm"] if "gm" in kwargs else args[0]
        part = "backward" if graphs.is_backward(graph_module) else "forward"
        _note_graph(tap, GraphStage.POST_GRAD, graph_module, part=part)
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


DYNAMO_HOOKS = (
    Hook(compat.FRAME, _frame_hook),
    Hook(compat.DYNAMO_GRAPH, _dynamo_graph),
    Hook(compat.JOINT_GRAPH, _joint_graph),
    Hook(compat.TRAINING_GRAPHS, _training_graphs),
    Hook(compat.INFERENCE_GRAPH, _inference_graph),
)
INDUCTOR_HOOKS = (
    Hook(compat.POST_GRAD, _post_grad_graph),
    Hook(compat.POST_COMPILE, post_compile),
)
