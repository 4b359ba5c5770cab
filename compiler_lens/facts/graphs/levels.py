"""A graph as levels: each a picture of its own, made when it is asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from compiler_lens.facts.graphs.graph_bodies import op_count, with_bodies
from compiler_lens.facts.graphs.graph_steps import GraphSteps
from compiler_lens.facts.graphs.graph_times import launch_times
from compiler_lens.facts.graphs.launch_order import order_of_launches
from compiler_lens.facts.graphs.level_boxes import Box, Level, LevelBuilder
from compiler_lens.facts.graphs.level_tree import Group, folds, tree
from compiler_lens.facts.kernels.graph_flow import Flow, flow
from compiler_lens.facts.kernels.launches import Call, Launched, launches_by_graph, launches_of_steps, without_steps
from compiler_lens.recording.model import Graph, Recording


class Levels(GraphSteps, frozen=True):
    """A graph's steps with their tree; a level is made when it is asked for."""

    root: Group
    kernels: bool  # steps stand in the launches that compute them
    calls: Sequence[Call]  # with `kernels`: every launch

    def level(self, group: Group | None = None) -> Level:
        """Return the boxes of one group; of the whole graph, if none is given."""
        return LevelBuilder(self, group or self.root).level()

    @property
    def unplaced_launches(self) -> tuple[Call, ...]:
        """The launches that are in no box: what they compute is not recorded, or stands elsewhere."""
        shown = {launch[0] for launch in self.launched if launch}
        for places in self.shared_launches.values():
            shown.update(places)
        return tuple(call for call in self.calls if call.place not in shown)

    def op_count(self, group: Group) -> tuple[int, int]:
        """Return how many ops a group has; of the whole graph, how many more are in the graphs that they run."""
        if group is self.root:
            return op_count(self.flow.graph)
        return sum(len(step.nodes) for step in self.flow.steps[group.first : group.last]), 0

    def as_first(self, box: Box, name: str) -> str:
        """Return the value of the first of folded repeats that is what `name` is of another one."""
        step = self.flow.makers.get(name)
        for member in box.members:
            if step is None or isinstance(member, int) or not member.first <= step < member.last:
                continue
            first = box.members[0]
            alike = self.flow.steps[step - member.first + (first if isinstance(first, int) else first.first)]
            return alike.made(min(self.places[name], len(alike.parts))).name
        return name

    def groups(self) -> Iterator[Group]:
        """Yield every group that opens to a picture of its own, outer ones first; of alike ones in a row the first."""
        waiting: list[Group] = [self.root]
        while waiting:
            group = waiting.pop()
            yield group
            shown = [run[0] for run in folds(group.children)]
            waiting.extend(child for child in reversed(shown) if not isinstance(child, int))


def levels(recording: Recording, graph: Graph, *, kernels: bool = False) -> Levels:
    """Return the levels of a graph; with `kernels`, of a post-grad graph in the order of its launches."""
    whole = flow(recording, graph)
    launches = launches_by_graph(recording, graph) if kernels else {}

    def ordered(scope: str, one: Flow) -> tuple[Flow, list[Launched]]:
        if not kernels:
            return one, [None] * len(one.steps)
        return order_of_launches(one, launches_of_steps(launches.get(scope, []), one))

    flowing, launched = with_bodies(*ordered("", whole), ordered)
    calls = [call for calls in launches.values() for call in calls]
    readers: dict[str, list[int]] = {}
    places: dict[str, int] = {}
    for number, step in enumerate(flowing.steps):
        for name in step.reads:
            readers.setdefault(name, []).append(number)
        places.update((node.name, place) for place, node in enumerate(step.nodes))
    return Levels(
        flow=flowing,
        readers={name: tuple(each) for name, each in readers.items()},
        places=places,
        launched=launched if kernels else (),
        shared_launches=without_steps(launches.get("", ()), flowing, launched),
        costs=launch_times(recording, graph, calls),
        root=tree(flowing, launched if kernels else (), {call.place: call.ops for call in calls}),
        kernels=kernels,
        calls=calls,
    )
