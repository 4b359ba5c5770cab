"""Sizes that may vary and sizes that a line of the user's pinned: which argument, which values, why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.facts.recompiles.failed_guards import role
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.guard_values import EntryValues, Names, phrase, readable
from compiler_lens.facts.recompiles.recompile_facts import Facts, author_name, recompile_facts, whole_line
from compiler_lens.recording.groups import grouped
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

    def place(symbol: Symbol) -> tuple[CompileId, str]:
        # One symbol for sizes that are always equal has several sources: the first one names it.
        names, source = facts.names.get(symbol.compile_id, Names()), symbol.source.partition(", ")[0]
        return facts.epochs.first(symbol.compile_id), readable(source, names)

    # The base of a view is not an argument.
    groups = grouped((s for s in recording.symbols if s.source and "._base" not in s.source), place)
    of_frame = grouped(ids, facts.epochs.first)
    # torch writes guards on sizes without a source of their own.
    on_sizes = (g for g in recording.guards if g.kind == "LAMBDA_GUARD" and not g.source)
    guards = grouped(on_sizes, lambda guard: guard.compile_id)
    made = [_dimension(name, group, of_frame.get(frame, ()), guards, facts) for (frame, name), group in groups.items()]
    return tuple(sorted(made, key=lambda dimension: not dimension.pins))


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
    symbols = dict.fromkeys(s.name for s in group)
    nodes = (node for i in compile_ids for graph in facts.graphs.get(i, ()) for node in graph.nodes)
    users = (innermost_own(node.source) for node in nodes if not symbols.keys().isdisjoint(node.inputs))
    names = facts.names.get(last.compile_id, Names())
    found = _RANGE.match(last.value_range)
    lows, highs = ([_number(found["low"])], [_number(found["high"])]) if found else ([], [])
    conditions: list[Condition] = []
    word = re.compile(rf"(?<![\w.\]]){re.escape(name)}(?!\w)")
    for guard in guards.get(last.compile_id, ()):
        text = readable(guard.expression, names)
        if ".stride(" in text or not word.search(text):  # that strides follow from sizes is not a demand
            continue
        bounds = _BOUNDS.match(text)
        if bounds and bounds["name"] == name and (bounds["low"] or bounds["high"]):
            lows.append(_number(bounds["low"]))
            highs.append(_number(bounds["high"]))
        else:
            line = whole_line(guard.user_line, guard.compile_id, facts) if guard.user_line else None
            conditions.append(Condition(text, line))
    if last.specialized and _NUMBER.match(last.value):
        lows = highs = [int(last.value)]
    ids = dict.fromkeys((*compile_ids, *(symbol.compile_id for symbol in group)))
    seen = (facts.values.get(one, _NO_GUARDS).values.get(name, "") for one in ids)
    compilation = facts.compilations.get(last.compile_id)
    return Dimension(
        author_name(compilation, facts) if compilation else facts.home(last.compile_id),
        phrase(name, names),
        role(name, names, facts.values.get(last.compile_id, _NO_GUARDS)),
        tuple(symbols),
        tuple(dict.fromkeys(value for value in seen if value)),
        max((low for low in lows if low is not None), default=None),
        min((high for high in highs if high is not None), default=None),
        tuple(conditions),
        tuple(dict.fromkeys(line for line in users if line is not None)),
        pins,
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.match(text) else None
