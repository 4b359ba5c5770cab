"""Which compiled graphs run as CUDA graphs, and why not the others."""

from __future__ import annotations

from msgspec import Struct

from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CudagraphOutcome, CudagraphState, Recording
from compiler_lens.views import words
from compiler_lens.views.document import Column, Document, Section, Table, line
from compiler_lens.views.parts import At, Compiled, Kind, Span, Tone
from compiler_lens.views.text import plural

_FINE = frozenset({CudagraphState.CAPTURED, CudagraphState.PARTITIONED})


class Data(Struct, frozen=True):
    """What became of each compiled graph as a CUDA graph."""

    outcomes: tuple[CudagraphOutcome, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return which compiled graphs run as CUDA graphs, and why not the others."""
    outcomes = tuple(outcome for outcome in recording.cudagraphs if selection.has(outcome))
    if not outcomes:
        told = "CUDA graphs: nothing recorded. They are asked for by mode reduce-overhead or max-autotune."
        return Document((line(told),), Data(outcomes), count=0)
    columns = (
        Column("id"),
        Column("pass", choice=True),
        Column("state", choice=True),
        Column("partitions", Kind.COUNT),
        Column("because", flexible=True),
        Column("at", tone=Tone.STRONG, flexible=True),
    )
    rows = tuple(
        (
            Compiled(outcome.compile_id),
            words.PASSES[outcome.direction] if outcome.direction else "",
            Span(words.CUDAGRAPHS[outcome.state], Tone.GOOD if outcome.state in _FINE else Tone.WARN),
            outcome.partitions or None,
            outcome.reason,
            At(outcome.user_stack[-1], Tone.STRONG) if outcome.user_stack else None,
        )
        for outcome in outcomes
    )
    section = Section("CUDA graphs", (Table(columns, rows),), plural(len(outcomes), "graph"))
    return Document((section,), Data(outcomes), count=len(outcomes))
