"""How long the launches of a graph took, where that was measured: for the boxes of its picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.launch_costs import LaunchCost, launch_costs
from compiler_lens.facts.kernels.launches import Call
from compiler_lens.facts.kernels.profile_doubts import doubts, is_usable
from compiler_lens.recording.model import Graph, Recording


class Spent(Struct, frozen=True):
    """The measured time of some launches of a graph."""

    launches: tuple[LaunchCost, ...]
    whole: float  # microseconds of all launches of the graph

    @property
    def microseconds(self) -> float:
        """In one call of the model."""
        return sum(cost.total for cost in self.launches)


def launch_times(recording: Recording, graph: Graph, calls: Sequence[Call]) -> Mapping[int, LaunchCost]:
    """Return what the last profile measured of each launch, by its place among all.

    Nothing where there is no profile, or where its times are not those of the program.
    """
    if not recording.profiles or not calls:
        return {}
    profile = recording.profiles[-1]
    own = replace(profile, launches=tuple(time for time in profile.launches if time.compile_id == graph.compile_id))
    measured = launch_costs(
        replace(
            recording,
            graphs=tuple(each for each in recording.graphs if each.compile_id == graph.compile_id),
            kernels=tuple(kernel for kernel in recording.kernels if kernel.compile_id == graph.compile_id),
        ),
        own,
    )
    if not measured or not is_usable(doubts(own, measured)):
        return {}
    known = {cost.time.id: cost for cost in measured}
    places = ((call.place, call.kernel.launch_id(call.number)) for call in calls)
    return {place: known[launch] for place, launch in places if launch in known}
