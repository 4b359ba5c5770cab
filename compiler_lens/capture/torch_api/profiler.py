"""torch's profiler, and the modules of generated code that it is to see. For code that imports torch anyway."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch


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
