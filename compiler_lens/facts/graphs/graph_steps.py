"""A graph's steps in the order in which pictures show them, with what is known of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.graphs.graph_times import Spent
from compiler_lens.facts.kernels.graph_flow import Flow
from compiler_lens.facts.kernels.launch_costs import LaunchCost
from compiler_lens.facts.kernels.launches import Launched
from compiler_lens.recording.model import Node


class GraphSteps(Struct, frozen=True):
    """The steps of a graph; of a graph without kernels, `launched` and `shared_launches` are empty."""

    flow: Flow
    readers: Mapping[str, tuple[int, ...]]  # the steps that read a value, in order
    places: Mapping[str, int]  # of each node that a step makes: which of the step's nodes
    launched: Sequence[Launched]  # of each step
    shared_launches: Mapping[int, tuple[int, ...]]  # by step: launches that are counted there
    costs: Mapping[int, LaunchCost]  # what was measured of each launch, by its place

    def node(self, name: str) -> Node:
        """Return the node of that name."""
        known = self.flow.inputs.get(name)
        return known.node if known else self.flow.steps[self.flow.makers[name]].made(self.places[name])

    def spent(self, first: int, last: int) -> Spent | None:
        """Return what the launches of these steps took together; None if none of them was measured."""
        if not self.costs:
            return None
        launches = {each[0] for each in self.launched[first:last] if each}
        for step in range(first, last):
            launches.update(self.shared_launches.get(step, ()))
        known = tuple(self.costs[place] for place in sorted(launches) if place in self.costs)
        return Spent(known, sum(cost.total for cost in self.costs.values())) if known else None
