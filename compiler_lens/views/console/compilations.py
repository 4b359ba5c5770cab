"""The table of compilations, which the report and the `graphs` view share."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from compiler_lens.facts.program.compilations import CompilationRow
from compiler_lens.recording.model import Outcome
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, DIM, PLACE, WARN, Page, line
from compiler_lens.views import words
from compiler_lens.views.text import number, seconds, times

_COLUMNS = (
    Column("id", style=DIM),
    Column("function", flexible=True),
    Column("Dynamo", right=True),
    Column("fwd", right=True),
    Column("bwd", right=True),
    Column("kernels", right=True),
    Column("time", right=True),
    Column(),
)
_STYLES = {
    Outcome.SKIPPED: WARN,
    Outcome.FAILED: BAD,
    Outcome.RECOMPILE_LIMIT: WARN,
    Outcome.EMPTY: DIM,
    Outcome.UNFINISHED: WARN,
}


def compilation_table(rows: Iterable[CompilationRow], page: Page) -> list[Text]:
    """One line per row: function, ops of each graph, kernels, seconds; the outcome where it is not `compiled`."""
    return table(_COLUMNS, [_cells(row, page) for row in rows], page.width)


def _cells(row: CompilationRow, page: Page) -> tuple[str | Text, ...]:
    return (
        f"[{row.compile_ids[0]}]",
        _function(row, page),
        number(row.dynamo_ops) if row.dynamo_ops else "",
        number(row.forward_ops) if row.forward_ops is not None else "",
        number(row.backward_ops) if row.backward_ops is not None else "",
        number(row.kernels) if row.kernels else "",
        seconds(row.seconds),
        _outcome(row),
    )


def _function(row: CompilationRow, page: Page) -> Text:
    rest = f" after line {row.resumes_at}" if row.resumes_at is not None else ""
    place = f"  {page.name(row.name)}" if row.name.file else ""
    return line((row.name.name, PLACE), rest, (place, DIM))


def _outcome(row: CompilationRow) -> Text:
    several = times(row.times) if row.times > 1 else ""
    if row.outcome is Outcome.COMPILED:
        return line(several)
    word = words.OUTCOMES[row.outcome]
    return line((word, _STYLES[row.outcome]), f" {several}" if several else "")
