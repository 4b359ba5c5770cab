"""What the report is: the first screen of a terminal, the first view of a page, and the same for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.overview.shared import rows_of, summary_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.time.caches import CacheCounts
from compiler_lens.facts.time.phases import PhaseSeconds
from compiler_lens.recording.model import CaptureProblem, Environment, Recording, Unavailable
from compiler_lens.views import words
from compiler_lens.views.document import Block, Column, Columns, Document, KeyFigures, Section, Table, line
from compiler_lens.views.findings import FindingFacts, finding_facts
from compiler_lens.views.frames import WORST_FIRST, CoverageFacts, became, coverage_data
from compiler_lens.views.headline import gaps, headline, setting
from compiler_lens.views.parts import At, KernelName, Kind, Tone, ToView
from compiler_lens.views.screen import ROOMS, screen
from compiler_lens.views.steps import page_steps
from compiler_lens.views.text import plural
from compiler_lens.views.times import compile_time, phase_table, timeline

# What the first view of a page has of each.
_FUNCTIONS = 8
_PHASES = 7
_KERNELS = 6
_GAPS = 4


class Counts(Struct, frozen=True):
    """How much of everything there is."""

    compilations: int
    graphs: int
    graph_breaks: int
    recompiles: int
    kernels: int
    problems: int


class Data(Struct, frozen=True):
    """What one screen says of a recording."""

    environment: Environment
    modes: tuple[str, ...]
    options: Mapping[str, str]
    coverage: CoverageFacts
    counts: Counts
    seconds: float | None  # spent compiling
    caches: CacheCounts
    phases: PhaseSeconds
    findings: tuple[FindingFacts, ...]
    problems: tuple[CaptureProblem, ...]
    unavailable: tuple[Unavailable, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return the first screen with as much as it may have, or the first view of a page."""
    summary = summary_of(recording, selection)
    if selection.for_page:
        return Document(_overview(recording, selection, summary), None)  # no page shows what is for programs
    counts = Counts(
        len(recording.compilations), summary.graphs, len(recording.graph_breaks), len(recording.recompiles),
        len(recording.kernels), len(recording.problems),
    )  # fmt: skip
    data = Data(
        recording.environment, summary.modes, dict(summary.options), coverage_data(summary.coverage), counts,
        summary.seconds, summary.caches, summary.phases, finding_facts(summary.findings),
        recording.problems, recording.unavailable,
    )  # fmt: skip
    return Document(screen(recording, selection, ROOMS[0]), data)


def _overview(recording: Recording, selection: Selection, summary: Summary) -> tuple[Block, ...]:
    beside = [*_functions(summary)]
    if summary.phases.timed and summary.phases.total:
        table = replace(phase_table(summary.phases, _PHASES), is_short=True)
        beside.append(compile_time(summary.phases, table))
    return (
        line(*setting(recording.environment, summary)),
        *headline(recording, summary),
        *page_steps(recording, summary),
        timeline(recording),
        *((Columns(tuple(beside)),) if beside else ()),
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


def _kernels(recording: Recording, selection: Selection) -> Iterator[Section]:
    ranked = rows_of(recording, selection)[:_KERNELS]
    if not ranked:
        return
    count, time = Column(kind=Kind.COUNT), Column(kind=Kind.MICROSECONDS)
    rows = tuple(
        (
            KernelName(row.group.first.name, row.lineages[0].index), words.kernel_kind(row.group.first),
            words.PASSES[row.group.first.direction], plural(row.group.op_count, "op"),
            plural(row.launches, "launch", "launches"), row.facts.microseconds,
        )
        for row in ranked
    )  # fmt: skip
    table = Table((Column(tone=Tone.STRONG), Column(), Column(), count, count, time), rows, is_short=True)
    told = "what is fused most" if ranked[0].facts.microseconds is None else "the slowest in a call"
    yield Section("Kernels", (table, line(ToView("all kernels", "kernels"))), told)
