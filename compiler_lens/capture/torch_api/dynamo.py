"""Dynamo: frames and the compilations that they lead to, backends, and what the process has compiled."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Mapping
from types import CodeType, MethodType
from typing import Any

from compiler_lens.capture.torch_api import versions
from compiler_lens.capture.torch_api.places import Place
from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.torch_names import DISPATCH_MODE, TRACING_DISABLED

FRAME = Place(
    "torch._dynamo.convert_frame",
    "CatchErrorsWrapper.__call__",
    "how each frame ended, and whose it is",
    ("self", "frame"),
    needs=("torch._dynamo.types:ConvertFrameReturn.guarded_code",),
)
DYNAMO_GRAPH = Place(
    "torch._dynamo.output_graph", "OutputGraph.call_user_compiler", "modules and stacks of Dynamo nodes", ("gm",)
)
# The last step of building guards. CheckFunctionManager in torch/_dynamo/guards.py then times them, and for that fills
# 32 MB of memory: whatever runs from there to the end of the frame finds no cache of the processor's warm.
GUARDS = Place("torch._dynamo.guards", "GuardManagerWrapper.finalize", "guards, printed in less time", ("self",))
# What torch.compile gives for a function; of a module the function that its forward then is.
COMPILED = Place("torch._dynamo.eval_frame", "OptimizeContext.__call__", "calls of compiled functions", ("self", "fn"))
BACKWARD = Place("torch.autograd", "backward", "gradients after each backward")

# They warn of breaks, recompile limits and failures.
LOGGERS = ("torch._dynamo", "torch._subclasses", "torch.fx")


# -- frames and compilations

_GUARDS = "torch._guards"  # torch imports it; an import statement would run dozens of times in a compilation


def thread_state() -> Any:
    """Return what holds a thread's CompileContext, as `compile_context`, where one is current."""
    return sys.modules[_GUARDS]._TLS


def compile_context() -> Any:
    """Return the current CompileContext (its object is the same when a backward is compiled later), or None."""
    # What CompileContext.try_get() returns, without its frame: each hook asks.
    context = getattr(sys.modules[_GUARDS]._TLS, "compile_context", None)
    return None if context is None or context.compile_id is None else context


def tracing_context() -> Any:
    """Return the current TracingContext, or None."""
    return sys.modules[_GUARDS].TracingContext.try_get()


def torch_id(context: Any) -> tuple[int | None, int | None, int | None]:
    """Return frame, recompile and compiled-autograd number of a CompileContext."""
    compile_id = context.compile_id
    return compile_id.frame_id, compile_id.frame_compile_id, getattr(compile_id, "compiled_autograd_id", None)


def frame_result(result: Any, callback: Any, frame: Any) -> tuple[bool, str]:
    """Return whether a frame got compiled code, from what the frame callback returns; and why it was passed over."""
    has_code = getattr(result, "guarded_code", None) is not None
    if has_code or hasattr(result, "skip_reason"):
        return has_code, getattr(result, "skip_reason", None) or ""
    return False, _why_passed_over(callback, frame)  # torch 2.11 does not say why; 2.13 and later do


def _why_passed_over(callback: Any, frame: Any) -> str:
    """Return why torch 2.11 looks no further at a frame, by what it asks in this order; empty where that is no news.

    In the words of later torches.
    CatchErrorsWrapper.__call__() in torch/_dynamo/convert_frame.py.
    """
    asked = vars(sys.modules[FRAME.module])
    walks = getattr(asked["config"], "inline_torch_dispatch_torch_compile", False)
    mode = "any_torch_dispatch_mode_on_stack" if walks else "is_in_any_mode_without_ignore_compile_internals"
    if not asked.keys() >= {"first_real_inst_idx", "trace_rules", mode}:
        return ""
    first = asked["first_real_inst_idx"](frame.f_code)
    has_begun = frame.f_lasti > first if sys.version_info >= (3, 13) else frame.f_lasti >= first
    if has_begun or asked["trace_rules"].check(frame.f_code):
        return ""
    if asked["config"].disable:
        return TRACING_DISABLED
    is_export = getattr(callback._torchdynamo_orig_backend, "_export", False)
    return DISPATCH_MODE if asked[mode]() and not is_export else ""


def module_class(value: Any) -> str:
    """Return the class name of a module, empty for anything else."""
    torch = sys.modules["torch"]  # what asks compiles, several times a frame
    # Not isinstance: a value's own `__class__` may be a property of the user's.
    return type(value).__name__ if issubclass(type(value), torch.nn.Module) else ""


def wrapped_module(code: CodeType, values: Mapping[str, Any]) -> Any:
    """Return the module that torch compiles through a wrapper of its own, inner(fn) in external_utils.py; or None."""
    value = _wrapped(code, values)
    value = value.__self__ if type(value) is MethodType and _is_torchs(value) else value
    return value if module_class(value) else None


def wrapped_method(code: CodeType, values: Mapping[str, Any]) -> MethodType | None:
    """Return the method of the author's that torch compiles through that wrapper; None: it is a module's call."""
    value = _wrapped(code, values)
    return value if type(value) is MethodType and not _is_torchs(value) else None


def _wrapped(code: CodeType, values: Mapping[str, Any]) -> Any:
    return values.get("fn") if code.co_filename.endswith(WRAPPER_FILE) else None


def _is_torchs(method: MethodType) -> bool:
    """Return whether a module has a method from torch, as `_call_impl` is, which `Module.compile` gives."""
    torch = sys.modules["torch"]
    return any(one is method.__func__ for one in vars(torch.nn.Module).values())


# -- backends


