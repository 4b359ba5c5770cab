"""Guards: how many of each kind, or every one of a compilation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rich.text import Text

from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Compilation, Guard, Recording, Symbol
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, PLACE, Page, command, line, title
from compiler_lens.views.console.recompiles import named
from compiler_lens.views.text import number, plural, times


def guard_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC guards [ID]` shows."""
    guards = [g for g in recording.guards if selection.has(g)]
    symbols = [s for s in recording.symbols if selection.has(s)]
    if not guards and not symbols:
        return [line("No guards.")]
    heading = title("Guards", f"{plural(len(guards), 'condition')} under which compiled code is reused")
    if selection.ids is None:
        return [heading, *_kinds(guards, page), Text(), *_counts(recording, page), *_symbols(symbols, page)]
    return [heading, *_every(guards, page), *_symbols(symbols, page)]


def _kinds(guards: Iterable[Guard], page: Page) -> list[Text]:
    kinds = Counter(g.kind for g in guards).most_common()
    return table(
        (Column("kind", style=PLACE), Column("guards", right=True)), [(k, number(n)) for k, n in kinds], page.width
    )


def _counts(recording: Recording, page: Page) -> list[Text]:
    counts = Counter(g.compile_id for g in recording.guards)
    owners: list[Compilation] = [c for c in recording.compilations if counts[c.compile_id]]
    if not owners:
        return []
    rows = [(f"[{c.compile_id}]", named(function_name(c), page), number(counts[c.compile_id])) for c in owners]
    columns = (Column("id", style=DIM), Column("function", flexible=True), Column("guards", right=True))
    every = command("every guard of one: ", page.show(f"guards {owners[0].compile_id}"))
    return [*table(columns, rows, page.width), every]


def _every(guards: Iterable[Guard], page: Page) -> list[Text]:
    """Each guard once, the line of the user's that asked for it beside it."""
    folded = Counter((g.kind, g.source, g.expression, page.at(g.user_line) if g.user_line else "") for g in guards)
    columns = (
        Column("kind", style=PLACE, flexible=True),
        Column("condition", flexible=True),
        Column("asked for at", style=CODE, flexible=True, middle=True),
        Column(),
    )
    rows = [(k, e or source, at, times(n) if n > 1 else "") for (k, source, e, at), n in folded.items()]
    return table(columns, rows, page.width)


def _symbols(symbols: Iterable[Symbol], page: Page) -> list[Text]:
    rows = [
        (
            f"[{s.compile_id}]", s.name, s.source, f"pinned to {s.value}" if s.specialized else f"saw {s.value}",
            s.value_range, page.at(s.user_stack[-1]) if s.user_stack else "", s.reason,
        )
        for s in symbols
    ]  # fmt: skip
    if not rows:
        return []
    columns = (
        Column("id", style=DIM), Column("symbol", style=PLACE), Column("stands for", flexible=True), Column("value"),
        Column("range"), Column("at", style=CODE, flexible=True), Column("because", flexible=True),
    )  # fmt: skip
    return [Text(), title("Symbolic sizes"), *table(columns, rows, page.width)]
