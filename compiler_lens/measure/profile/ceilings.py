"""What this device can do, measured on it: copying, multiplying matrices, launching. Never from a data sheet."""

from __future__ import annotations

import contextlib
import math
import platform
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median

import torch

from compiler_lens.capture.torch_api.measuring import float8_product
from compiler_lens.measure.profile.profiler import Step, seconds_of, synchronize, traced
from compiler_lens.recording.model import Ceilings, ProfileNote, Remark

_MIB = 1 << 20
_COPIED = {True: (32 * _MIB, 128 * _MIB), False: (256 * _MIB, 1024 * _MIB)}  # bytes; on a CPU or not
_SIDES = {True: (512, 1024, 2048), False: (2048, 4096, 8192)}  # of square matrices
_ENOUGH = 0.6  # seconds for one product: larger ones are not tried
_RUN_SECONDS, _MOST_CALLS = 0.05, 10  # of one run
_RUNS, _MOST_RUNS = 3, 10
_PAUSE = 0.02  # seconds between runs: whoever has waited comes first on a busy CPU
_AGREE = 1.5  # times: runs that differ by more were not all made on a quiet machine
_LAUNCHES = 50
_DTYPES: Mapping[str, torch.dtype] = {
    "bf16": torch.bfloat16,
    "f16": torch.float16,
    "f32": torch.float32,
    "f64": torch.float64,
    "f8e4m3fn": torch.float8_e4m3fn,
}


def measure_ceilings(device: torch.device, dtypes: Iterable[str]) -> Ceilings:
    """Return the ceilings of a device, for the types of numbers whose matrices are multiplied. Takes some seconds."""
    with torch.no_grad(), torch.autocast(device.type, enabled=False):
        rates = {dtype: _product_rate(device, _DTYPES[dtype]) for dtype in dtypes if dtype in _DTYPES}
        return Ceilings(
            device=device_name(device),
            bytes_per_second=_copy_rate(device),
            flops_per_second={dtype: rate for dtype, rate in rates.items() if rate},
            launch_microseconds=_shortest_launch(device),
        )


def device_name(device: torch.device) -> str:
    """Return what the device is called: "NVIDIA H200"."""
    if device.type != "cpu":
        name = getattr(torch.get_device_module(device), "get_device_name", None)
        return str(name(device)) if name else device.type
    processor = platform.processor() or platform.machine() or "CPU"
    with contextlib.suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
        processor = next(names, processor)
    threads = torch.get_num_threads()
    return f"{processor}, {threads} thread{'' if threads == 1 else 's'}"


def product_notes(dtypes: Iterable[str]) -> Iterator[ProfileNote]:
    """Give a note on how products of 32-bit floats are made, where that is a setting."""
    precision = torch.get_float32_matmul_precision()
    if "f32" in dtypes and precision != "highest":
        yield ProfileNote(Remark.LESS_PRECISION, precision)


def _best(step: Step, device: torch.device) -> float:
    """Seconds of the fastest of a few calls."""

    def run() -> float:
        (once,) = seconds_of(step, 1, device)
        more = min(int(_RUN_SECONDS / max(once, 1e-6)), _MOST_CALLS)
        return min(once, *seconds_of(step, more, device)) if more else once

    step()
    synchronize(device)
    return best_of(run)


def best_of(run: Callable[[], float]) -> float:
    """Return the least that a few short runs gave; of more runs, while the last ones are not as good as the best."""
    found = [run()]
    while len(found) < _RUNS or (len(found) < _MOST_RUNS and max(found[-_RUNS:]) > _AGREE * min(found)):
        time.sleep(_PAUSE)
        found.append(run())
    return min(found)


def _copy_rate(device: torch.device) -> float | None:
    """Bytes per second, read and written, over sizes that no cache holds."""
    rates: list[float] = []
    for size in _COPIED[device.type == "cpu"]:
        with contextlib.suppress(torch.OutOfMemoryError):
            there = torch.zeros(size // 4, dtype=torch.float32, device=device)
            here = torch.empty_like(there)
            # The device's own way to copy, and a kernel.
            steps = partial(here.copy_, there), partial(torch.add, there, 1, out=here)
            rates += [2 * size / _best(step, device) for step in steps]
    return max(rates, default=None)


def _product_rate(device: torch.device, dtype: torch.dtype) -> float | None:
    best: float | None = None
    for side in _SIDES[device.type == "cpu"]:
        # Not zeros, with which a device takes less power and runs faster; and not the program's random numbers.
        try:
            generator = torch.Generator(device).manual_seed(0)
            a, b = (torch.randn(side, side, device=device, generator=generator).to(dtype) for _ in range(2))
            is_float8 = dtype is torch.float8_e4m3fn
            step = float8_product(a, b.t()) if is_float8 else partial(torch.mm, a, b, out=torch.empty_like(a))
            seconds = _best(step, device)
        except (RuntimeError, NotImplementedError):  # this device has no such product, or no memory for it
            return best
        best = max(best or 0.0, 2 * side**3 / seconds)
        if seconds * 8 > _ENOUGH:
            break
    return best


def _shortest_launch(device: torch.device) -> float | None:
    """Microseconds of a kernel that has nothing to do."""
    one = torch.zeros(1, device=device)

    def step() -> None:
        for _ in range(_LAUNCHES):
            one.add_(1)

    wanted = ("cpu_op",) if device.type == "cpu" else ("kernel",)

    def run() -> float:
        events = traced(step, 1, device)
        times = [float(e["dur"]) for e in events if e.get("cat") in wanted and e.get("ph") == "X"]
        return median(times) if times else math.inf

    shortest = best_of(run)
    return shortest if math.isfinite(shortest) else None
