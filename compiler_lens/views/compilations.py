"""The table of compilations, which the report and the view of graphs share."""

from __future__ import annotations

from collections.abc import Iterable

from compiler_lens.facts.program.compilations import CompilationRow
from compiler_lens.recording.model import Outcome
from compiler_lens.views import words
from compiler_lens.views.document import Column, Table
from compiler_lens.views.parts import At, Cell, Compiled, Kind, Parts, Span, Tone, quiet, strong
from compiler_lens.views.text import times

_TONES = {
    Outcome.SKIPPED: Tone.WARN,
    Outcome.FAILED: Tone.BAD,
    Outcome.RECOMPILE_LIMIT: Tone.WARN,
    Outcome.EMPTY: Tone.QUIET,
    Outcome.UNFINISHED: Tone.WARN,
}
_COLUMNS = (
    Column("id"),
    Column("function", flexible=True),
    Column("Dynamo", Kind.COUNT),
    Column("fwd", Kind.COUNT),
    Column("bwd", Kind.COUNT),
    Column("kernels", Kind.COUNT),
    Column("time", Kind.SECONDS, missing="-"),
    Column("outcome", choice=True, headless=True),
)


def compilation_table(rows: Iterable[CompilationRow]) -> Table:
    """Return a row for each compilation: function, ops of each graph, kernels, seconds; the outcome if it failed."""
    return Table(_COLUMNS, tuple(_cells(row) for row in rows))


def _cells(row: CompilationRow) -> tuple[Cell, ...]:
    return (
        Compiled(row.compile_ids[0]),
        _function(row),
        row.dynamo_ops or None,
        row.forward_ops,
        row.backward_ops,
        row.kernels or None,
        row.seconds,
        _outcome(row),
    )


def _function(row: CompilationRow) -> Parts:
    rest = f" after line {row.resumes_at}" if row.resumes_at is not None else ""
    place = (quiet("  "), At(row.name, Tone.QUIET, short=True)) if row.name.file else ()
    return strong(row.name.name), rest, *place


def _outcome(row: CompilationRow) -> Parts:
    several = times(row.times) if row.times > 1 else ""
    if row.outcome is Outcome.COMPILED:
        return (several,) if several else ()
    return Span(words.OUTCOMES[row.outcome], _TONES[row.outcome]), f" {several}" if several else ""
