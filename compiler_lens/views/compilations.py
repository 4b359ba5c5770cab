"""The table of compilations, which the report and the view of graphs share, and how a function is named in it."""

from __future__ import annotations

from collections.abc import Iterable

from compiler_lens.facts.program.compilations import CompilationRow
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.recording.model import Outcome
from compiler_lens.views import words
from compiler_lens.views.document import Column, Table
from compiler_lens.views.parts import At, Cell, Compiled, Kind, Parts, Span, Tone, quiet, strong
from compiler_lens.views.text import times

_TONES = {
    Outcome.SKIPPED: Tone.WARN,
    Outcome.FAILED: Tone.BAD,
    Outcome.RECOMPILE_LIMIT: Tone.WARN,
    Outcome.TRACED: Tone.QUIET,
    Outcome.EMPTY: Tone.QUIET,
    Outcome.UNFINISHED: Tone.WARN,
}
_COLUMNS = (
    Column("id"),
    Column("function", flexible=True, middle=True),
    Column("Dynamo", Kind.COUNT),
    Column("fwd", Kind.COUNT),
    Column("bwd", Kind.COUNT),
    Column("kernels", Kind.COUNT),
    Column("time", Kind.SECONDS, missing="-"),
    Column("outcome", choice=True, headless=True),
)


def compilation_table(rows: Iterable[CompilationRow]) -> Table:
    """Return a row for each compilation: function, ops of each graph, kernels, seconds; the outcome if it failed."""
    cells: list[tuple[Cell, ...]] = []
    for row in rows:
        rest = f" after line {row.resumes_at}" if row.resumes_at is not None else ""
        name, *place = named(row.name, short=True)
        several = times(row.times) if row.times > 1 else ""
        outcome: Parts = (several,) if several else ()
        if row.outcome is not Outcome.COMPILED:
            failed = Span(words.OUTCOMES[row.outcome], _TONES[row.outcome])
            outcome = failed, f" {several}" if several else ""
        ops = row.dynamo_ops or None, row.forward_ops, row.backward_ops, row.kernels or None
        cells.append((Compiled(row.compile_ids[0]), (name, rest, *place), *ops, row.seconds, outcome))
    return Table(_COLUMNS, tuple(cells))


def named(function: FunctionName, *, short: bool = False) -> Parts:
    """Return a function's name and the place of its definition, where that is known."""
    place = (quiet("  "), At(function, Tone.QUIET, short)) if function.file else ()
    return strong(function.name), *place
