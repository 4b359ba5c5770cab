"""What a program asks of torch.compile beside a call: what is to be compiled, and the stance towards compiling."""

from __future__ import annotations

import dis
import multiprocessing
import sys
from collections.abc import Callable, Mapping
from types import FrameType, FunctionType, MethodType
from typing import Any

from compiler_lens.capture.torch_api.dynamo import compiler_of, innermost_backend
from compiler_lens.capture.torch_api.places import Place

# torch.compile() and Module.compile() end in it, once for each thing that they are given.
COMPILE = Place(
    "torch._dynamo.eval_frame",
    "_TorchDynamoContext.__call__",
    "what torch.compile was given and never called",
    ("self", "fn"),
)
# The function, context manager and decorator set_stance call it under this name.
STANCE = Place("torch._dynamo.decorators", "_set_stance", "stances of torch.compiler.set_stance", ("stance",))
# Every call of a compiled function asks it what to do: hooked while a stance makes all of them eager, or a hook of a
# module that came late waits for the next, and no longer.
CALLS = Place(
    "torch._dynamo.eval_frame",
    "_callback_from_stance",
    "calls that a stance makes eager, and leave out hooks",
    ("callback",),
)
_SKIPPED, _DROPS = dis.opmap.get("CACHE", -1), dis.opmap["POP_TOP"]  # what stands between instructions is none
_WRAPPERS = "torch/_dynamo/eval_frame.py"  # of what torch.compile was given: each has it as `fn`
_CALLS = ("__call__", "_wrapped_call_impl", "_call_impl")  # of a module
_DEEPEST = 12  # frames of ours and of torch's between that wrapper and an observer
# Workers of a DataLoader, and ranks that torch.multiprocessing.spawn starts, are such, too.
CHILD = Place("multiprocessing.process", "BaseProcess.start", "child processes", ("self",))


def backend_of(context: Any) -> Any:
    """Return the backend that a context compiles with; None for one that compiles nothing."""
    kind = sys.modules[COMPILE.module].OptimizeContext  # the hook is there
    return compiler_of(innermost_backend(context.callback)) if isinstance(context, kind) else None


def called() -> Any:
    """Return the module or function that was given to torch.compile and is called now; None if that is not known."""
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None:
            break
        if "fn" in frame.f_code.co_freevars and frame.f_code.co_filename.endswith(_WRAPPERS):
            return whose_call(frame.f_locals.get("fn"))
        frame = frame.f_back
    return None


def whose_call(function: Any) -> Any:
    """Return the module of which this is the call; any other function as it is."""
    torch = sys.modules["torch"]  # who calls torch.compile has it
    owner = getattr(function, "__self__", None)
    is_call = issubclass(type(owner), torch.nn.Module) and getattr(function, "__name__", "") in _CALLS
    return owner if is_call else function


def module_in(wrapped: Any) -> Any:
    """Return the module that torch.compile was given, also by `Module.compile()`; None for anything else."""
    torch = sys.modules["torch"]  # who calls torch.compile has it
    if type(wrapped) is MethodType and wrapped.__func__ is torch.nn.Module._call_impl:
        wrapped = wrapped.__self__
    return wrapped if issubclass(type(wrapped), torch.nn.Module) else None


def asker() -> FrameType | None:
    """Return the frame that calls torch.compile now; None if none does."""
    made = getattr(sys.modules["torch"].compile, "__code__", None)
    frame: FrameType | None = sys._getframe(1)
    for _ in range(_DEEPEST):
        if frame is None or frame.f_code is made:
            break
        frame = frame.f_back
    return frame.f_back if frame is not None and frame.f_code is made else None


def is_disabled() -> bool:
    """Return whether a setting of Dynamo's has every call of what torch.compile makes run eagerly."""
    import torch

    return bool(torch._dynamo.config.disable)


def is_dropped(frame: FrameType) -> bool:
    """Return whether a frame does nothing with what its call returns that is under way, by its next step."""
    steps, at = frame.f_code.co_code, frame.f_lasti + 2
    while at < len(steps) and steps[at] == _SKIPPED:
        at += 2
    return at < len(steps) and steps[at] == _DROPS


def other_methods(module: Any, is_wanted: Callable[[FunctionType], bool]) -> list[str]:
    """Return a module's methods, of those that are wanted, that do not go through its call, as far as names tell."""
    import torch

    kinds = [kind for kind in type(module).__mro__ if not issubclass(torch.nn.Module, kind)]
    found = [one for kind in kinds for one in vars(kind).items() if type(one[1]) is FunctionType]
    names = [name for name, method in found if is_wanted(method)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_") and name != "forward"]


def forks(process: Any) -> bool:
    """Return whether a process of multiprocessing's begins as a copy of this one, with our hooks in it."""
    method = type(process)._start_method or multiprocessing.get_start_method(allow_none=True)
    return bool(method == "fork")


def stance_in_force() -> Any:
    """Return the stance that is in force; None where this torch does not tell, or nothing of Dynamo is imported."""
    return getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None)


def forces_eager(stance: Any) -> bool:
    """Return whether nothing at all runs compiled under a stance."""
    return stance is not None and bool(stance.stance == "force_eager")


# The facts of the stance that torch begins with.
DEFAULT: Mapping[str, Any] = {"name": "default", "skips_guards": False, "backend": ""}


def stance_facts(stance: Any) -> dict[str, Any]:
    """Return a stance as plain values."""
    backend = stance.backend
    name = "" if backend is None else str(getattr(backend, "__name__", backend))[:100]
    return {"name": str(stance.stance), "skips_guards": bool(stance.skip_guard_eval_unsafe), "backend": name}
