"""Sizes that may vary and sizes that a line of the user's pinned: which argument, which values, why."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.facts.recompiles.argument_names import Names, phrase, readable
from compiler_lens.facts.recompiles.failed_guards import role
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.guard_values import EntryValues
from compiler_lens.facts.recompiles.recompile_facts import Facts, author_name, recompile_facts, whole_line
from compiler_lens.recording.model import CompileId, Guard, Recording, SourceLine, Symbol

_RANGE = re.compile(r"\[(?P<low>[^,]+), (?P<high>[^\]]+)\]\Z")  # "[2, int_oo]"
_NUMBER = re.compile(r"-?\d+\Z")
_BOUNDS = re.compile(r"(?:(?P<low>-?\d+) <= )?(?P<name>[^<>=]+?)(?: <= (?P<high>-?\d+))?\Z")
_NO_GUARDS = EntryValues()


class Pin(Struct, frozen=True):
    """A size that had been free and was pinned to the value it had."""

    compile_id: CompileId
    value: str
    line: SourceLine | None  # the user's line that needed it


class Condition(Struct, frozen=True):
    """What compiled code demands of a size, beyond a range."""

    text: str  # "(x.shape[0] % 8) == 0"
    line: SourceLine | None


class Dimension(Struct, frozen=True):
    """One size, or one number, of one function that torch made a symbol of."""

    function: FunctionName
    name: str  # in the author's names: "x.shape[0]"
    role: CauseClass  # BATCH_SIZE, SEQUENCE_LENGTH, SIZE, INT_ARGUMENT
    symbols: tuple[str, ...]  # torch's names for it: "s77"
    seen: tuple[str, ...]  # the values that it was compiled with, in order
    low: int | None  # the range that the last compilation allows; None: no bound
    high: int | None
    conditions: tuple[Condition, ...]  # of that compilation
    used: tuple[SourceLine, ...]  # the user's lines that compute with it
    pins: tuple[Pin, ...]

    @property
    def pinned(self) -> bool:
        """Whether the last compilation is for one value only, because a line needed it."""
        return bool(self.pins) and self.low is not None and self.low == self.high


def dimensions(recording: Recording) -> tuple[Dimension, ...]:
    """Return every size and number that became a symbol: those pinned by a line first, else in recorded order."""
    if not recording.symbols:
        return ()
    frames = {(s.compile_id.frame, s.compile_id.autograd) for s in recording.symbols}
    ids = [c.compile_id for c in recording.compilations if (c.compile_id.frame, c.compile_id.autograd) in frames]
    facts = recompile_facts(recording, [*ids, *(s.compile_id for s in recording.symbols)])
    groups: dict[tuple[CompileId, str], list[Symbol]] = {}
    for symbol in recording.symbols:
        if symbol.source and "._base" not in symbol.source:  # the base of a view is not an argument
            key = facts.epochs.first(symbol.compile_id), _name(symbol, facts)
            groups.setdefault(key, []).append(symbol)
    of_frame: dict[CompileId, list[CompileId]] = {}
    for one in ids:
        of_frame.setdefault(facts.epochs.first(one), []).append(one)
    guards = _conditions(recording.guards, {s.compile_id for s in recording.symbols})
    made = [_dimension(name, group, of_frame.get(frame, ()), guards, facts) for (frame, name), group in groups.items()]
    return tuple(sorted(made, key=lambda dimension: not dimension.pins))


def _name(symbol: Symbol, facts: Facts) -> str:
    # One symbol for sizes that are always equal has several sources: the first one names it.
    return readable(symbol.source.partition(", ")[0], facts.names.get(symbol.compile_id, Names()))


def _dimension(
    name: str,
    group: Sequence[Symbol],
    compile_ids: Sequence[CompileId],
    guards: Mapping[CompileId, Sequence[Guard]],
    facts: Facts,
) -> Dimension:
    last = group[-1]
    # Each of a compilation's symbols once: every attempt reports it again.
    pinned = {(s.compile_id, s.name): s for s in group if s.specialized}.values()
    pins = tuple(Pin(s.compile_id, s.value, innermost_own(s.user_stack)) for s in pinned)
    symbols = {s.name for s in group}
    nodes = (node for i in compile_ids for graph in facts.graphs.get(i, ()) for node in graph.nodes)
    users = (innermost_own(node.source) for node in nodes if symbols.intersection(node.inputs))
    names = facts.names.get(last.compile_id, Names())
    told = list(_told(name, guards.get(last.compile_id, ()), names))
    low, high = _bounds(name, last, [text for text, _ in told])
    conditions: list[Condition] = []
    for text, guard in told:
        if not _bounds_of(name, text):
            line = whole_line(guard.user_line, guard.compile_id, facts) if guard.user_line else None
            conditions.append(Condition(text, line))
    ids = dict.fromkeys((*compile_ids, *(symbol.compile_id for symbol in group)))
    seen = (facts.values.get(one, _NO_GUARDS).values.get(name, "") for one in ids)
    compilation = facts.compilations.get(last.compile_id)
    return Dimension(
        author_name(compilation, facts) if compilation else facts.home(last.compile_id),
        phrase(name, names),
        role(name, facts.values.get(last.compile_id, _NO_GUARDS)),
        tuple(dict.fromkeys(symbol.name for symbol in group)),
        tuple(dict.fromkeys(value for value in seen if value)),
        low,
        high,
        tuple(conditions),
        tuple(dict.fromkeys(line for line in users if line is not None)),
        pins,
    )


def _told(name: str, guards: Iterable[Guard], names: Names) -> Iterator[tuple[str, Guard]]:
    """The guards that speak of a size; that strides follow from sizes is not a demand."""
    word = re.compile(rf"(?<![\w.\]]){re.escape(name)}(?!\w)")
    for guard in guards:
        text = readable(guard.expression, names)
        if ".stride(" not in text and word.search(text):
            yield text, guard


def _bounds(name: str, symbol: Symbol, texts: Iterable[str]) -> tuple[int | None, int | None]:
    if symbol.specialized and _NUMBER.match(symbol.value):
        return int(symbol.value), int(symbol.value)
    found = _RANGE.match(symbol.value_range)
    low, high = (_number(found["low"]), _number(found["high"])) if found else (None, None)
    for text in texts:
        if bounds := _bounds_of(name, text):
            low = max((b for b in (low, bounds[0]) if b is not None), default=None)
            high = min((b for b in (high, bounds[1]) if b is not None), default=None)
    return low, high


def _bounds_of(name: str, text: str) -> tuple[int | None, int | None] | None:
    found = _BOUNDS.match(text)
    if found is None or found["name"] != name or not (found["low"] or found["high"]):
        return None
    return _number(found["low"]), _number(found["high"])


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.match(text) else None


def _conditions(guards: Iterable[Guard], wanted: set[CompileId]) -> Mapping[CompileId, Sequence[Guard]]:
    """The guards on sizes of each compilation: torch writes them without a source of their own."""
    found: dict[CompileId, list[Guard]] = {}
    for guard in guards:
        if guard.compile_id in wanted and guard.kind == "LAMBDA_GUARD" and not guard.source:
            found.setdefault(guard.compile_id, []).append(guard)
    return found