def innermost_backend(callback: Any) -> Any:
    """Return what is under Dynamo's wrappers: a _TorchCompileWrapper, an Inductor wrapper or a callable."""
    for _ in range(20):
        inner = getattr(callback, "_torchdynamo_orig_backend", None)
        if inner is None:
            break
        callback = inner
    return callback


def compiler_of(backend: Any) -> Any:
    """Return the callable that a user gave as backend: a _TorchCompileWrapper holds it."""
    return getattr(backend, "compiler_fn", backend)


def is_eager(backend: Any) -> bool:
    """Return whether a backend is torch's own `eager`, which computes nothing: it returns the graph's forward."""
    debugging = sys.modules.get("torch._dynamo.backends.debugging")
    return debugging is not None and compiler_of(backend) is vars(debugging).get("eager")


def backend_name(backend: Any) -> str:
    """Return what a backend is called."""
    compiler = compiler_of(backend)
    name = getattr(backend, "compiler_name", None) or getattr(compiler, "__name__", None) or type(compiler).__name__
    return str(name)[:100]


_EVERY_LENS = "compiler_lens, any"


class _EqualsEveryLens:
    """Stands in torch's registry for all lenses, without keeping one alive."""

    _tags = ()
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, is_lens: Callable[[Any], bool]) -> None:
        self._is_lens = is_lens

    def __eq__(self, other: object) -> bool:
        return self._is_lens(other)


def register_lenses(is_lens: Callable[[Any], bool]) -> None:
    """Have torch treat a lens as a backend of its own: after a compilation it lets go of example tensors only then.

    _is_registered_backend() in torch/_dynamo/backends/registry.py compares with the registry's values.
    """
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS[_EVERY_LENS] = _EqualsEveryLens(is_lens)


def forget_lenses() -> None:
    """Take back `register_lenses`."""
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS.pop(_EVERY_LENS, None)


def registered_backend(name: str) -> Any:
    """Return the object that torch loaded for a backend's name, or None before anybody asked for it."""
    from torch._dynamo.backends import registry

    return registry._COMPILER_FNS.get(name)


def frames_left_out() -> list[list[Any]]:
    """Return the frames of the graph break that is being told, if its text has not all of them; else none.

    Of callers of one name that follow one another torch tells the last alone: collapse_resume_frames() in
    torch/_dynamo/utils.py. Each as file, line, function, code, the outermost first, from the frame that compiles on.
    """
    stack = getattr(sys.exc_info()[1], "real_stack", None) or ()
    names = [frame.name for frame in stack]
    if not any(map(operator.eq, names, names[1:])):
        return []
    return [[frame.filename, frame.lineno, frame.name, frame.line or ""] for frame in stack]


# -- what the process has compiled


def forget_compiled_code() -> None:
    """Drop all compiled code of the process: it compiles again when it is next called."""
    import torch

    torch._dynamo.reset_code_caches()


def counts() -> tuple[Any, Any]:
    """Return the tables in which torch counts what it compiles: its counters, and its reasons of graph breaks."""
    import torch

    return torch._dynamo.utils.counters, torch._dynamo.utils.graph_break_reasons


def kept_sizes() -> Callable[[], None]:
    """Return a function that makes torch forget again what it learns from now on of sizes that vary."""
    from torch._dynamo import pgo

    if not versions.SIZES_LEARNED.is_here:
        return lambda: None
    kept = pgo._CODE_STATE
    return lambda: setattr(pgo, "_CODE_STATE", kept)


def mark_dynamic(tensor: Any, dimension: int) -> None:
    """Mark a dimension of a tensor as one that varies."""
    import torch

    torch._dynamo.mark_dynamic(tensor, dimension)


def as_written(model: Any) -> tuple[Any, bool | None]:
    """Return the model under torch.compile's wrapper, if it has one, and the `dynamic` that it was compiled with."""
    import torch

    if isinstance(model, torch._dynamo.OptimizedModule):
        return model._orig_mod, getattr(model.dynamo_ctx, "_dynamic", None)
    # What wraps a compiled function, or hands attributes on, seems to have the others, too; but not the id.
    if getattr(model, "_torchdynamo_wrapper_id", None) != id(model):
        return model, None
    closure = dict(zip(model.__code__.co_freevars, model.__closure__ or (), strict=True))
    context = closure["self"].cell_contents if "self" in closure else None
    return model._torchdynamo_orig_callable, getattr(context, "_dynamic", None)


def in_place_of(wrapper: Any, compiled: Any) -> Any:
    """Return a function that goes round one that torch.compile made, so that torch takes it for that."""
    vars(wrapper).update(vars(compiled), _torchdynamo_wrapper_id=id(wrapper))
    return wrapper


def is_compiled(value: Any) -> bool:
    """Return whether torch.compile made this module or function, or compiled it in place by `Module.compile()`."""
    import torch

    if isinstance(value, torch._dynamo.OptimizedModule):
        return True
    if callable(value) and hasattr(value, "_torchdynamo_orig_callable"):
        return True
    return isinstance(value, torch.nn.Module) and getattr(value, "_compiled_call_impl", None) is not None


def inner_error(error: BaseException) -> BaseException | None:
    """Return the exception that torch raised another one in place of."""
    import torch

    inner = getattr(error, "inner_exception", None)
    if isinstance(inner, BaseException):
        return inner
    if not isinstance(error, torch._dynamo.exc.TorchRuntimeError):
        return None
    # An op that fails on fake tensors: torch/_dynamo/utils.py says it as "... got RuntimeError('...')", and chains it.
    message = str(error)
    seen: set[int] = set()
    before: BaseException | None = error.__cause__ or error.__context__
    while before is not None and id(before) not in seen:
        if f"got {before!r}" in message:
            return before
        seen.add(id(before))
        before = before.__cause__ or before.__context__
    return None
