"""A graph as levels: each a picture of at most 80 boxes, in which a box stands for an op or for a level of its own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.graphs.graph_bodies import op_count, with_bodies
from compiler_lens.facts.graphs.launch_order import order_of_launches
from compiler_lens.facts.graphs.level_tree import MOST, Child, Group, folds, span, tree
from compiler_lens.facts.kernels.graph_flow import BACKWARDS, HELD, Flow, Role, Value, flow
from compiler_lens.facts.kernels.launch_costs import LaunchCost, doubts, is_usable, launch_costs
from compiler_lens.facts.kernels.launches import Call, Launched, launches_by_graph, launches_of_steps, without_steps
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Graph, Node, Recording

_PILLS = 8  # boxes for what comes in, and as many for what goes out
_READERS = 8  # an input that more boxes read is noted in each of them
_SAVED_SHOWN = 4  # tensors saved for the backward that are boxes of their own
LIMIT = MOST + 2 * _PILLS  # boxes of a level

_T = TypeVar("_T")
_Ends = tuple[Role, tuple[int, ...]]  # of a box for values: the boxes that read or make these


class BoxKind(Enum):
    """What a box stands for."""

    OP = "op"
    GROUP = "group"
    INPUT = "input"  # what a level gets, from the graph's inputs or from outside of the level
    OUTPUT = "output"


class Spent(Struct, frozen=True):
    """The measured time of some launches of a graph."""

    launches: tuple[LaunchCost, ...]
    whole: float  # microseconds of all launches of the graph

    @property
    def microseconds(self) -> float:
        """In one call of the model."""
        return sum(cost.total for cost in self.launches)


class Box(Struct, frozen=True):
    """One box of a level."""

    kind: BoxKind
    nodes: tuple[Node, ...]  # what it stands for: all ops of all that is folded, or the values that come in or go out
    members: tuple[Child, ...] = ()  # what is folded into it; what it opens is the first
    group: Group | None = None
    values: tuple[Value, ...] = ()  # of an input or output
    places: tuple[str, ...] = ()  # modules or ops outside of the level, where the values come from or go to
    reads: tuple[Value, ...] = ()  # parameters and saved tensors that it reads: no boxes of their own
    gives: tuple[Value, ...] = ()  # what it saves for the backward, gradients of parameters
    spent: Spent | None = None  # what the launches in it took, all repeats together
    recomputed: int = 0  # ops of the forward that a backward computes again: of one repeat, views not counted

    @property
    def repeats(self) -> int:
        """How many alike are folded into it."""
        return max(len(self.members), 1)


class Edge(Struct, frozen=True):
    """Values that one box makes and another reads."""

    source: int
    target: int
    values: tuple[Node, ...]


class Level(Struct, frozen=True):
    """The boxes of one group, its groups closed."""

    group: Group
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


class Levels(Struct, frozen=True):
    """A graph's steps with their tree; a level is made when it is asked for. Without kernels nothing is launched."""

    flow: Flow
    readers: Mapping[str, Sequence[int]]  # the steps that read a value, in order
    places: Mapping[str, int]  # of each node that a step makes: which of the step's nodes
    launched: Sequence[Launched]  # of each step
    shared_launches: Mapping[int, tuple[int, ...]]  # by step: launches that are counted there
    costs: Mapping[int, LaunchCost]  # what was measured of each launch, by its place
    root: Group
    kernels: bool  # steps stand in the launches that compute them
    calls: Sequence[Call]  # with `kernels`: every launch

    def level(self, group: Group | None = None) -> Level:
        """Return the boxes of one group; of the whole graph, if none is given."""
        return _LevelBuilder(self, group or self.root).level()

    @property
    def unplaced_launches(self) -> tuple[Call, ...]:
        """The launches that are in no box: what they compute is not recorded, or stands elsewhere."""
        shown = {launch[0] for launch in self.launched if launch}
        shown.update(*self.shared_launches.values())
        return tuple(call for call in self.calls if call.place not in shown)

    def op_count(self, group: Group) -> tuple[int, int]:
        """Return how many ops a group has; of the whole graph, how many more are in the graphs that they run."""
        if group is self.root:
            return op_count(self.flow.graph)
        return sum(len(step.nodes) for step in self.flow.steps[group.first : group.last]), 0

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

    def as_first(self, box: Box, name: str) -> str:
        """Return the value of the first of folded repeats that is what `name` is of another one."""
        step = self.flow.makers.get(name)
        for member in box.members:
            if step is not None and not isinstance(member, int) and member.first <= step < member.last:
                alike = self.flow.steps[step - member.first + span(box.members[0])[0]]
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
        flowing,
        readers,
        places,
        launched=launched if kernels else (),
        shared_launches=without_steps(launches.get("", ()), flowing, launched),
        costs=_costs(recording, graph, calls),
        root=tree(flowing, launched if kernels else (), {call.place: call.ops for call in calls}),
        kernels=kernels,
        calls=calls,
    )


