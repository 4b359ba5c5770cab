"""One level of a graph: a picture of at most 80 boxes, in which a box stands for an op or for a level of its own."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, TypeVar

from compiler_lens.facts.graphs.graph_times import Spent
from compiler_lens.facts.graphs.level_tree import MOST, Child, Group, folds
from compiler_lens.facts.kernels.graph_flow import BACKWARDS, HELD, Role, Value
from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import Node

if TYPE_CHECKING:
    from compiler_lens.facts.graphs.levels import Levels

_PILLS = 8  # boxes for what comes in, and as many for what goes out
_READERS = 8  # an input that more boxes read is noted in each of them
_SAVED_SHOWN = 4  # tensors saved for the backward that are boxes of their own

_T = TypeVar("_T")
_Ends = tuple[Role, tuple[int, ...]]

LIMIT = MOST + 2 * _PILLS  # boxes of a level


class BoxKind(Enum):
    """What a box stands for."""

    OP = "op"
    GROUP = "group"
    INPUT = "input"  # what a level gets, from the graph's inputs or from outside of the level
    OUTPUT = "output"


@dataclass(frozen=True, slots=True)
class Box:
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


@dataclass(frozen=True, slots=True)
class Edge:
    """Values that one box makes and another reads."""

    source: int
    target: int
    values: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Level:
    """The boxes of one group, its groups closed."""

    group: Group
    boxes: tuple[Box, ...]
    edges: tuple[Edge, ...]


# -- building one level


@dataclass(slots=True)
class LevelBuilder:
    """One level under way."""

    whole: Levels
    group: Group
    boxes: list[Box] = field(default_factory=list)
    owner: list[int] = field(default_factory=list)  # of each step of the group
    edges: dict[tuple[int, int], dict[str, Node]] = field(default_factory=dict)
    reads: dict[int, dict[str, Value]] = field(default_factory=dict)
    gives: dict[int, dict[str, Value]] = field(default_factory=dict)

    def level(self) -> Level:
        """The level."""
        self._place()
        incoming = self._follow_reads()
        self._inputs(incoming)
        self._outputs()
        held = (
            _holding(box, self.reads.get(number, {}).values(), self.gives.get(number, {}).values())
            for number, box in enumerate(self.boxes)
        )
        edges = (Edge(source, target, tuple(values.values())) for (source, target), values in self.edges.items())
        return Level(self.group, tuple(held), tuple(sorted(edges, key=lambda e: (e.source, e.target))))

    def _place(self) -> None:
        steps = self.whole.flow.steps
        for run in folds(self.group.children):
            first = run[0]
            start, end = (first, first + 1) if isinstance(first, int) else (first.first, _end(run[-1]))
            nodes = tuple(node for step in steps[start:end] for node in step.nodes)
            if isinstance(first, int):
                self.boxes.append(Box(f"s{first}", BoxKind.OP, nodes, run, recomputed=self._recomputed(nodes)))
            else:
                spent = self.whole.spent(start, end)
                again = self._recomputed(nodes) // len(run)
                key = f"g{start}-{_end(first)}"
                self.boxes.append(Box(key, BoxKind.GROUP, nodes, run, first, spent=spent, recomputed=again))
            self.owner.extend([len(self.boxes) - 1] * (end - start))

    def _recomputed(self, nodes: Sequence[Node]) -> int:
        if self.whole.flow.graph.stage not in BACKWARDS:
            return 0
        # The sums of gradients that no line wrote are nobody's ops; what autograd made is marked as its own.
        return sum(not node.backward and bool(node.origins) and not is_view(node.target) for node in nodes)

    def _box_of(self, step: int) -> int:
        return self.owner[step - self.group.first]

    def _inside(self, step: int) -> bool:
        return self.group.first <= step < self.group.last

    def _follow_reads(self) -> dict[str, dict[int, None]]:
        """Edges between the boxes; what is read from outside, with the boxes that read it."""
        flowing, incoming = self.whole.flow, dict[str, dict[int, None]]()
        for number in range(self.group.first, self.group.last):
            box = self._box_of(number)
            for name in flowing.steps[number].reads:
                maker = flowing.makers.get(name)
                if maker is not None and self._inside(maker):
                    self._connect(self._box_of(maker), box, self.whole.node(name))
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

    # -- what comes in

    def _inputs(self, incoming: Mapping[str, Mapping[int, None]]) -> None:
        values = {name: self._incoming(name) for name in incoming}
        saved = sum(value.role is Role.SAVED for value in values.values())
        shown: dict[tuple[Role, tuple[int, ...]], list[str]] = {}
        for name, boxes in incoming.items():
            value = values[name]
            crowded = value.role is Role.SAVED and saved > _SAVED_SHOWN
            if value.role in HELD or crowded or len(boxes) > _READERS:
                self._hold(self.reads, boxes, [value])
            else:
                shown.setdefault((value.role, tuple(boxes)), []).append(name)
        if len(shown) > _PILLS:  # what one box alone reads can stand in it
            for key in [key for key in shown if len(key[1]) == 1]:
                self._hold(self.reads, key[1], [values[name] for name in shown.pop(key)])
        for (_, readers), names in _at_most(shown).items():
            self._input(readers, names, values)

    def _input(self, boxes: Iterable[int], names: Sequence[str], values: Mapping[str, Value]) -> None:
        makers = (self.whole.flow.makers.get(name) for name in names)
        places = tuple(dict.fromkeys(self._outside(maker) for maker in makers if maker is not None))
        nodes = tuple(values[name].node for name in names)
        box = Box(f"i{nodes[0].name}", BoxKind.INPUT, nodes, values=tuple(values[n] for n in names), places=places)
        self.boxes.append(box)
        for target in boxes:
            for name in names:
                if target in self._readers_among(name):
                    self._connect(len(self.boxes) - 1, target, self.whole.node(name))

    def _readers_among(self, name: str) -> set[int]:
        readers = self.whole.readers.get(name, ())
        start = bisect_left(readers, self.group.first)
        end = bisect_left(readers, self.group.last)
        return {self._box_of(number) for number in readers[start:end]}

    def _incoming(self, name: str) -> Value:
        return self.whole.flow.inputs.get(name) or Value(self.whole.node(name), Role.INPUT, name)

    def _outside(self, step: int) -> str:
        node = self.whole.flow.steps[step].node
        return node.module or node.name

    def _hold(self, where: dict[int, dict[str, Value]], boxes: Iterable[int], values: Sequence[Value]) -> None:
        for box in boxes:
            for value in values:
                where.setdefault(box, {})[f"{value.role.value} {value.node.name}"] = value

    # -- what goes out

    def _outputs(self) -> None:
        shown: dict[tuple[Role, tuple[int, ...]], list[tuple[Value, str]]] = {}
        for value in self.whole.flow.outputs:
            maker = self.whole.flow.makers.get(value.node.name)
            box = self._box_of(maker) if maker is not None and self._inside(maker) else None
            if box is None:
                continue
            if value.role is Role.RESULT:
                shown.setdefault((value.role, (box,)), []).append((value, ""))
            else:
                self._hold(self.gives, [box], [value])
        for value, place, box in self._leaving():
            shown.setdefault((Role.INPUT, (box,)), []).append((value, place))
        for (_, boxes), given in _at_most(shown).items():
            self._output(boxes, given)

    def _leaving(self) -> Iterator[tuple[Value, str, int]]:
        """Values that steps behind the group read, with where these stand."""
        results = {value.node.name for value in self.whole.flow.outputs if value.role is Role.RESULT}
        for number in range(self.group.first, self.group.last):
            for node in self.whole.flow.steps[number].nodes:
                readers = self.whole.readers.get(node.name, ())
                behind = bisect_left(readers, self.group.last)
                if behind < len(readers) and node.name not in results:
                    yield Value(node, Role.RESULT, node.name), self._outside(readers[behind]), self._box_of(number)

    def _output(self, boxes: Iterable[int], given: Sequence[tuple[Value, str]]) -> None:
        values = tuple(value for value, _ in given)
        places = tuple(dict.fromkeys(place for _, place in given if place))
        nodes = tuple(value.node for value in values)
        self.boxes.append(
            Box(f"o{nodes[0].name}{'+' if places else ''}", BoxKind.OUTPUT, nodes, values=values, places=places)
        )
        for source in boxes:
            for node in nodes:
                if self._box_of(self.whole.flow.makers[node.name]) == source:
                    self._connect(source, len(self.boxes) - 1, node)


def _end(child: Child) -> int:
    return child + 1 if isinstance(child, int) else child.last


def _at_most(shown: dict[_Ends, list[_T]]) -> dict[_Ends, list[_T]]:
    """Those with most values each by itself, all others in one."""
    if len(shown) <= _PILLS:
        return shown
    kept = set(sorted(shown, key=lambda key: (-len(shown[key]), key[1]))[: _PILLS - 1])
    rest = [key for key in shown if key not in kept]
    boxes = tuple(sorted({box for _, several in rest for box in several}))
    merged = [item for key in rest for item in shown[key]]
    return {**{key: shown[key] for key in shown if key in kept}, (rest[0][0], boxes): merged}


def _holding(box: Box, reads: Iterable[Value], gives: Iterable[Value]) -> Box:
    return replace(box, reads=tuple(reads), gives=tuple(gives))
