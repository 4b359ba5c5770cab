"""What each hook round a function of torch observes: frames and graphs. Inductor's are in `hooks_inductor`.

The tables at the end say which are put in together.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from typing import Any

from compiler_lens.capture import sources
from compiler_lens.capture.hooks_inductor import CODEGEN_HOOKS, post_compile
from compiler_lens.capture.patches import Function, Hook, as_if_it_were, observe_after, observe_before
from compiler_lens.capture.session import owner_of
from compiler_lens.capture.tap import Tap
from compiler_lens.capture.torch_api import aotautograd, dynamo, graphs, inductor, settings
from compiler_lens.capture.torch_api.places import Arguments
from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.ids import GraphStage
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.torch_names import GRAPH_RECORDS

# -- frames


def _frame(tap: Tap, _arguments: Arguments, original: Function) -> Function:
    @functools.wraps(original)
    def hooked(self: Any, frame: Any, *args: Any, **kwargs: Any) -> Any:
        record = None
        frames = tap.local.frames
        around = len(frames)

        def enter() -> None:
            nonlocal record
            backend = dynamo.innermost_backend(self)
            owner = owner_of(dynamo.compiler_of(backend))
            facts = _frame_facts(frame, backend, is_ours=owner is not None)
            record = tap.enter(facts, owner)
            if record.sessions:  # Dynamo's own for those whose module was half imported when the lens opened
                is_inductor = "inductor" in dynamo.backend_name(backend) or owner is not None
                tap.install((*DYNAMO_HOOKS, *INDUCTOR_HOOKS) if is_inductor else DYNAMO_HOOKS)
            tap.safely("names", lambda: facts.update(_names(frame)))  # apart: a frame without a name is a frame

        def leave(meta: Callable[[], Mapping[str, Any]]) -> None:
            if record is not None:
                tap.safely("frame", lambda: tap.leave(record, meta()))

        try:
            if tap.sessions:  # else somebody wrapped this hook, and it could not be taken out
                tap.safely("frame", enter)
            result = original(self, frame, *args, **kwargs)
        except BaseException as error:
            leave(functools.partial(_frame_error, error))
            raise
        else:
            leave(functools.partial(_frame_result, frame.f_code.co_filename, result))
            return result
        finally:
            del frames[around:]

    return as_if_it_were(hooked, original)


def _frame_error(error: BaseException) -> dict[str, Any]:
    return {"result": "error", "reason": f"{type(error).__name__}: {error}"[:2000]}


def _frame_result(file: str, result: Any) -> dict[str, Any]:
    has_code, reason = dynamo.frame_result(result)
    is_no_news = reason in _NO_NEWS or (reason == _NO_TENSORS and not sources.is_kept(file))
    return {"result": "code" if has_code else "none", "reason": "" if is_no_news else reason}


# Frames that Dynamo passes over by design: torch's own and the standard library's, and frames already running.
_NO_NEWS = frozenset(("frame is in the Dynamo skipfiles list", "frame has already started executing"))
# It looks into everything that runs below a compiled call, also what the garbage collector happens to call there.
_NO_TENSORS = "no tensor-related objects found in frame"


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


def _names(frame: Any) -> dict[str, Any]:
    """What the author calls it: the class of the module whose frame it is, its object, the function."""
    receiver = _receiver_name(frame)
    name = receiver or "self"
    is_there = name in frame.f_code.co_varnames + frame.f_code.co_freevars
    module = dynamo.module_class(frame.f_locals.get(name)) if is_there else ""
    return {"module": module, "receiver": receiver, **sources.definition(frame)}


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


# -- graphs

_RECORDS = {stage: name for name, stage in GRAPH_RECORDS.items()}


def _note_graph(tap: Tap, stage: GraphStage, graph_module: Any, *, is_sent: bool = True, **meta: Any) -> None:
    record = tap.here()
    if not record.sessions:
        return
    if is_sent:
        record.expected.add(_RECORDS[stage])
    with_stacks = stage is GraphStage.DYNAMO
    text = graphs.node_facts(graph_module, with_stacks=with_stacks)
    receiver = {"receiver": record.facts["receiver"]} if "receiver" in record.facts else {}
    event = tap.note("lens.node_facts", {"stage": stage.value, "program": record.program, **receiver, **meta}, text)
    if with_stacks:
        tap.keep_sources(sources.files_named(text))
    else:  # Dynamo runs on a warm cache too
        record.pending.append(event)


def _hook_inductor_if_there(tap: Tap) -> None:
    # A backend of somebody's own may call Inductor in the end: its name does not tell.
    if tap.here().sessions and inductor.POST_GRAD.module in sys.modules:
        tap.install(INDUCTOR_HOOKS)


def _dynamo_graph(tap: Tap, graph_module: Any) -> None:
    _note_graph(tap, GraphStage.DYNAMO, graph_module)
    tap.here().program = graphs.fingerprint(graph_module)
    _hook_inductor_if_there(tap)


def _joint_graph(tap: Tap, _result: Any, graph_module: Any, aot_config: Any) -> None:
    _note_graph(tap, GraphStage.AOT_JOINT, graph_module, is_sent=aotautograd.sends_records(aot_config))
    _hook_inductor_if_there(tap)


def _training_graphs(tap: Tap, _result: Any, forward: Any, backward: Any, aot_config: Any) -> None:
    is_sent = aotautograd.sends_records(aot_config)
    _note_graph(tap, GraphStage.AOT_FORWARD, forward, is_sent=is_sent)
    _note_graph(tap, GraphStage.AOT_BACKWARD, backward, is_sent=is_sent)


def _inference_graph(tap: Tap, _result: Any, graph_module: Any, aot_config: Any) -> None:
    _note_graph(tap, GraphStage.AOT_INFERENCE, graph_module, is_sent=aotautograd.sends_records(aot_config))
    _hook_inductor_if_there(tap)


def _post_grad_graph(tap: Tap, arguments: Arguments, original: Function) -> Function:
    def observe(graph_module: Any) -> None:
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

        tap.safely("post-grad graph", enter)
        try:
            result = original(*args, **kwargs)
        finally:
            if record is not None:
                record.depth -= 1
        if record is not None and record.depth == 0:
            tap.safely("post-grad graph", lambda: observe(*arguments.of(args, kwargs)))
        return result

    return hooked


DYNAMO_HOOKS = (
    Hook(dynamo.FRAME, _frame),
    Hook(dynamo.DYNAMO_GRAPH, observe_before("Dynamo graph", _dynamo_graph)),
    Hook(aotautograd.JOINT_GRAPH, observe_after("AOT joint graph", _joint_graph)),
    Hook(aotautograd.TRAINING_GRAPHS, observe_after("AOT graphs", _training_graphs)),
    Hook(aotautograd.INFERENCE_GRAPH, observe_after("AOT graph", _inference_graph)),
)
INDUCTOR_HOOKS = (
    Hook(inductor.POST_GRAD, _post_grad_graph),
    Hook(inductor.POST_COMPILE, post_compile),
)
