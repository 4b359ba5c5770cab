"""What measuring needs and torch has no public name for: tensors, containers of them, the profiler. Imports torch."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass

from compiler_lens.capture.torch_api import versions

_GUARDS_TIMED = "profile_guard_manager"

__all__ = ["TorchDispatchMode", "is_traceable_wrapper_subclass", "pytree"]


def version_of(tensor: torch.Tensor) -> int:
    """Return how often a tensor was changed in place, as autograd counts."""
    return int(tensor._version)


def set_version(tensor: torch.Tensor, version: int) -> None:
    """Set autograd's count of a tensor's changes in place."""
    torch._C._autograd._unsafe_set_version_counter((tensor,), (version,))


def float8_product(a: torch.Tensor, b: torch.Tensor) -> Callable[[], object]:
    """Return a function that multiplies two matrices of float8. Raises NotImplementedError where torch has none."""
    if not versions.FLOAT8_PRODUCT.is_here:
        raise NotImplementedError
    one = torch.ones((), device=a.device)
    scaled: Callable[..., Any] = torch._scaled_mm
    return lambda: scaled(a, b, one, one, out_dtype=torch.bfloat16)


def is_profiling() -> bool:
    """Return whether a profiler of torch is active: it has one per process."""
    return bool(torch.autograd._profiler_enabled() or torch.autograd.profiler._is_profiler_enabled)


def named_range(name: str) -> contextlib.AbstractContextManager[Any]:
    """Return a range of this name in the profile, as Triton kernels open by themselves."""
    found: contextlib.AbstractContextManager[Any] = torch._C._profiler._RecordFunctionFast(name)
    return found


def generated_modules() -> Iterator[tuple[str, dict[str, Any]]]:
    """Give every module of Inductor's output code in this process: its file, and its table of global names."""
    from torch._inductor.codecache import PyCodeCache

    for module in PyCodeCache.modules:
        yield str(getattr(module, "__file__", "")), vars(module)


def import_inductor() -> None:
    """Import what torch.compile imports for Inductor, which takes seconds."""
    importlib.import_module("torch._inductor.compile_fx")


@contextlib.contextmanager
def guards_untimed() -> Iterator[None]:
    """Have torch take no time of a frame's guards, for which it empties the caches of the processor.

    It fills 32 MB for that, which is two thirds of what a small frame's compilation takes. CheckFunctionManager in
    torch/_dynamo/guards.py has checked the guards before, and keeps the figure for its trace.
    """
    guards: Any = importlib.import_module("torch._dynamo.guards")
    timed = getattr(guards, _GUARDS_TIMED, None)
    if timed is None:
        yield
        return
    setattr(guards, _GUARDS_TIMED, lambda *_arguments: 0.0)
    try:
        yield
    finally:
        setattr(guards, _GUARDS_TIMED, timed)


def aot_eager() -> Callable[[Any, Any], Callable[..., Any]]:
    """Return torch's backend that runs graphs as AOTAutograd has them."""
    found: Callable[[Any, Any], Callable[..., Any]] = torch._dynamo.lookup_backend("aot_eager")
    return found
