"""What each launch takes, against the least that this device needs for as much work."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.kernels.flops import Work, launch_work
from compiler_lens.facts.kernels.traffic import Traffic, launch_traffic
from compiler_lens.recording.model import Ceilings, Kernel, LaunchTime, Profile, Recording

_NEAR = 0.4  # of a ceiling: from there on it is what bounds a kernel
_NOISE = 1.25  # a launch that takes no longer than this times the shortest is as short as one can be
MICRO = 1e6


class Bound(Enum):
    """What a kernel's time is spent on."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LAUNCH = "launch"  # as little work as a launch takes at least
    NEITHER = "neither"  # far below both ceilings
    UNKNOWN = "unknown"  # a size is symbolic or was not recorded


class LaunchCost(Struct, frozen=True):
    """One launch: its time, its work, and the least time for that work."""

    time: LaunchTime
    kernel: Kernel
    traffic: Traffic | None
    work: Work | None
    floor: float | None  # microseconds: bytes and operations at the ceilings, and no less than the shortest launch
    bound: Bound
    memory_share: float | None  # of the ceiling; above 1: a cache served it, or the ceiling was measured too low
    compute_share: float | None

    @property
    def total(self) -> float:
        """Microseconds in one call of the model."""
        return self.time.microseconds * self.time.runs

    @property
    def above(self) -> float:
        """Microseconds above the floor in one call of the model; 0 where the floor is not known."""
        return 0.0 if self.floor is None else max(0.0, (self.time.microseconds - self.floor) * self.time.runs)


def launch_costs(recording: Recording, profile: Profile) -> tuple[LaunchCost, ...]:
    """Return every launch that was timed; the most time above the floor first."""
    traffic, work = launch_traffic(recording), launch_work(recording)
    kernels = {kernel.id: kernel for kernel in recording.kernels}
    costs: list[LaunchCost] = []
    for time in profile.launches:
        kernel = kernels.get(time.kernel_id)
        if kernel is not None:
            costs.append(_cost(time, kernel, traffic.get(time.id), work.get(time.id), profile.ceilings))
    return tuple(sorted(costs, key=lambda cost: (-cost.above, -cost.total)))


def _cost(
    time: LaunchTime, kernel: Kernel, traffic: Traffic | None, work: Work | None, ceilings: Ceilings
) -> LaunchCost:
    by_memory = by_compute = None  # microseconds at the ceiling
    if traffic is not None and ceilings.bytes_per_second:
        by_memory = traffic.bytes / ceilings.bytes_per_second * MICRO
    if work is not None and (per_second := ceilings.flops_per_second.get(work.dtype)):
        by_compute = work.flops / per_second * MICRO
    known = [ideal for ideal in (by_memory, by_compute) if ideal is not None]
    if work is not None and by_compute is None:  # the bytes alone would promise too much
        known = []
    took = time.microseconds
    least = ceilings.launch_microseconds or 0.0
    floor = max([*known, least]) if known else None
    shares = [ideal / took if ideal is not None and took else None for ideal in (by_memory, by_compute)]
    return LaunchCost(time, kernel, traffic, work, floor, _bound(known, shares, took, least), *shares)


def _bound(known: Sequence[float], shares: Sequence[float | None], took: float, least: float) -> Bound:
    if not known:
        return Bound.UNKNOWN
    memory, compute = (share or 0.0 for share in shares)
    if max(known) <= least and took <= _NOISE * least + least:
        return Bound.LAUNCH
    if max(memory, compute) < _NEAR:
        return Bound.LAUNCH if took <= _NOISE * least else Bound.NEITHER
    return Bound.MEMORY if memory >= compute else Bound.COMPUTE
