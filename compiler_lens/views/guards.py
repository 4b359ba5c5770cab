"""Guards: how many of each kind, or every one of a compilation; and the sizes that became symbolic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from msgspec import Struct

from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Guard, Recording, Symbol
from compiler_lens.views.compilations import named
from compiler_lens.views.document import Block, Column, Command, Document, Section, Table, line
from compiler_lens.views.parts import At, Compiled, Kind, Tone
from compiler_lens.views.text import plural


class Data(Struct, frozen=True):
    """The conditions under which compiled code is reused."""

    guards: tuple[Guard, ...]
    symbols: tuple[Symbol, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return the guards by kind and by compilation; of the compilations that were asked for, every guard."""
    guards = tuple(guard for guard in recording.guards if selection.has(guard))
    symbols = tuple(symbol for symbol in recording.symbols if selection.has(symbol))
    if not guards and not symbols:
        return Document((line("No guards."),), Data(guards, symbols), count=0)
    summary = f"{plural(len(guards), 'condition')} under which compiled code is reused"
    blocks: tuple[Block, ...] = (_every(guards),)
    if selection.ids is None and not selection.folds_nothing:
        columns = (Column("kind", tone=Tone.STRONG), Column("guards", Kind.COUNT))
        kinds = Table(columns, tuple(Counter(guard.kind for guard in guards).most_common()))
        blocks = (kinds, *_by_compilation(recording, guards))
    sections = (Section("Guards", blocks, summary), *_symbolic(symbols))
    return Document(sections, Data(guards, symbols), count=len(guards))


def _by_compilation(recording: Recording, guards: Iterable[Guard]) -> tuple[Block, ...]:
    counts = Counter(guard.compile_id for guard in guards)
    having = [compilation for compilation in recording.compilations if counts[compilation.compile_id]]
    if not having:
        return ()
    rows = tuple((Compiled(c.compile_id), named(function_name(c)), counts[c.compile_id]) for c in having)
    columns = (Column("id"), Column("function", flexible=True), Column("guards", Kind.COUNT))
    every = Command("every guard of one: ", f"guards {having[0].compile_id}")
    return (Section("", (Table(columns, rows), every)),)


def _every(guards: Iterable[Guard]) -> Table:
    """Each guard once for each compilation, the line of the user's that asked for it beside it."""
    folded: Counter[tuple[object, ...]] = Counter()
    first: dict[tuple[object, ...], Guard] = {}
    for guard in guards:
        at = guard.user_line
        key = (guard.compile_id, guard.kind, guard.source, guard.expression, at and (at.file, at.line))
        folded[key] += 1
        first.setdefault(key, guard)
    columns = (
        Column("id", choice=True),
        Column("kind", tone=Tone.STRONG, flexible=True, choice=True),
        Column("condition", Kind.CODE, flexible=True),
        Column("asked for at", tone=Tone.CODE, flexible=True, middle=True),
        Column("times", Kind.TIMES),
    )
    several = len({guard.compile_id for guard in first.values()}) > 1
    rows = tuple(
        (
            Compiled(guard.compile_id) if several else None,
            guard.kind,
            guard.expression or guard.source,
            At(guard.user_line) if guard.user_line else None,
            folded[key],
        )
        for key, guard in first.items()
    )
    return Table(columns, rows)


def _symbolic(symbols: Iterable[Symbol]) -> tuple[Section, ...]:
    rows = tuple(
        (
            Compiled(symbol.compile_id),
            symbol.name,
            symbol.source,
            f"pinned to {symbol.value}" if symbol.specialized else f"saw {symbol.value}",
            symbol.value_range,
            At(symbol.user_stack[-1]) if symbol.user_stack else None,
            symbol.reason,
        )
        for symbol in symbols
    )
    columns = (
        Column("id", choice=True),
        Column("symbol", tone=Tone.STRONG),
        Column("stands for", flexible=True),
        Column("value"),
        Column("range"),
        Column("at", tone=Tone.CODE, flexible=True),
        Column("because", flexible=True),
    )
    return (Section("Symbolic sizes", (Table(columns, rows),)),) if rows else ()
