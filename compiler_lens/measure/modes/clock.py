"""Calls timed, and memory read, on whatever device the model is on."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable
from typing import Any

import torch
from msgspec import Struct

WARM_UP = 3  # calls: CUDA graphs are recorded at the second and run from the third on
_FEWEST, _MOST = 5, 500  # calls that are timed in one pass


class Clock(Struct, frozen=True):
    """Times calls from outside: until the device has done what the call gave it to do."""

    device: torch.device
    seconds: float  # to spend on one phase of one row in one pass

    def one(self, call: Callable[[], object]) -> float:
        """Return the seconds of one call."""
        self._wait()
        start = time.perf_counter()
        call()
        self._wait()
        return time.perf_counter() - start

    def warm(self, call: Callable[[], object], before: Callable[[], object]) -> float:
        """Return the seconds of the first calls together."""
        total = 0.0
        for _ in range(WARM_UP):
            before()
            total += self.one(call)
        return total

    def many(self, call: Callable[[], object], before: Callable[[], object]) -> tuple[float, ...]:
        """Return the seconds of as many calls as there is time for. `before` runs before each and is not timed."""
        found: list[float] = []
        collects = gc.isenabled()
        gc.disable()
        try:
            until = time.perf_counter() + self.seconds
            while len(found) < _FEWEST or (len(found) < _MOST and time.perf_counter() < until):
                before()
                found.append(self.one(call))
        finally:
            if collects:
                gc.enable()
        return tuple(found)

    @property
    def device_name(self) -> str:
        """What the device is called; of a CPU, how many cores it has."""
        if self.device.type == "cpu":
            return f"CPU, {os.cpu_count()} cores"
        module: Any = torch.get_device_module(self.device)
        return str(module.get_device_name(self.device)) if hasattr(module, "get_device_name") else self.device.type

    def _wait(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)


class Memory:
    """Device memory that a row takes above what was there before. None where the device does not tell."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before, self._held_before = self._ask("memory_allocated"), self._held()
        self.start()

    def start(self) -> None:
        """Begin to look for a peak."""
        self._ask("reset_peak_memory_stats")

    @property
    def peak(self) -> int | None:
        """Bytes of the peak since the start, with what graphs hold for themselves without using it at the time."""
        top = self._ask("max_memory_allocated")
        if top is None or self._before is None:
            return None
        return max(0, int(top) - int(self._before) + self._held() - self._held_before)

    def _ask(self, name: str) -> Any:
        """An answer of torch.accelerator's; None on a CPU, and where a vendor's has none."""
        if self._device.type == "cpu":
            return None
        try:
            return getattr(torch.accelerator, name)(self._device)
        except (RuntimeError, AttributeError, NotImplementedError):
            return None

    def _held(self) -> int:
        """Bytes in the pools of recorded graphs that no tensor uses now: replays use them unseen by the allocator."""
        if self._device.type == "cpu":
            return 0
        try:
            segments = torch.get_device_module(self._device).memory_snapshot()
        except (RuntimeError, AttributeError, NotImplementedError):
            return 0
        private = [s for s in segments if tuple(s.get("segment_pool_id", (0, 0))) != (0, 0)]
        return sum(s["total_size"] - s["allocated_size"] for s in private)
