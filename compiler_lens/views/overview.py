"""What the page says first: the verdict, what to do about it, and where the rest is."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from compiler_lens.facts.overview.shared import rows_of, summary_of
from compiler_lens.facts.overview.summary import Summary
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.views import words
from compiler_lens.views.document import Block, Column, Columns, KeyFigures, Section, Table, line
from compiler_lens.views.findings import page_steps
from compiler_lens.views.frames import WORST_FIRST, became
from compiler_lens.views.headline import gaps, headline, setting
from compiler_lens.views.parts import At, KernelName, Kind, Tone, ToView
from compiler_lens.views.text import plural
from compiler_lens.views.times import phase_table, timeline, total_words, workers

_FUNCTIONS = 8
_PHASES = 7
_KERNELS = 6
_GAPS = 4


def overview(recording: Recording, selection: Selection) -> tuple[Block, ...]:
    """Return the first view of a page."""
    summary = summary_of(recording, selection)
    beside = (*_functions(summary), *_times(summary))
    return (
        line(*setting(recording.environment, summary)),
        *headline(recording, summary),
        *page_steps(recording, summary),
        timeline(recording),
        *((Columns(beside),) if beside else ()),
        *_kernels(recording, selection),
        *gaps(recording, _GAPS),
    )


def _functions(summary: Summary) -> Iterator[Section]:
    """The user's own first, the worst of them first."""
    covered = summary.coverage
    if not covered.functions:
        return
    counts = covered.treatments
    tally = KeyFigures(tuple(f"{words.TREATMENTS[kind]}: {counts[kind]:,}" for kind in WORST_FIRST if counts.get(kind)))
    ranked = sorted(covered.functions, key=lambda f: (not f.own, WORST_FIRST.index(f.treatment)))
    rows = tuple(
        (function.name.name, At(function.name, short=True) if function.name.file else "", became(function))
        for function in ranked[:_FUNCTIONS]
    )
    table = Table((Column(tone=Tone.STRONG), Column(), Column()), rows, is_short=True)
    hidden = len(ranked) - _FUNCTIONS
    more = (line(ToView(plural(hidden, "more function"), "frames")),) if hidden > 0 else ()
    yield Section("Functions", (tally, table, *more))


def _times(summary: Summary) -> Iterator[Section]:
    if summary.phases.timed and summary.phases.total:
        table = replace(phase_table(summary.phases, _PHASES), is_short=True)
        yield Section("Compile time", (table, *workers(summary.phases)), total_words(summary.phases))


def _kernels(recording: Recording, selection: Selection) -> Iterator[Section]:
    ranked = rows_of(recording, selection)[:_KERNELS]
    if not ranked:
        return
    columns = (
        Column(tone=Tone.STRONG),
        Column(),
        Column(),
        Column(kind=Kind.COUNT),
        Column(kind=Kind.COUNT),
        Column(kind=Kind.MICROSECONDS),
    )
    rows = tuple(
        (
            KernelName(row.group.first.name, row.lineages[0].index),
            words.kernel_kind(row.group.first),
            words.PASSES[row.group.first.direction],
            plural(row.group.op_count, "op"),
            plural(row.launches, "launch", "launches"),
            row.facts.microseconds,
        )
        for row in ranked
    )
    told = "what is fused most" if ranked[0].facts.microseconds is None else "the slowest in a call"
    every = line(ToView("all kernels", "kernels"))
    yield Section("Kernels", (Table(columns, rows, is_short=True), every), told)
