"""torch's profiler round some calls, and its events as it exports them. C++ kernels become ops of the CPU meanwhile."""

from __future__ import annotations

import contextlib
import json
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch.profiler import ProfilerActivity

from compiler_lens.capture.torch_api import measuring
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Kernel, KernelKind, OutputCode

Step = Callable[[], object]

# What a launch that does nothing takes is read from such a range.
EMPTY = "compiler_lens: nothing"
_EMPTY_RANGES = 32


def check_profiler_is_free() -> None:
    """Raise `UsageError` where somebody profiles already: torch has one profiler per process."""
    if measuring.is_profiling():
        raise UsageError("another profiler of torch's is active: let it end first, or call this outside of it")


def traced(step: Step, calls: int, device: torch.device) -> list[Mapping[str, Any]]:
    """Return the profiler's events of this many calls, after one that only starts it."""
    check_profiler_is_free()
    # The CPU, for ranges and ops; and the device's own, if torch can trace it.
    cpu = ProfilerActivity.CPU
    others = [a for a in torch.profiler.supported_activities() if a is not cpu] if device.type != "cpu" else []
    if device.type != "cpu" and not others:
        raise UsageError(f"torch's profiler cannot time work on {device.type} here")
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=calls, repeat=1)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"

        def export(done: torch.profiler.profile) -> None:
            done.export_chrome_trace(str(file))

        with torch.profiler.profile(
            activities=[cpu, *others], schedule=schedule, on_trace_ready=export, acc_events=True
        ) as running:
            for _ in range(calls + 1):
                step()
                synchronize(device)
                running.step()
        return list(json.loads(file.read_bytes(), strict=False)["traceEvents"])


def synchronize(device: torch.device) -> None:
    """Wait until the device has nothing to do."""
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def seconds_of(step: Step, calls: int, device: torch.device) -> list[float]:
    """Return how long each of several calls takes, one right after the other, as in a loop of the user's."""
    module: Any = None if device.type == "cpu" else torch.get_device_module(device)
    found: list[float] = []
    if module is None or not hasattr(module, "Event"):
        for _ in range(calls):
            start = time.perf_counter()
            step()
            synchronize(device)
            found.append(time.perf_counter() - start)
        return found
    marks = [module.Event(enable_timing=True) for _ in range(calls + 1)]
    module.synchronize()
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    module.synchronize()
    return [a.elapsed_time(b) / 1000 for a, b in pairwise(marks)]


# -- kernels of a CPU


class _Named:
    """A kernel that tells the profiler when it runs."""

    __slots__ = ("_kernel", "_name")

    def __init__(self, kernel: Any, name: str) -> None:
        self._kernel, self._name = kernel, name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with measuring.named_range(self._name):
            return self._kernel(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._kernel, name)


@contextlib.contextmanager
def kernels_named(codes: Sequence[OutputCode], kernels: Sequence[Kernel]) -> Iterator[int]:
    """C++ kernels of these output codes show in a profile while the block runs. Gives how many of them were found."""
    names: dict[str, set[str]] = defaultdict(set)
    paths = {code.id: code.path for code in codes}
    for kernel in kernels:
        path = paths.get(kernel.code_id)
        if path and kernel.kind in {KernelKind.CPP, KernelKind.TEMPLATE} and kernel.device.startswith("cpu"):
            names[path].add(kernel.name)
    changed: list[tuple[dict[str, Any], str, Any]] = []
    try:
        # The code calls its kernels by their global names.
        for file, table in measuring.generated_modules() if names else ():
            for name in names.get(file, ()):
                found = table.get(name)
                if callable(found) and not isinstance(found, _Named):
                    changed.append((table, name, found))
                    table[name] = _Named(found, name)
        yield len(changed)
    finally:
        for table, name, kernel in reversed(changed):
            table[name] = kernel


def empty_ranges() -> None:
    """Open ranges without content: what they take in the profile, each launch seems to take longer."""
    for _ in range(_EMPTY_RANGES):
        with measuring.named_range(EMPTY):
            pass
