"""What speaks against the times of a profile: a busy machine measures itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import TYPE_CHECKING

from compiler_lens.recording.model import Profile, Remark

if TYPE_CHECKING:
    from compiler_lens.facts.kernels.roofline import LaunchCost

_WIDE = 0.5  # of the median: between the quartiles
_HELD_UP = 1.5  # times a call: more work than it has time for
_FAR = 100  # times the least time: one kernel may be that bad, all of them are not
_ABOVE = 1.05  # of a ceiling: what two measurements of the same differ by anyway


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


_NOTED = ((Remark.KEPT_WAITING, Doubt.WAITED), (Remark.UNEVEN, Doubt.UNEVEN))


def is_usable(found: Iterable[Doubt]) -> bool:
    """Whether the times are those of the program, and gains and advice may be drawn from them."""
    return not any(doubt.is_fatal for doubt in found)


def doubts(profile: Profile, costs: Sequence[LaunchCost]) -> tuple[Doubt, ...]:
    """All that holds of a profile."""
    return tuple(_doubts(profile, costs))


def _doubts(profile: Profile, costs: Sequence[LaunchCost]) -> Iterator[Doubt]:
    noted = {note.remark for note in profile.notes}
    yield from (doubt for remark, doubt in _NOTED if remark in noted)
    if profile.spread > _WIDE * profile.microseconds:
        yield Doubt.SPREAD
    # Not the sum over kernels: on several streams they run at the same time.
    if profile.busy_microseconds > _HELD_UP * profile.microseconds:
        yield Doubt.HELD_UP
    times = [cost.time.microseconds / cost.floor for cost in costs if cost.floor]
    if len(times) > 1 and min(times) > _FAR:
        yield Doubt.FAR_BELOW
    if any((cost.compute_share or 0.0) > _ABOVE for cost in costs):
        yield Doubt.CEILING
