"""Which compiled graphs run as CUDA graphs, and why not the others."""

from __future__ import annotations

from msgspec import Struct

from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CudagraphOutcome, CudagraphState, Recording
from compiler_lens.views import words
from compiler_lens.views.document import Column, Document, Section, line, table
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
    shown = table(
        outcomes,
        (Column("id"), lambda one: Compiled(one.compile_id)),
        (Column("pass", choice=True), lambda one: words.PASSES[one.direction] if one.direction else ""),
        (
            Column("state", choice=True),
            lambda one: Span(words.CUDAGRAPHS[one.state], Tone.GOOD if one.state in _FINE else Tone.WARN),
        ),
        (Column("partitions", Kind.COUNT), lambda one: one.partitions or None),
        (Column("because", flexible=True), lambda one: one.reason),
        (
            Column("at", tone=Tone.STRONG, flexible=True),
            lambda one: At(one.user_stack[-1], Tone.STRONG) if one.user_stack else None,
        ),
    )
    section = Section("CUDA graphs", (shown,), plural(len(outcomes), "graph"))
    return Document((section,), Data(outcomes), count=len(outcomes))
