"""Functions: what became of each, and of every frame it fell into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from compiler_lens.facts.breaks.raised import raised
from compiler_lens.facts.overview.shared import cards_of, coverage_of, reports_of
from compiler_lens.facts.program.coverage import Coverage, Frame, Function, FunctionName, Lines, Treatment
from compiler_lens.facts.program.owners import Owner
from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.model import BreakOutcome, CompileId, Outcome, Recording, SourceLine
from compiler_lens.views import words
from compiler_lens.views.advice import changed, often, why
from compiler_lens.views.document import Block, Column, Document, Paragraph, Section, Table, line
from compiler_lens.views.parts import At, Cell, Compiled, File, Kind, Parts, Span, Tone, ToView, quiet
from compiler_lens.views.text import joined, one_line, plural, times

_OUTCOME_TONES = {
    Outcome.COMPILED: Tone.GOOD,
    Outcome.TRACED: Tone.QUIET,
    Outcome.EMPTY: Tone.QUIET,
    Outcome.FAILED: Tone.BAD,
}
_TREATMENT_TONES = {
    Treatment.FAILED: Tone.BAD,
    Treatment.SPLIT: Tone.GOOD,
    Treatment.WHOLE: Tone.GOOD,
    Treatment.TRACED: Tone.QUIET,
    Treatment.EMPTY: Tone.QUIET,
}
WORST_FIRST = (*words.TREATMENTS_COUNTED, Treatment.SPLIT, Treatment.WHOLE, Treatment.TRACED, Treatment.EMPTY)
_EAGER = (BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST)

Reasons = Mapping[CompileId, Parts]  # why something of a compilation runs eagerly
Asked = TypeVar("Asked", Frame, Function)


class FunctionFacts(Struct, frozen=True):
    """What became of a function."""

    function: FunctionName
    treatment: Treatment
    own: bool
    owner: Owner
    parts: int
    eager_lines: tuple[Lines, ...]
    reason: str
    compile_ids: tuple[CompileId, ...]


class FrameFacts(Struct, frozen=True):
    """What became of a frame."""

    function: FunctionName
    outcome: Outcome
    reason: str
    resumes_at: int | None
    graph_breaks: int
    compile_ids: tuple[CompileId, ...]


class LibraryFrame(Struct, frozen=True):
    """A frame of a library with nothing in it to compile."""

    function: FunctionName
    reason: str


class CoverageFacts(Struct, frozen=True):
    """What became of every function and of every frame."""

    counts: Mapping[Outcome, int]  # frames by outcome
    functions: tuple[FunctionFacts, ...]
    disabled: tuple[SourceLine, ...]  # calls of functions that are kept out of the compiler on purpose
    frames: tuple[FrameFacts, ...]
    library_frames: tuple[LibraryFrame, ...]
    kept_out: tuple[LibraryFrame, ...] = ()  # whose own frame a mark keeps in Python, but not what it calls


class Data(CoverageFacts, frozen=True):
    """What became of every function and of every frame."""


def coverage_data(covered: Coverage, selection: Selection = EVERYTHING) -> Data:
    """Return coverage for programs, or the part of it that was asked for."""
    homes = {frame.id: function.name for function in covered.functions for frame in function.frames}
    functions = [
        FunctionFacts(f.name, f.treatment, f.own, f.owner, f.parts, f.eager_lines, f.reason, f.compile_ids)
        for f in _chosen(covered.functions, selection)
    ]
    frames: list[FrameFacts] = []
    for frame in _chosen(covered.frames, selection):
        name = homes.get(frame.id, frame.name)
        at, broken = frame.resumes_at, len(frame.breaks)
        frames.append(FrameFacts(name, frame.outcome, frame.reason, at, broken, frame.compile_ids))
    library = tuple(LibraryFrame(frame.name, frame.reason) for frame in covered.library)
    kept_out = tuple(LibraryFrame(frame.name, frame.reason) for frame in covered.kept_out)
    return Data(dict(covered.counts), tuple(functions), covered.disabled, tuple(frames), library, kept_out)


def document(recording: Recording, selection: Selection) -> Document:
    """Return what became of every function, worst first, and why it is not compiled."""
    covered = coverage_of(recording, selection)
    data = coverage_data(covered, selection)
    functions = sorted(_chosen(covered.functions, selection), key=lambda f: WORST_FIRST.index(f.treatment))
    library = _chosen(covered.library, selection)
    kept_out = _chosen(covered.kept_out, selection)
    if not functions and not library and not kept_out:
        return Document((line("No frame entered the compiler."),), data, count=0)
    reasons = _reasons(recording, selection)
    own, others = [f for f in functions if f.own], [f for f in functions if not f.own]
    sections = [_functions("Functions", own, reasons)] if own else []
    sections += [_functions("Functions of libraries", others, reasons)] if others else []
    sections += [_disabled(covered.disabled)] if covered.disabled and selection.ids is None else []
    sections += [_kept_out(kept_out)] if kept_out else []
    sections += [_passed_over(library)] if library else []
    counted = sum(not function.treatment.is_idle for function in functions)  # as the first screen does
    return Document(tuple(sections), data, count=counted or None)


def _chosen(several: Iterable[Asked], selection: Selection) -> list[Asked]:
    """Functions or frames of which a compilation was asked for."""
    return [one for one in several if selection.ids is None or not selection.ids.isdisjoint(one.compile_ids)]


def _reasons(recording: Recording, selection: Selection) -> Reasons:
    found: dict[CompileId, Parts] = {}
    for number, card in enumerate(cards_of(recording, selection), 1):
        for event in card.events:
            if event.outcome in _EAGER:
                found.setdefault(event.compile_id, (ToView(f"break {number}", "breaks", number), f": {why(card)}"))
    for report in reports_of(recording, selection):
        if report.limit:
            found[report.limit] = (f"recompiled {often(report.recompiles)}: {changed(*report.subjects[0])}",)
    for compilation in recording.compilations:
        if compilation.outcome is Outcome.FAILED and compilation.failure and compilation.failure_line:
            at = At(compilation.failure_line, short=True)
            found[compilation.compile_id] = (at, f": {raised(compilation.failure) or compilation.failure.gb_type}")
    return found


def _functions(title: str, functions: Sequence[Function], reasons: Reasons) -> Section:
    columns = (
        Column("function", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
        Column("at", tone=Tone.QUIET, flexible=True, middle=True, headless=True),
        Column("became", headless=True),
        Column("compilation", tone=Tone.QUIET, headless=True),
    )
    above: set[Parts] = set()
    rows: list[tuple[Cell, ...]] = []
    beneath: list[tuple[Block, ...]] = []
    for function in functions:
        place = At(function.name, short=True) if function.name.file else ""
        compiled = _compiled(function.frames[0]) if len(function.frames) == 1 else ""
        rows.append((function.name.name, place, became(function), compiled))
        beneath.append(_beneath(function, reasons, above))
    frames = plural(sum(len(f.frames) for f in functions), "frame")
    empty = sum(function.treatment is Treatment.EMPTY for function in functions)
    nothing = f", {empty:,} with nothing to compile" if empty else ""  # the first screen does not count these
    summary = f"{plural(len(functions), 'function')} in {frames}{nothing}, worst first"
    return Section(title, (Table(columns, tuple(rows), beneath=tuple(beneath)),), summary)


def became(function: Function) -> Span:
    """Return what became of a function: `compiled in 3 parts`, `partly eager: lines 20-34`."""
    return Span(treated(function), _TREATMENT_TONES.get(function.treatment, Tone.WARN))


def treated(function: Function) -> str:
    """Return what became of a function, in words."""
    told = words.TREATMENTS[function.treatment]
    if function.treatment is Treatment.SPLIT:
        return f"compiled in {function.parts} parts" if function.parts > 1 else "compiled around a graph break"
    if function.treatment is not Treatment.PARTLY_EAGER:
        return told
    merged: list[tuple[int, int | None]] = []  # what overlaps as one
    for part in sorted(function.eager_lines, key=lambda p: p.first):
        first, last = part.first, part.last
        if merged and (merged[-1][1] is None or first <= merged[-1][1] + 1):
            first, before = merged.pop()
            last = None if before is None or last is None else max(before, last)
        merged.append((first, last))
    ranges = [f"{a} on" if b is None else str(a) if a == b else f"{a}-{b}" for a, b in merged]
    single = len(merged) == 1 and merged[0][0] == merged[0][1]
    return f"{told}: {'line' if single else 'lines'} {', '.join(ranges)}"


def _compiled(frame: Frame) -> Cell:
    """`[0/0]`, with how often it was compiled."""
    first, again = Compiled(frame.compilations[0].compile_id), len(frame.compilations)
    if first.compile_id.frame is None and not frame.compilations[0].door:
        return ""
    return (first, quiet(f" {times(again)}")) if again > 1 else first


def _beneath(function: Function, reasons: Reasons, above: set[Parts]) -> tuple[Block, ...]:
    """Why it, or a part of it, is not compiled, a break that stands above already by its number; its several frames."""
    told: list[Block] = []
    if not (function.treatment.is_compiled or function.treatment.is_idle):
        found = dict.fromkeys(reasons[i] for i in function.compile_ids if i in reasons)
        for reason in found or [(one_line(function.reason, 600),)]:
            told.append(Paragraph((reason[0], ", as above") if reason in above else reason, indent=6))
            if isinstance(reason[0], ToView):
                above.add(reason)
    rows: list[tuple[Cell, ...]] = []
    for frame in function.frames:
        at = f"after line {frame.resumes_at}" if frame.resumes_at is not None else "from its start"
        outcome = Span(words.OUTCOMES[frame.outcome], _OUTCOME_TONES.get(frame.outcome, Tone.WARN))
        rows.append((_compiled(frame), at, outcome, plural(len(frame.breaks), "graph break") if frame.breaks else ""))
    columns = (Column(tone=Tone.QUIET), Column(), Column(), Column(tone=Tone.QUIET))
    frames = Table(columns, tuple(rows), indent=6, is_short=True)
    return (*told, frames) if len(rows) > 1 else tuple(told)


def _disabled(calls: Sequence[SourceLine]) -> Section:
    columns = (
        Column("at", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
        Column("call", Kind.CODE, tone=Tone.CODE, flexible=True, headless=True),
    )
    table = Table(columns, tuple((At(at), one_line(at.code, 200)) for at in calls))
    told = f"{plural(len(calls), 'call')} of functions that are kept out of the compiler"
    return Section("Disabled on purpose", (table,), told)


def _kept_out(frames: Sequence[Frame]) -> Section:
    columns = (
        Column("function", tone=Tone.STRONG, flexible=True, middle=True, headless=True),
        Column("at", tone=Tone.QUIET, flexible=True, middle=True, headless=True),
    )
    names = dict.fromkeys(frame.name for frame in frames)
    told = f"{plural(len(names), 'function')} kept in Python by a mark, without what they call"
    return Section("Kept out on purpose", (Table(columns, tuple((name.name, At(name)) for name in names)),), told)


def _passed_over(frames: Sequence[Frame]) -> Section:
    groups: dict[tuple[str, str], list[str]] = {}
    for frame in frames:
        reason = one_line(frame.reason, 200) or words.OUTCOMES[frame.outcome]
        groups.setdefault((frame.compilations[0].file, reason), []).append(frame.name.name)
    rows: list[tuple[Cell, ...]] = []
    for (file, reason), names in sorted(groups.items(), key=lambda item: -len(item[1])):
        rows.append((len(names), File(file), reason, joined(list(dict.fromkeys(names)), 6)))
    columns = (
        Column("frames", Kind.COUNT, headless=True),
        Column("file", tone=Tone.STRONG, flexible=True, headless=True),
        Column("because", flexible=True, headless=True),
        Column("functions", tone=Tone.QUIET, flexible=True, headless=True),
    )
    told = f"{plural(len(frames), 'frame')} of libraries with nothing in it to compile"
    return Section("Passed over", (Table(columns, tuple(rows)),), told)
