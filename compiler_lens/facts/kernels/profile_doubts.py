"""What speaks against the times of a profile: a busy machine measures itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum

from compiler_lens.facts.kernels.launch_costs import LaunchCost
from compiler_lens.recording.model import Profile, Remark

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
