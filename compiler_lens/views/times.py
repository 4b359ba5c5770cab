"""Where compile time went: phases, compilations, torch's own timed events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct

from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.time.phases import PhaseSeconds, phase_times
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, Recording, Span
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views import words
from compiler_lens.views.compilations import named
from compiler_lens.views.document import Bar, Block, Column, Document, Section, Table, Timeline, line
from compiler_lens.views.parts import Compiled, Kind, Tone, quiet
from compiler_lens.views.text import plural, seconds

_EVENTS = 15  # of torch's timed events, where not all are wanted


class CompilationSeconds(Struct, frozen=True):
    """Compile time of one compilation."""

    compile_id: CompileId
    seconds: float | None
    backward_seconds: float | None
    phases: PhaseSeconds


class Data(Struct, frozen=True):
    """Compile time in seconds."""

    phases: PhaseSeconds
    compilations: tuple[CompilationSeconds, ...]
    spans: tuple[Span, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return compile time by phase, by compilation and by torch's events, the longest first."""
    spans = tuple(span for span in recording.spans if selection.has(span))
    compilations = [compilation for compilation in recording.compilations if selection.has(compilation)]
    phases, by_id = phase_times(spans), grouped(spans, lambda span: span.compile_id)
    of_each: list[CompilationSeconds] = []
    for one in compilations:
        own = phase_times(by_id.get(one.compile_id, ()))
        of_each.append(CompilationSeconds(one.compile_id, one.seconds, one.backward_seconds, own))
    data = Data(phases, tuple(of_each), spans)
    if not compilations and not spans:
        return Document((line("No compile times."),), data, count=0)
    is_apart = bool(phases.backward_seconds) or selection.for_page
    table = _apart(phases) if is_apart else phase_table(phases)
    blocks: list[Block] = [timeline(recording)] if selection.for_page else []
    if phases.timed:
        blocks.append(compile_time(phases, table))
    blocks += [_by_compilation(compilations)] if compilations else []
    calls = {compilation.door for compilation in compilations}  # whose time is in the phases, and torch times none
    events = [span for span in spans if span.name not in calls]
    blocks += [_events(events, selection.for_page)] if events else []
    return Document(tuple(blocks), data)


def phase_table(phases: PhaseSeconds, most: int = len(Phase)) -> Table:
    """Return a row for each phase with its share and a bar; beyond `most` rows, the shorter ones as one."""
    rows = [(words.PHASES[phase], value) for phase, value in phases.both]
    if len(rows) > most + 1:
        rest = rows[most:]
        rows = [*rows[:most], (f"{len(rest)} more", sum(value for _, value in rest))]
    columns = (Column(), Column(kind=Kind.SECONDS), Column(kind=Kind.SHARE, tone=Tone.QUIET), Column(kind=Kind.BAR))
    whole = phases.total or 1.0
    return Table(columns, tuple((name, value, value / whole, value) for name, value in rows))


def _apart(phases: PhaseSeconds) -> Table:
    """The same, with forward and backward in columns of their own."""
    columns = (
        Column("phase", headless=True),
        Column("total", Kind.SECONDS),
        Column("share", Kind.SHARE, Tone.QUIET, headless=True),
        Column("forward", Kind.SECONDS),
        Column("lazy backward", Kind.SECONDS),
    )
    whole = phases.total or 1.0
    rows = []
    for phase, value in phases.both:
        each = (part.get(phase) or None for part in (phases.forward, phases.backward))
        rows.append((words.PHASES[phase], value, value / whole, *each))
    return Table(columns, tuple(rows))


def compile_time(phases: PhaseSeconds, table: Table, *more: Block) -> Section:
    """Return a table of phases below the seconds in all; what compile workers did at the same time is not in them."""
    told, blocks = seconds(phases.total), [table, *more]
    if phases.backward_seconds:
        told += f": forward {seconds(phases.forward_seconds)}, lazy backward {seconds(phases.backward_seconds)}"
    if phases.parallel_seconds:
        beside = f"beside that, {seconds(phases.parallel_seconds)} of kernel compilation in parallel workers"
        blocks.insert(1, line(quiet(beside), indent=2))
    return Section("Compile time", tuple(blocks), told)


def timeline(recording: Recording) -> Timeline:
    """Return the whole run: every compilation in order, its seconds by phase, and what happened in it."""
    spans = grouped(recording.spans, lambda span: span.compile_id)
    breaks = Counter(event.compile_id for event in recording.graph_breaks)
    again = {recompile.compile_id for recompile in recording.recompiles}
    bars = []
    for each in sorted(recording.compilations, key=lambda compilation: compilation.started):
        times = phase_times(spans.get(each.compile_id, ()))
        parts = tuple(times.forward.get(phase, 0.0) + times.backward.get(phase, 0.0) for phase in Phase)
        broken, is_again = breaks[each.compile_id], each.compile_id in again
        bars.append(Bar(each.compile_id, function_name(each).name, compile_seconds(each), parts, broken, is_again))
    return Timeline(tuple(words.PHASES[phase] for phase in Phase), tuple(bars))


def _by_compilation(compilations: Iterable[Compilation]) -> Section:
    columns = (
        Column("id"),
        Column("function", flexible=True),
        Column("forward", Kind.SECONDS, missing="-"),
        Column("lazy backward", Kind.SECONDS, missing="-"),
    )
    ranked = sorted(compilations, key=lambda compilation: -(compile_seconds(compilation) or 0.0))
    rows = tuple((Compiled(c.compile_id), named(function_name(c)), c.seconds, c.backward_seconds) for c in ranked)
    return Section("By compilation", (Table(columns, rows),))


def _events(spans: Iterable[Span], is_whole: bool) -> Section:
    own: defaultdict[str, float] = defaultdict(float)
    calls: Counter[str] = Counter()
    for span in spans:
        own[span.name] += span.self_seconds
        calls[span.name] += 1
    ranked = sorted(own.items(), key=lambda item: -item[1])[: None if is_whole else _EVENTS]
    rows = tuple((name, value, calls[name]) for name, value in ranked)
    columns = (
        Column("event", tone=Tone.CODE, flexible=True),
        Column("self time", Kind.SECONDS),
        Column("calls", Kind.COUNT),
    )
    told = plural(len(rows), "event") if is_whole else f"the longest {len(rows)}"
    return Section("torch's timed events", (Table(columns, rows),), told)
