"""Which graph breaks only follow from others: what was compiled where, and what had been passed before it broke."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from compiler_lens.analysis.coverage import plain_function
from compiler_lens.analysis.source import Definition, Sources
from compiler_lens.model import Compilation, CompileId, GraphBreak, GraphStage, Recording, SourceLine

Key = TypeVar("Key", bound=Hashable)
_Call = tuple[str, str]  # a file and a function's own name
_EARLIER = "This graph break may have been caused by an earlier graph break."  # CAUSED_BY_EARLIER_GRAPH_BREAK


@dataclass(frozen=True, slots=True)
class Regions:
    """Which functions were compiled, and which part of a stack is inside of one."""

    frames: Mapping[CompileId, Compilation]
    calls: frozenset[_Call]

    def compiled(self, event: GraphBreak) -> tuple[SourceLine, ...]:
        """The part of a break's stack that a compiled function leads to: outside of it nothing is compiled."""
        stack = event.user_stack
        start = next((i for i, at in enumerate(stack) if _call(at) in self.calls), 0)
        return stack[start:]

    def depth(self, event: GraphBreak) -> int:
        """Where in a break's stack the frame stands that was being compiled."""
        frame = self.frames.get(event.compile_id)
        if frame is None:
            return 0
        wanted = (frame.file, plain_function(frame.function))
        found = [i for i, at in enumerate(event.user_stack) if _call(at) == wanted]
        expected = len(frame.stack) - 1
        return expected if expected in found else found[-1] if found else 0

    def functions(self, events: Iterable[GraphBreak]) -> set[_Call]:
        """The functions whose frames broke."""
        frames = (self.frames.get(i) for i in {event.compile_id for event in events})
        return {(frame.file, plain_function(frame.function)) for frame in frames if frame}


@dataclass(frozen=True, slots=True)
class GraphsAround:
    """Where graphs are: by each function on the way to one."""

    graphs: Mapping[_Call, frozenset[int]]

    def through(self, functions: Iterable[_Call]) -> int:
        """How many graphs these functions, and all that is called from them, fell into."""
        return len(frozenset().union(*(self.graphs.get(function, frozenset()) for function in functions)))


def graphs_around(recording: Recording) -> GraphsAround:
    """Every Dynamo graph, by the functions on the stack of its frame."""
    frames = {c.compile_id: c for c in recording.compilations}
    found: dict[_Call, set[int]] = defaultdict(set)
    for number, graph in enumerate(g for g in recording.graphs if g.stage is GraphStage.DYNAMO):
        frame = frames.get(graph.compile_id)
        for call in {_call(at) for at in frame.stack} | {(frame.file, plain_function(frame.function))} if frame else ():
            found[call].add(number)
    return GraphsAround({call: frozenset(numbers) for call, numbers in found.items()})


def regions(recording: Recording) -> Regions:
    """What was compiled, to be asked about stacks."""
    own = [c for c in recording.compilations if c.compile_id.frame is not None]
    return Regions({c.compile_id: c for c in own}, frozenset((c.file, plain_function(c.function)) for c in own))


def fallout_of(
    events: Sequence[GraphBreak],
    places: Sequence[SourceLine | None],
    keys: Sequence[Key],
    around: Regions,
    known: Sources,
) -> Mapping[Key, Key]:
    """For each group of breaks (by key) that only follows from another, that other's key; never in a circle.

    A group follows from an earlier one if all its breaks do: because the frame around them had been traced past
    this point until the other broke it, because they stand on a value that came out of the other, or because torch
    says that something earlier is to blame.
    """
    passed = _Passed()
    firsts: dict[Key, int] = {}
    blamed: dict[Key, list[Key | None]] = defaultdict(list)
    for number, event in enumerate(events):
        key = keys[number]
        firsts.setdefault(key, number)
        depth = around.depth(event)
        before = keys[number - 1] if number else None
        blamed[key].append(passed.by(event, depth, key) or _earlier(event, before, key))
        passed.note(event, depth, key)
    roots = {key: found[0] for key, found in blamed.items() if found[0] is not None and None not in found}
    roots |= _derived({k: n for k, n in firsts.items() if k not in roots}, places, known)
    return {key: _last(key, roots, firsts) for key in roots}


def _last(key: Key, roots: Mapping[Key, Key], firsts: Mapping[Key, int]) -> Key:
    """The root of roots. Each points to what happened before it, so this ends."""
    while key in roots and firsts[roots[key]] < firsts[key]:
        key = roots[key]
    return key


def _call(at: SourceLine) -> _Call:
    return at.file, plain_function(at.function)


def _earlier(event: GraphBreak, before: Key | None, key: Key) -> Key | None:
    told = any(hint.startswith(_EARLIER) for cause in event.causes[:1] for hint in cause.hints)
    return before if told and before != key else None


class _Passed:
    """How far tracing had come in each call of each frame when something broke it."""

    def __init__(self) -> None:
        self._furthest: dict[tuple[object, ...], dict[int, tuple[int, Hashable]]] = {}

    def note(self, event: GraphBreak, depth: int, key: Hashable) -> None:
        """A frame was traced up to this break: every line before it, in all calls under way, went well."""
        for place, at in _steps(event)[depth:]:
            by_depth = self._furthest.setdefault(place, {})
            if at.line > by_depth.get(depth, (0, key))[0]:
                by_depth[depth] = at.line, key

    def by(self, event: GraphBreak, depth: int, key: Hashable) -> Any:
        """What broke a frame around this one's further on than where this break stands: else it had not happened."""
        for place, at in _steps(event):
            for outer, (line, found) in self._furthest.get(place, {}).items():
                if outer < depth and at.line < line and found != key:
                    return found
        return None


def _steps(event: GraphBreak) -> list[tuple[tuple[object, ...], SourceLine]]:
    """Each call of a stack, with what identifies it: the way there and the function."""
    steps: list[tuple[tuple[object, ...], SourceLine]] = []
    way = 0
    for at in event.user_stack:
        steps.append(((way, *_call(at)), at))
        way = hash((way, at.file, at.line))
    return steps


def _derived(firsts: Mapping[Key, int], places: Sequence[SourceLine | None], known: Sources) -> Mapping[Key, Key]:
    """Breaks on the values of a loop over what an earlier break of the same function brought out."""
    functions: dict[tuple[str, Definition], list[tuple[SourceLine, Key]]] = defaultdict(list)
    for key, number in firsts.items():
        place = places[number]
        around = known.function_at(place.file, place.line) if place else None
        if place and around:
            functions[place.file, around].append((place, key))
    found: dict[Key, Key] = {}
    for (file, function), members in functions.items():
        for place, root in members if len(members) > 1 else ():
            lines = known.loop_lines(file, function, place.line)
            found |= {key: root for at, key in members if at.line in lines and key != root}
    return found
