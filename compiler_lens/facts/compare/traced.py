"""Which code Dynamo came to: a break in code that one side never came to is neither fixed there nor new."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.fallout import regions
from compiler_lens.recording.model import BreakOutcome, Compilation, CompileId, GraphStage, Recording, SourceLine
from compiler_lens.recording.resume_names import plain_function
from compiler_lens.recording.source_text import Definition, Sources, sources


class Traced:
    """What a recording shows of the code that was traced."""

    def __init__(self, recording: Recording, *, by_text: bool) -> None:
        """Take functions by their qualified names, which files have; else, `by_text` is False, as stacks name them."""
        self._recording, self._by_text = recording, by_text
        self._known: Sources = sources(recording)

    def function(self, at: SourceLine) -> str:
        """Return what the function around a line is called: the same on both sides of a comparison."""
        around = self._known.function_at(at.file, at.line) if self._by_text else None
        return around.name if around else plain_function(at.function).rpartition(".")[2]

    def came_to(self, card: BreakCard, there: Traced) -> bool:
        """Return whether Dynamo came here to what broke `there`, as far as a recording can show that.

        A line that is still written here, under the same settings, would break as it did: it must have been passed.
        """
        if card.place is None:
            return not self._entered.isdisjoint(there.names_of(card))
        function = there.function(card.place)
        if function not in self._lines:
            return False
        written = tuple(self._where(function, card.place.code.strip()))
        same_settings = _settings(self._recording) == _settings(there._recording)
        return not (written and same_settings) or any(
            self._passed(file, line, around, self._lines[function][file]) for file, line, around in written
        )

    def names_of(self, card: BreakCard) -> AbstractSet[str]:
        """Return what the frames are called that broke."""
        return {name for event in card.events for name in self._names[event.compile_id]}

    @cached_property
    def _names(self) -> Mapping[CompileId, AbstractSet[str]]:
        names: defaultdict[CompileId, set[str]] = defaultdict(set)
        for one in self._recording.compilations:
            names[one.compile_id].add(_name_of(one))
        return names

    @cached_property
    def _entered(self) -> AbstractSet[str]:
        return {name for one in self._recording.compilations for name in (_name_of(one), one.resumes or one.function)}

    @cached_property
    def _lines(self) -> Mapping[str, Mapping[str, AbstractSet[int]]]:
        """By function and file: the lines that were traced. A function's own `def` is one."""
        lines: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
        for at in dict.fromkeys(_seen(self._recording)):
            lines[self.function(at)][at.file].add(at.line)
        return lines

    def _where(self, function: str, code: str) -> Iterator[tuple[str, int, Definition]]:
        """Where a function has a line of that text."""
        for file in self._lines[function] if self._by_text and code else ():
            for around in self._known.definitions(file):
                if around.name == function:
                    for line in range(around.first, around.last + 1):
                        if self._known.line(file, line).strip() == code:
                            yield file, line, around

    def _passed(self, file: str, line: int, around: Definition, seen: AbstractSet[int]) -> bool:
        """Return whether a line was run, be it without an op: it was seen itself, or one that only comes after it."""
        arms = self._known.arms(file, line)
        if line in seen or arms is None:
            return True
        if any(other > line and arms <= (self._known.arms(file, other) or frozenset()) for other in seen):
            return True
        ways_out = {*self._given_up, *((file, way) for way in _ways_out(self._known, file, around))}
        return not arms and not any(of == file and way < line for of, way in ways_out)

    @cached_property
    def _given_up(self) -> AbstractSet[tuple[str, int]]:
        """Lines after which the rest of a function was not traced."""
        ended = (event for event in self._recording.graph_breaks if event.outcome is not BreakOutcome.SPLIT)
        return {(at.file, at.line) for event in ended for at in event.user_stack}


def traced_on_both_sides(
    before: Recording, after: Recording, cards: tuple[Sequence[BreakCard], Sequence[BreakCard]]
) -> tuple[Traced, Traced]:
    """Return what was traced on each side, functions called the same on both."""
    by_text = True
    for recording, found in zip((before, after), cards, strict=True):
        known = sources(recording)
        by_text &= bool(recording.sources) and all(known.has(card.place.file) for card in found if card.place)
    return Traced(before, by_text=by_text), Traced(after, by_text=by_text)


def _ways_out(known: Sources, file: str, around: Definition) -> Iterator[int]:
    syntax = known.syntax_of(file, around.first)
    yield from (n.lineno for n in ast.walk(syntax) if isinstance(n, (ast.Return, ast.Raise))) if syntax else ()


def _seen(recording: Recording) -> Iterator[SourceLine]:
    for one in recording.compilations:
        yield one.definition or SourceLine(one.file, one.line, one.resumes or one.function)
    for graph in recording.graphs:
        if graph.stage is GraphStage.DYNAMO:
            for node in graph.nodes:
                yield from node.source
    around = regions(recording)  # who calls a compiled function may be run by Python
    for event in recording.graph_breaks:
        yield from around.compiled(event)
    for symbol in recording.symbols:
        yield from symbol.user_stack


def _name_of(compilation: Compilation) -> str:
    told = compilation.definition
    return told.function if told else compilation.resumes or compilation.function


def _settings(recording: Recording) -> tuple[object, ...]:
    """What decides whether Dynamo breaks at a line."""
    environment = recording.environment
    given = [environment.config, *(one.config or {} for one in recording.compilations)]
    dynamo = {item for settings in given for item in settings.items() if "_dynamo" in item[0]}
    return environment.torch, environment.python, dynamo
