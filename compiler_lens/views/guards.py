"""Guards: how many of each kind, or every one of a compilation; and the sizes that became symbolic."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from msgspec import Struct

from compiler_lens.facts.program.coverage import function_name, resumed_line
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.guard_values import stack_names
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Guard, Recording, Symbol
from compiler_lens.views import words
from compiler_lens.views.compilations import named
from compiler_lens.views.document import Block, Column, Command, Document, Section, Table, line, paragraph, table
from compiler_lens.views.parts import At, Cell, Compiled, Kind, Tone
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
    if selection.ids is None and not selection.for_page:
        columns = (Column("kind", tone=Tone.STRONG), Column("guards", Kind.COUNT))
        kinds = Table(columns, tuple(Counter(guard.kind for guard in guards).most_common()))
        blocks = (kinds, *_by_compilation(recording, guards))
    sections = [Section("Guards", blocks, summary), *([_symbolic(symbols)] if symbols else [])]
    listed = guards if selection.ids is not None or selection.for_page else ()
    return Document((*sections, *_of_stack(recording, listed, symbols)), Data(guards, symbols), count=len(guards))


def _by_compilation(recording: Recording, guards: Iterable[Guard]) -> tuple[Block, ...]:
    counts = Counter(guard.compile_id for guard in guards)
    having = [compilation for compilation in recording.compilations if counts[compilation.compile_id]]
    if not having:
        return ()
    rows = tuple((Compiled(c.compile_id), named(function_name(c)), counts[c.compile_id]) for c in having)
    columns = (Column("id"), Column("function", flexible=True), Column("guards", Kind.COUNT))
    every = Command("every guard of one: ", f"guards {having[0].compile_id}")
    return (Section("", (Table(columns, rows), every)),)


def _every(guards: Sequence[Guard]) -> Table:
    """Each guard once for each compilation, the line of the user's that asked for it beside it."""
    columns = (
        Column("id", choice=True),
        Column("kind", tone=Tone.STRONG, flexible=True, choice=True),
        Column("condition", Kind.CODE, flexible=True),
        Column("asked for at", tone=Tone.CODE, flexible=True, middle=True),
        Column("times", Kind.TIMES),
    )

    def shown(guard: Guard) -> tuple[object, ...]:
        return guard.compile_id, guard.kind, guard.source, guard.expression, guard.user_line and guard.user_line.place

    several = len({guard.compile_id for guard in guards}) > 1
    rows: list[tuple[Cell, ...]] = []
    for one, *more in grouped(guards, shown).values():
        at = At(one.user_line) if one.user_line else None
        compiled = Compiled(one.compile_id) if several else None
        rows.append((compiled, one.kind, one.expression or one.source, at, 1 + len(more)))
    return Table(columns, tuple(rows))


def _of_stack(recording: Recording, guards: Iterable[Guard], symbols: Iterable[Symbol]) -> tuple[Block, ...]:
    """Say what torch's names of values on the stack are, where some of them are shown."""
    texts = [(one.compile_id, f"{one.expression} {one.source}") for one in guards]
    texts += [(one.compile_id, one.source) for one in symbols]
    having = {compile_id for compile_id, text in texts if stack_names(text)}
    lines = {resumed_line(one) for one in recording.compilations if one.compile_id in having}
    names = stack_names(" ".join(text for _, text in texts))
    said = words.on_stack(names, lines.pop() if len(lines) == 1 else None)
    return (paragraph(said, indent=2, tone=Tone.QUIET),) if names else ()


def _symbolic(symbols: Iterable[Symbol]) -> Section:
    shown = table(
        symbols,
        (Column("id", choice=True), lambda one: Compiled(one.compile_id)),
        (Column("symbol", tone=Tone.STRONG), lambda one: one.name),
        (Column("stands for", flexible=True), lambda one: one.source),
        (Column("value"), lambda one: f"{'pinned to' if one.specialized else 'saw'} {one.value}"),
        (Column("range"), lambda one: one.value_range),
        (Column("at", tone=Tone.CODE, flexible=True), lambda one: At(one.user_stack[-1]) if one.user_stack else None),
        (Column("because", flexible=True), lambda one: one.reason),
    )
    return Section("Symbolic sizes", (shown,))
