"""One level of a graph: a picture of at most 80 boxes, in which a box stands for an op or for a level of its own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.graphs.graph_steps import GraphSteps
from compiler_lens.facts.graphs.graph_times import Spent
from compiler_lens.facts.graphs.level_tree import MOST, Child, Group, folds
from compiler_lens.facts.kernels.graph_flow import BACKWARDS, HELD, Role, Value
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Node

_PILLS = 8  # boxes for what comes in, and as many for what goes out
_READERS = 8  # an input that more boxes read is noted in each of them
_SAVED_SHOWN = 4  # tensors saved for the backward that are boxes of their own

_T = TypeVar("_T")
_Ends = tuple[Role, tuple[int, ...]]  # of a box for values: the boxes that read or make these

LIMIT = MOST + 2 * _PILLS  # boxes of a level


class BoxKind(Enum):
    """What a box stands for."""

    OP = "op"
    GROUP = "group"
    INPUT = "input"  # what a level gets, from the graph's inputs or from outside of the level
    OUTPUT = "output"


class Box(Struct, frozen=True):
    """One box of a level."""

    key: str
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


# -- building one level


class LevelBuilder(Struct):
    """One level under way."""

    whole: GraphSteps
    group: Group
    boxes: list[Box] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)  # of each step of the group
    edges: dict[tuple[int, int], dict[str, Node]] = field(default_factory=dict)
    reads: dict[int, dict[str, Value]] = field(default_factory=dict)
    gives: dict[int, dict[str, Value]] = field(default_factory=dict)

    def level(self) -> Level:
        """Return the level."""
        self._place()
        self._inputs(self._follow_reads())
        self._outputs()
        for number, held in self.reads.items():
            self.boxes[number] = replace(self.boxes[number], reads=tuple(held.values()))
        for number, held in self.gives.items():
            self.boxes[number] = replace(self.boxes[number], gives=tuple(held.values()))
        edges = (Edge(*ends, tuple(values.values())) for ends, values in sorted(self.edges.items()))
        return Level(self.group, tuple(self.boxes), tuple(edges))

    def _place(self) -> None:
        for run in folds(self.group.children):
            first, last = run[0], run[-1]
            start, end = (first, first + 1) if isinstance(first, int) else (first.first, _end(last))
            nodes = tuple(node for step in self.whole.flow.steps[start:end] for node in step.nodes)
            again = self._recomputed(nodes) // len(run)
            if isinstance(first, int):
                box = Box(f"s{first}", BoxKind.OP, nodes, run, recomputed=again)
            else:
                spent = self.whole.spent(start, end)
                box = Box(f"g{start}-{first.last}", BoxKind.GROUP, nodes, run, first, spent=spent, recomputed=again)
            self.boxes.append(box)
            self.owner.extend([len(self.boxes) - 1] * (end - start))

    def _recomputed(self, nodes: Sequence[Node]) -> int:
        if self.whole.flow.graph.stage not in BACKWARDS:
            return 0
        # The sums of gradients that no line wrote are nobody's ops; what autograd made is marked as its own.
        return sum(not node.backward and bool(node.origins) and not is_view(node.target) for node in nodes)

    def _box_of(self, step: int | None) -> int | None:
        """The box of a step, None for what stands outside of the group."""
        if step is None or not self.group.first <= step < self.group.last:
            return None
        return self.owner[step - self.group.first]

    def _follow_reads(self) -> dict[str, dict[int, None]]:
        """Edges between the boxes; what is read from outside, with the boxes that read it."""
        flowing, incoming = self.whole.flow, dict[str, dict[int, None]]()
        for number, box in enumerate(self.owner, self.group.first):
            for name in flowing.steps[number].reads:
                maker = flowing.makers.get(name)
                source = self._box_of(maker)
                if source is not None:
                    self._connect(source, box, self.whole.node(name))
                elif maker is not None or (name in flowing.inputs and self._is_given(name)):
                    incoming.setdefault(name, {})[box] = None
        return incoming

    def _is_given(self, name: str) -> bool:
        """What only a body is given is none of what the graph around it gets."""
        first, last = self.whole.flow.local.get(name, (self.group.first, self.group.last))
        return first <= self.group.first and self.group.last <= last

    def _connect(self, source: int, target: int, node: Node) -> None:
        if source != target:
            self.edges.setdefault((source, target), {})[node.name] = node

    def _outside(self, step: int) -> str:
        node = self.whole.flow.steps[step].node
        return node.module or node.name

    # -- what comes in

    def _inputs(self, incoming: Mapping[str, Mapping[int, None]]) -> None:
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
            places = tuple(dict.fromkeys(self._outside(maker) for maker in makers if maker is not None))
            self._add_pill("i", BoxKind.INPUT, [values[name] for name in names], places)
            for name in names:
                for target in incoming[name]:
                    self._connect(len(self.boxes) - 1, target, values[name].node)

    def _add_pill(self, prefix: str, kind: BoxKind, values: Sequence[Value], places: tuple[str, ...]) -> None:
        nodes = tuple(value.node for value in values)
        name = f"{prefix}{nodes[0].name}{'+' if places and kind is BoxKind.OUTPUT else ''}"
        self.boxes.append(Box(name, kind, nodes, values=tuple(values), places=places))

    # -- what goes out

    def _outputs(self) -> None:
        shown: dict[_Ends, list[tuple[Value, str]]] = {}
        for value in self.whole.flow.outputs:
            box = self._box_of(self.whole.flow.makers.get(value.node.name))
            if box is None:
                continue
            if value.role is Role.RESULT:
                shown.setdefault((value.role, (box,)), []).append((value, ""))
            else:
                _hold(self.gives, [box], value)
        for value, place, box in self._leaving():
            shown.setdefault((Role.INPUT, (box,)), []).append((value, place))
        for given in _at_most(shown).values():
            places = tuple(dict.fromkeys(place for _, place in given if place))
            self._add_pill("o", BoxKind.OUTPUT, [value for value, _ in given], places)
            for value, _ in given:
                source = self._box_of(self.whole.flow.makers[value.node.name])
                if source is not None:
                    self._connect(source, len(self.boxes) - 1, value.node)

    def _leaving(self) -> Iterator[tuple[Value, str, int]]:
        """Values that steps after the group read, with where these stand."""
        results = {value.node.name for value in self.whole.flow.outputs if value.role is Role.RESULT}
        for number, box in enumerate(self.owner, self.group.first):
            for node in self.whole.flow.steps[number].nodes:
                readers = self.whole.readers.get(node.name, ())
                after = bisect_left(readers, self.group.last)
                if after < len(readers) and node.name not in results:
                    yield Value(node, Role.RESULT, node.name), self._outside(readers[after]), box


def _end(child: Child) -> int:
    return child + 1 if isinstance(child, int) else child.last


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
