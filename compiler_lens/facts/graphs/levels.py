"""A graph as levels: each a picture of its own, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from compiler_lens.facts.graphs.graph_bodies import op_count, with_bodies
from compiler_lens.facts.graphs.graph_times import GraphTimes, Spent, graph_times
from compiler_lens.facts.graphs.launch_order import order_of_launches
from compiler_lens.facts.graphs.level_boxes import Box, Level, LevelBuilder
from compiler_lens.facts.graphs.level_tree import Group, folds, tree
from compiler_lens.facts.kernels.graph_flow import Flow, flow
from compiler_lens.facts.kernels.launches import (
    Call,
    Launched,
    launches_by_graph,
    launches_of_steps,
    without_steps,
)
from compiler_lens.recording.model import Graph, Node, Recording


@dataclass(frozen=True, slots=True)
class Levels:
    """A graph with its tree; a level is made when it is asked for."""

    flow: Flow
    root: Group
    readers: Mapping[str, tuple[int, ...]]  # the steps that read a value, in order
    places: Mapping[str, int]  # of each node that a step makes: which of the step's nodes
    kernels: bool = False  # steps stand in the launches that compute them
    launched: Sequence[Launched] = ()  # with `kernels`: of each step
    times: GraphTimes | None = None
    shared_launches: Mapping[int, tuple[int, ...]] = field(
        default_factory=dict
    )  # by step: launches that are counted there
    calls: Sequence[Call] = ()  # with `kernels`: every launch

    def level(self, group: Group | None = None) -> Level:
        """The picture of one group; of the whole graph, if none is given."""
        return LevelBuilder(self, group or self.root).level()

    def spent(self, first: int, last: int) -> Spent | None:
        """What the launches of these steps took."""
        if self.times is None:
            return None
        own = [each[0] for each in self.launched[first:last] if each]
        return self.times.of(
            [*own, *(place for step in range(first, last) for place in self.shared_launches.get(step, ()))]
        )

    @property
    def unplaced_launches(self) -> tuple[Call, ...]:
        """The launches that are in no box: nobody told what they compute, or that stands elsewhere."""
        shown = {place for places in self.shared_launches.values() for place in places}
        shown |= {launch[0] for launch in self.launched if launch}
        return tuple(call for call in self.calls if call.place not in shown)

    def op_count(self, group: Group) -> tuple[int, int]:
        """How many ops a group has; of the whole graph, how many more are in the graphs that they run."""
        if group is self.root:
            return op_count(self.flow.graph)
        return sum(len(step.nodes) for step in self.flow.steps[group.first : group.last]), 0

    def as_first(self, box: Box, name: str) -> str:
        """The value of the first of folded repeats that is what `name` is of another one."""
        step = self.flow.makers.get(name)
        for member in box.members:
            if step is None or isinstance(member, int) or not member.first <= step < member.last:
                continue
            first = box.members[0]
            alike = self.flow.steps[step - member.first + (first if isinstance(first, int) else first.first)]
            return alike.made(min(self.places[name], len(alike.parts))).name
        return name

    def node(self, name: str) -> Node:
        """The node of that name."""
        known = self.flow.inputs.get(name)
        return known.node if known else self.flow.steps[self.flow.makers[name]].made(self.places[name])

    def groups(self) -> Iterator[Group]:
        """Every group that opens to a picture of its own, outer ones first; of alike ones in a row the first."""
        waiting: list[Group] = [self.root]
        while waiting:
            group = waiting.pop()
            yield group
            shown = [run[0] for run in folds(group.children)]
            waiting.extend(child for child in reversed(shown) if not isinstance(child, int))


def levels(recording: Recording, graph: Graph, *, kernels: bool = False) -> Levels:
    """The levels of a graph of a recording; with `kernels`, of a post-grad graph in the order of its launches."""
    flowing = flow(recording, graph)
    launches = launches_by_graph(recording, graph) if kernels else {}

    def ordered(scope: str, one: Flow) -> tuple[Flow, list[Launched]]:
        if not kernels:
            return one, [None] * len(one.steps)
        return order_of_launches(one, launches_of_steps(launches.get(scope, []), one))

    flowing, launched = with_bodies(*ordered("", flowing), ordered)
    calls = [call for calls in launches.values() for call in calls]
    readers: dict[str, list[int]] = {}
    for number, step in enumerate(flowing.steps):
        for name in step.reads:
            readers.setdefault(name, []).append(number)
    found = {name: tuple(each) for name, each in readers.items()}
    return Levels(
        flowing,
        tree(flowing, launched if kernels else (), {call.place: call.ops for call in calls}),
        found,
        {node.name: place for step in flowing.steps for place, node in enumerate(step.nodes)},
        kernels,
        launched if kernels else (),
        graph_times(recording, graph, calls),
        without_steps(launches.get("", ()), flowing, launched),
        calls,
    )