def _costs(recording: Recording, graph: Graph, calls: Sequence[Call]) -> Mapping[int, LaunchCost]:
    """What the last profile measured of each launch, by its place among all.

    Nothing where there is no profile, or where its times are not those of the program.
    """
    if not recording.profiles or not calls:
        return {}
    profile, compile_id = recording.profiles[-1], graph.compile_id
    own = replace(profile, launches=tuple(time for time in profile.launches if time.compile_id == compile_id))
    graphs = tuple(each for each in recording.graphs if each.compile_id == compile_id)
    kernels = tuple(kernel for kernel in recording.kernels if kernel.compile_id == compile_id)
    measured = launch_costs(replace(recording, graphs=graphs, kernels=kernels), own)
    if not measured or not is_usable(doubts(own, measured)):
        return {}
    known = {cost.time.id: cost for cost in measured}
    places = ((call.place, call.kernel.launch_id(call.number)) for call in calls)
    return {place: known[launch] for place, launch in places if launch in known}


class _LevelBuilder(Struct):
    """One level under way."""

    whole: Levels
    group: Group
    boxes: list[Box] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)  # the box of each step of the group
    edges: dict[tuple[int, int], dict[str, Node]] = field(default_factory=dict)
    reads: dict[int, dict[str, Value]] = field(default_factory=dict)
    gives: dict[int, dict[str, Value]] = field(default_factory=dict)

    def level(self) -> Level:
        for run in folds(self.group.children):
            self._place(run)
        self._inputs()
        self._outputs()
        for number in {*self.reads, *self.gives}:
            reads, gives = self.reads.get(number, {}), self.gives.get(number, {})
            self.boxes[number] = replace(self.boxes[number], reads=tuple(reads.values()), gives=tuple(gives.values()))
        edges = (Edge(*ends, tuple(values.values())) for ends, values in sorted(self.edges.items()))
        return Level(self.group, tuple(self.boxes), tuple(edges))

    def _place(self, run: tuple[Child, ...]) -> None:
        """Add the box of an op, or of groups that are alike."""
        first, start, end = run[0], span(run[0])[0], span(run[-1])[1]
        nodes = tuple(node for step in self.whole.flow.steps[start:end] for node in step.nodes)
        again = 0
        if self.whole.flow.graph.stage in BACKWARDS:
            # The sums of gradients that no line wrote are nobody's ops; what autograd made is marked as its own.
            again = sum(not node.backward and bool(node.origins) and not is_view(node.target) for node in nodes)
        self.owner.extend([len(self.boxes)] * (end - start))
        if isinstance(first, int):
            self.boxes.append(Box(BoxKind.OP, nodes, run, recomputed=again // len(run)))
        else:
            spent = self.whole.spent(start, end)
            self.boxes.append(Box(BoxKind.GROUP, nodes, run, first, spent=spent, recomputed=again // len(run)))

    def _box_of(self, step: int | None) -> int | None:
        """The box of a step, None for what stands outside of the group."""
        if step is None or not self.group.first <= step < self.group.last:
            return None
        return self.owner[step - self.group.first]

    def _inputs(self) -> None:
        """Add the edges between the boxes, and boxes for what comes from outside."""
        incoming = self._follow_reads()
        known = self.whole.flow.inputs
        values = {name: known.get(name) or Value(self.whole.node(name), Role.INPUT, name) for name in incoming}
        saved = sum(value.role is Role.SAVED for value in values.values())
        shown: dict[_Ends, list[str]] = {}
        for name, boxes in incoming.items():
            value = values[name]
            crowded = value.role is Role.SAVED and saved > _SAVED_SHOWN
            if value.role in HELD or crowded or len(boxes) > _READERS:
                _hold(self.reads, boxes, value)
            else:
                shown.setdefault((value.role, tuple(boxes)), []).append(name)
        if len(shown) > _PILLS:  # what one box alone reads can stand in it
            for key in [key for key in shown if len(key[1]) == 1]:
                for name in shown.pop(key):
                    _hold(self.reads, key[1], values[name])
        for names in _at_most(shown).values():
            makers = [self.whole.flow.makers.get(name) for name in names]
            places = dict.fromkeys(self._outside(maker) for maker in makers if maker is not None)
            given = tuple(values[name] for name in names)
            nodes = tuple(value.node for value in given)
            self.boxes.append(Box(BoxKind.INPUT, nodes, values=given, places=tuple(places)))
            for name in names:
                for target in incoming[name]:
                    self._connect(len(self.boxes) - 1, target, values[name].node)

    def _follow_reads(self) -> Mapping[str, Mapping[int, None]]:
        """What is read from outside, with the boxes that read it, where edges between the boxes are not enough."""
        flowing, whole = self.whole.flow, (self.group.first, self.group.last)
        incoming: dict[str, dict[int, None]] = {}
        for number, box in enumerate(self.owner, self.group.first):
            for name in flowing.steps[number].reads:
                maker = flowing.makers.get(name)
                source = self._box_of(maker)
                if source is not None:
                    self._connect(source, box, self.whole.node(name))
                elif maker is not None:
                    incoming.setdefault(name, {})[box] = None
                elif name in flowing.inputs:
                    first, last = flowing.local.get(name, whole)
                    if first <= whole[0] and whole[1] <= last:  # else only a body is given it, not the graph around
                        incoming.setdefault(name, {})[box] = None
        return incoming

    def _outputs(self) -> None:
        """Add boxes for what goes out: results, and what steps after the group read."""
        flowing = self.whole.flow
        shown: dict[_Ends, list[tuple[Value, str]]] = {}  # with where what reads it stands
        results = {value.node.name for value in flowing.outputs if value.role is Role.RESULT}
        for value in flowing.outputs:
            box = self._box_of(flowing.makers.get(value.node.name))
            if box is not None and value.role is Role.RESULT:
                shown.setdefault((value.role, (box,)), []).append((value, ""))
            elif box is not None:
                _hold(self.gives, [box], value)
        for number, box in enumerate(self.owner, self.group.first):
            for node in flowing.steps[number].nodes:
                readers = self.whole.readers.get(node.name, ())
                after = bisect_left(readers, self.group.last)
                if after < len(readers) and node.name not in results:
                    leaving = Value(node, Role.RESULT, node.name), self._outside(readers[after])
                    shown.setdefault((Role.INPUT, (box,)), []).append(leaving)
        for given in _at_most(shown).values():
            places = dict.fromkeys(place for _, place in given if place)
            values = tuple(value for value, _ in given)
            nodes = tuple(value.node for value in values)
            self.boxes.append(Box(BoxKind.OUTPUT, nodes, values=values, places=tuple(places)))
            for node in nodes:
                self._connect(self.owner[flowing.makers[node.name] - self.group.first], len(self.boxes) - 1, node)

    def _connect(self, source: int, target: int, node: Node) -> None:
        if source != target:
            self.edges.setdefault((source, target), {})[node.name] = node

    def _outside(self, step: int) -> str:
        node = self.whole.flow.steps[step].node
        return node.module or node.name


def _hold(where: dict[int, dict[str, Value]], boxes: Iterable[int], value: Value) -> None:
    for box in boxes:
        where.setdefault(box, {})[f"{value.role.value} {value.node.name}"] = value


def _at_most(shown: dict[_Ends, list[_T]]) -> dict[_Ends, list[_T]]:
    """Those with most values each by itself, all others in one."""
    if len(shown) <= _PILLS:
        return shown
    kept = set(sorted(shown, key=lambda key: (-len(shown[key]), key[1]))[: _PILLS - 1])
    rest = [key for key in shown if key not in kept]
    merged = [item for key in rest for item in shown[key]]
    return {**{key: shown[key] for key in shown if key in kept}, rest[0]: merged}
