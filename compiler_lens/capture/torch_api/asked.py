"""What a program asks of torch.compile beside a call: what is to be compiled, and the stance towards compiling."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
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
# Workers of a DataLoader, and ranks that torch.multiprocessing.spawn starts, are such, too.
CHILD = Place("multiprocessing.process", "BaseProcess.start", "child processes")


def backend_of(context: Any) -> Any:
    """Return the backend that a context compiles with; None for one that compiles nothing."""
    from torch._dynamo.eval_frame import OptimizeContext

    return compiler_of(innermost_backend(context.callback)) if isinstance(context, OptimizeContext) else None


def module_in(wrapped: Any) -> Any:
    """Return the module that torch.compile was given, also by `Module.compile()`; None for anything else."""
    import torch

    if getattr(wrapped, "__func__", None) is torch.nn.Module._call_impl:
        wrapped = wrapped.__self__
    return wrapped if issubclass(type(wrapped), torch.nn.Module) else None


def other_methods(module: Any, is_wanted: Callable[[str], bool]) -> list[str]:
    """Return a module's methods from wanted files that do not go through its call, as far as names tell."""
    import torch

    kinds = [kind for kind in type(module).__mro__ if not issubclass(torch.nn.Module, kind)]
    found = [one for kind in kinds for one in vars(kind).items() if type(one[1]) is FunctionType]
    names = [name for name, method in found if is_wanted(method.__code__.co_filename)]
    return [name for name in dict.fromkeys(names) if not name.startswith("_") and name != "forward"]


def stance_facts(stance: Any) -> dict[str, Any]:
    """Return a stance as plain values."""
    backend = stance.backend
    name = "" if backend is None else str(getattr(backend, "__name__", backend))[:100]
    return {"name": str(stance.stance), "skips_guards": bool(stance.skip_guard_eval_unsafe), "backend": name}
