"""Where compile time went: phases, compilations, torch's own timed events."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.program.compilations import compile_seconds
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.time.phases import PhaseTimes, phase_times
from compiler_lens.recording.model import Compilation, CompileId, Recording, Span
from compiler_lens.recording.torch_names import Phase
from compiler_lens.views import words
from compiler_lens.views.compilations import named
from compiler_lens.views.document import Bar, Block, Column, Document, Line, Section, Table, Timeline, line
from compiler_lens.views.parts import Compiled, Kind, Tone, quiet
from compiler_lens.views.text import plural, seconds

_EVENTS = 15  # of torch's timed events, where not all are wanted


class PhaseSeconds(Struct, frozen=True):
    """Compile time by phase; the total is that of forward and backward."""

    total_seconds: float | None  # None: the recording has no timed events
    forward: Mapping[str, float]
    backward: Mapping[str, float]  # of backwards that were compiled lazily
    parallel_seconds: float  # of compile workers, beside all this


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
    phases = phase_times(spans)
    by_id = spans_by_id(spans)
    data = Data(phase_seconds(phases), tuple(_seconds(one, by_id) for one in compilations), spans)
    if not compilations and not spans:
        return Document((line("No compile times."),), data, count=0)
    is_apart = bool(phases.backward_seconds) or selection.folds_nothing
    table = _apart(phases) if is_apart else phase_table(phases)
    blocks: list[Block] = [timeline(recording)] if selection.folds_nothing else []
    if phases.timed:
        blocks.append(Section("Compile time", (table, *workers(phases)), total_words(phases)))
    blocks += [*_by_compilation(compilations), *_events(spans, selection.folds_nothing)]
    return Document(tuple(blocks), data)


def phase_seconds(phases: PhaseTimes) -> PhaseSeconds:
    """Return phases as plain seconds, for programs."""
    return PhaseSeconds(
        phases.total if phases.timed else None,
        {phase.value: value for phase, value in phases.forward.items()},
        {phase.value: value for phase, value in phases.backward.items()},
        phases.parallel,
    )


def spans_by_id(spans: Iterable[Span]) -> Mapping[CompileId | None, Sequence[Span]]:
    """Return torch's timed events by compilation."""
    found: defaultdict[CompileId | None, list[Span]] = defaultdict(list)
    for span in spans:
        found[span.compile_id].append(span)
    return found


def _seconds(compilation: Compilation, spans: Mapping[CompileId | None, Sequence[Span]]) -> CompilationSeconds:
    phases = phase_seconds(phase_times(spans.get(compilation.compile_id, ())))
    return CompilationSeconds(compilation.compile_id, compilation.seconds, compilation.backward_seconds, phases)


def phase_table(phases: PhaseTimes, most: int = len(Phase)) -> Table:
    """Return a row for each phase with its share and a bar; beyond `most` rows, the shorter ones as one."""
    rows = [(words.PHASES[phase], value) for phase, value in phases.both]
    if len(rows) > most + 1:
        rest = rows[most:]
        rows = [*rows[:most], (f"{len(rest)} more", sum(value for _, value in rest))]
    columns = (Column(), Column(kind=Kind.SECONDS), Column(kind=Kind.SHARE, tone=Tone.QUIET), Column(kind=Kind.BAR))
    whole = phases.total or 1.0
    return Table(columns, tuple((name, value, value / whole, value) for name, value in rows))


def _apart(phases: PhaseTimes) -> Table:
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


def total_words(phases: PhaseTimes) -> str:
    """Return the seconds in all, a lazy backward apart."""
    apart = ""
    if phases.backward_seconds:
        apart = f": forward {seconds(phases.forward_seconds)}, lazy backward {seconds(phases.backward_seconds)}"
    return f"{seconds(phases.total)}{apart}"


def workers(phases: PhaseTimes) -> tuple[Line, ...]:
    """Return what compile workers did at the same time: no part of the total."""
    told = f"beside that, {seconds(phases.parallel)} of kernel compilation in parallel workers"
    return (line(quiet(told), indent=2),) if phases.parallel else ()


def timeline(recording: Recording) -> Timeline:
    """Return the whole run: every compilation in order, its seconds by phase, and what happened in it."""
    spans = spans_by_id(recording.spans)
    breaks = Counter(event.compile_id for event in recording.graph_breaks)
    again = {recompile.compile_id for recompile in recording.recompiles}
    bars = []
    for each in sorted(recording.compilations, key=lambda compilation: compilation.started):
        times = phase_times(spans.get(each.compile_id, ()))
        parts = tuple(times.forward.get(phase, 0.0) + times.backward.get(phase, 0.0) for phase in Phase)
        broken, is_again = breaks[each.compile_id], each.compile_id in again
        bars.append(Bar(each.compile_id, function_name(each).name, compile_seconds(each), parts, broken, is_again))
    return Timeline(tuple(words.PHASES[phase] for phase in Phase), tuple(bars))


def _by_compilation(compilations: Iterable[Compilation]) -> tuple[Section, ...]:
    ranked = sorted(compilations, key=lambda compilation: -(compile_seconds(compilation) or 0.0))
    columns = (
        Column("id"),
        Column("function", flexible=True),
        Column("forward", Kind.SECONDS, missing="-"),
        Column("lazy backward", Kind.SECONDS, missing="-"),
    )
    rows = tuple(
        (Compiled(one.compile_id), named(function_name(one)), one.seconds, one.backward_seconds) for one in ranked
    )
    return (Section("By compilation", (Table(columns, rows),)),) if rows else ()


def _events(spans: Iterable[Span], is_whole: bool) -> tuple[Section, ...]:
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
    return (Section("torch's timed events", (Table(columns, rows),), told),) if rows else ()
