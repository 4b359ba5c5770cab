"""What each launch takes, against the least that this device needs for as much work, and what speaks against it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.kernels.launch_work import Traffic, Work, launch_traffic, launch_work
from compiler_lens.recording.model import Ceilings, Kernel, LaunchTime, Profile, Recording, Remark

_NEAR = 0.4  # of a ceiling: from there on it is what bounds a kernel
_NOISE = 1.25  # a launch that takes no longer than this times the shortest is as short as one can be
MICRO = 1e6

_WIDE = 0.5  # of the median: between the quartiles
_HELD_UP = 1.5  # times a call: more work than it has time for
_FAR = 100  # times the least time: one kernel may be that bad, all of them are not
_ABOVE = 1.05  # of a ceiling: what two measurements of the same differ by anyway


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
    total: float  # microseconds in one call of the model
    above: float  # of it, above the floor; 0 where the floor is not known
    memory_share: float | None  # of the ceiling; above 1: a cache served it, or the ceiling was measured too low
    compute_share: float | None


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
    memory, compute = (share or 0.0 for share in shares)
    if not known:
        bound = Bound.UNKNOWN
    elif max(known) <= least and took <= _NOISE * least + least:
        bound = Bound.LAUNCH
    elif max(memory, compute) < _NEAR:
        bound = Bound.LAUNCH if took <= _NOISE * least else Bound.NEITHER
    else:
        bound = Bound.MEMORY if memory >= compute else Bound.COMPUTE
    above = 0.0 if floor is None else max(0.0, (took - floor) * time.runs)
    return LaunchCost(time, kernel, traffic, work, floor, bound, took * time.runs, above, *shares)


# -- a busy machine measures itself


class Doubt(Enum):
    """Why figures of a profile cannot be right."""

    WAITED = "waited"  # calls waited for a processor
    UNEVEN = "uneven"  # a usual call took much longer than the fastest
    SPREAD = "spread"  # calls of the same work took very different times
    HELD_UP = "held_up"  # under the profiler the work took longer than the calls do
    FAR_BELOW = "far_below"  # every kernel is far below all ceilings
    CEILING = "ceiling"  # a kernel computes faster than the ceiling: no cache explains that

    @property
    def is_fatal(self) -> bool:
        """Whether times say nothing, and not just the ceiling that they are compared with."""
        return self is not Doubt.CEILING


def is_usable(found: Iterable[Doubt]) -> bool:
    """Return whether the times are those of the program, and gains and advice may be drawn from them."""
    return not any(doubt.is_fatal for doubt in found)


def doubts(profile: Profile, costs: Sequence[LaunchCost]) -> tuple[Doubt, ...]:
    """Return all that holds of a profile, with the launches that it timed."""
    noted = {note.remark for note in profile.notes}
    above = [cost.time.microseconds / cost.floor for cost in costs if cost.floor]
    found = {
        Doubt.WAITED: Remark.KEPT_WAITING in noted,
        Doubt.UNEVEN: Remark.UNEVEN in noted,
        Doubt.SPREAD: profile.spread > _WIDE * profile.microseconds,
        # Not the sum over kernels: on several streams they run at the same time.
        Doubt.HELD_UP: profile.busy_microseconds > _HELD_UP * profile.microseconds,
        Doubt.FAR_BELOW: len(above) > 1 and min(above) > _FAR,
        Doubt.CEILING: any((cost.compute_share or 0.0) > _ABOVE for cost in costs),
    }
    return tuple(doubt for doubt, holds in found.items() if holds)
