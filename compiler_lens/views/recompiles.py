"""Recompiles, a card for each function: what changed from which value to which, at what price, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct, convert

from compiler_lens.facts.breaks.ranks import Offered
from compiler_lens.facts.overview.shared import reports_of
from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.owners import Owner
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.causes import RecompileCause, Step
from compiler_lens.facts.recompiles.dimensions import dimensions
from compiler_lens.facts.recompiles.fixes import CauseClass, Fix
from compiler_lens.facts.recompiles.guard_values import stack_names
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.facts.recompiles.serving import Stage
from compiler_lens.recording.model import CompileId, Recompile, Recording, SourceLine
from compiler_lens.views import words
from compiler_lens.views.advice import (
    INSTANCES,
    kind_of,
    limit,
    ranked,
    recurred,
    sentence,
    series_words,
    serving,
    what_changed,
)
from compiler_lens.views.document import Aside, Block, Card, Document, Field, Fields, Section, line, paragraph
from compiler_lens.views.parts import At, Compiled, Part, Parts, Span, Tone, code, coded, quiet, sequence, strong
from compiler_lens.views.text import one_line, plural, seconds, times

_CAUSES = 2  # in a headline
_RAW = 3  # of torch's messages
_IDS = 4  # of compilations


class ChangeFacts(Struct, frozen=True):
    """One recompile: what a value was and what it became; empty where nobody told."""

    old: str
    new: str
    recompile: Recompile


class CauseFacts(Struct, frozen=True):
    """All recompiles of a function for one cause."""

    cause: CauseClass
    subject: str
    count: int
    series: tuple[Step, ...]
    changes: tuple[ChangeFacts, ...]
    fix: Fix
    line: SourceLine | None
    may_change: tuple[SourceLine, ...]  # lines that may, where it is not known which of them run
    seconds: float
    compile_ids: tuple[CompileId, ...]
    benign: bool
    follows: SourceLine | None
    objects: int
    is_serving: bool
    offers: tuple[Offered, ...]  # what there is to change, each with its rank


class RecompiledFunction(Struct, frozen=True):
    """All recompiles of a function."""

    function: FunctionName
    compilations: int
    seconds: float
    limit: CompileId | None
    benign: bool
    repeats_breaks: int
    owner: Owner
    entries: int
    allowed: int
    stages: tuple[tuple[CompileId, Stage], ...]
    causes: tuple[CauseFacts, ...]


class Data(Struct, frozen=True):
    """Why functions were compiled again."""

    count: int
    functions: tuple[RecompiledFunction, ...]


def document(recording: Recording, selection: Selection) -> Document:
    """Return a card for every function that was compiled again, those that need something done first."""
    reports = [
        report
        for report in reports_of(recording, selection)
        if any(selection.has(change.recompile) for cause in report.causes for change in cause.changes)
    ]
    total, fine = sum(report.recompiles for report in reports), sum(report.benign for report in reports)
    data = Data(total, convert(reports, tuple[RecompiledFunction, ...], from_attributes=True))
    pinned = _pinned(recording, selection)
    if not reports:
        return Document((line("No recompiles."), *pinned), data, count=None if pinned else 0)
    told = f"{plural(total, 'recompile')} of {plural(len(reports), 'function')}"
    if fine == len(reports):
        told += ", nothing to do"
    elif fine:
        told += ", 1 function fine as it is" if fine == 1 else f", {fine:,} functions fine as they are"
    cards = tuple(Section("", (_card(n, report, selection),)) for n, report in enumerate(reports, 1))
    return Document((Section("Recompiles", cards, told), *pinned), data, count=total)


def _pinned(recording: Recording, selection: Selection) -> tuple[Section, ...]:
    """Sizes and ints that could vary and may not: torch made symbols of them, and a line took that back."""
    blocks: list[Block] = []
    every = [one for one in dimensions(recording) if one.pinned and any(selection.has(pin) for pin in one.pins)]
    for dimension in every:
        blocks.append(
            paragraph(*_function(dimension.function), f": {dimension.name} is {dimension.low} only", indent=2)
        )
        if at := dimension.pins[-1].line:
            blocks.append(_source(at))
    told = "a line needs one value: others compile again"
    numbers = sum(dimension.role is CauseClass.INT_ARGUMENT for dimension in every)
    what = [*(["sizes"] if numbers < len(every) else []), *(["numbers"] if numbers else [])]
    return (Section(f"Pinned {' and '.join(what)}", tuple(blocks), told),) if blocks else ()


def _function(function: FunctionName) -> Parts:
    place: Parts = (" (", At(function, Tone.QUIET), ")") if function.file else ()
    return strong(function.name), *place


def _card(number: int, report: RecompileReport, selection: Selection) -> Card:
    blocks: list[Block] = []
    if told := limit(report):
        blocks.append(paragraph(sentence(told), indent=4, tone=Tone.WARN if report.is_near_limit else Tone.BAD))
    if told := serving(report):
        blocks.append(paragraph(sentence(told), indent=4, tone=Tone.QUIET))
    if report.repeats_breaks:
        blocks.append(paragraph(recurred(report), indent=4, tone=Tone.QUIET))
    blocks += [_chapter(cause, selection) for cause in sorted(report.causes, key=lambda one: -one.seconds)]
    parts = f", in {report.parts} parts" if report.parts > 1 else ""
    note: list[Part] = [f" was compiled {plural(report.compilations, 'time')}{parts}"]
    if not selection.for_page:  # where there is room, each cause has its values beside it
        changed = [_changed(causes) for causes in report.subjects[:_CAUSES]]
        if (more := sum(map(len, report.subjects[_CAUSES:]))) > 0:
            changed.append(plural(more, "other cause"))
        note.append(f": {'; '.join(changed)}")
    if report.seconds:
        note.append(Span(f"; {seconds(report.seconds)}", Tone.WARN))
    if report.benign:
        note.append(Span("; nothing to do", Tone.GOOD))
    return Card(number, _function(report.function), tuple(blocks), note=tuple(note), is_counted=False)


def _changed(causes: Sequence[RecompileCause]) -> str:
    """What changed, from which value to which, in all causes that are about it."""
    cause = causes[0]
    if cause.cause is CauseClass.DEAD_OBJECT:
        return f"{cause.subject} does not exist any more"
    if cause.cause is CauseClass.TORCH_ERROR:
        return what_changed(cause)
    verb, kinds = "differs" if cause.cause in INSTANCES else "changed", ", ".join(dict.fromkeys(map(kind_of, causes)))
    told = f"{cause.subject or 'something'} {verb}", series_words(cause.whole_series), f"({kinds})"
    return " ".join(filter(None, told))


def _chapter(cause: RecompileCause, selection: Selection) -> Card:
    """One cause: the line, why it matters, what to do, and torch's own messages."""
    blocks: list[Block] = []
    if selection.for_page and cause.whole_series:
        blocks.append(line(code(series_words(cause.whole_series)), indent=6))
    if cause.line:
        blocks.append(_source(cause.line))
    if cause.may_change:
        *places, last = [At(at) for at in cause.may_change]
        blocks.append(paragraph("may be changed at ", *sequence(places), " or ", last, indent=6))
    fix = cause.fix
    advice = {"fine": fix.leave, "else": fix.change} if cause.benign else {"fix": fix.change}
    fields: list[Field] = []
    for label, text in {"why": fix.why, **advice}.items():
        told = paragraph(*coded(text), indent=12, tone=Tone.DO if label == "fix" else Tone.PLAIN)
        fields.append(Field(label, (told,)))
    for number, offer in enumerate(cause.offers):
        said = f"`{offer.change}`: {ranked(offer)}" if number else ranked(offer)
        fields.append(Field("", (paragraph(*coded(said), indent=12, tone=Tone.QUIET),)))
    blocks += [Fields(tuple(fields), indent=6, width=6), _messages(cause, selection)]
    ids = cause.compile_ids if selection.for_page else cause.compile_ids[:_IDS]
    more = f" and {len(cause.compile_ids) - len(ids):,} more" if len(cause.compile_ids) > len(ids) else ""
    price = f"  {seconds(cause.seconds)}" if cause.seconds else ""
    paid = (Span(price, Tone.WARN), "  ", *sequence([Compiled(one, Tone.QUIET) for one in ids]), quiet(more))
    note = (Span(f"  {times(cause.count)}", Tone.WARN), quiet(f"  {kind_of(cause)}"), *paid)
    return Card(0, (code(cause.subject or "unknown"),), tuple(blocks), indent=4, note=note)


def _source(at: SourceLine) -> Block:
    return paragraph(At(at, Tone.STRONG), "  ", code(at.code.strip()), indent=6)


def _messages(cause: RecompileCause, selection: Selection) -> Aside:
    changes = cause.changes
    shown = changes if selection.for_page else changes[:_RAW]
    told: list[Block] = []
    texts = " ".join(change.decided.failure.text for change in shown if change.decided.failure)
    if names := stack_names(texts):
        said = words.on_stack(names, cause.follows.line if cause.follows else None)
        told.append(paragraph(said, indent=6, tone=Tone.QUIET))
    for change in shown:
        failure, owner = change.decided.failure, Compiled(change.recompile.compile_id)
        text = one_line(failure.text, 200) if failure else "torch gave no reason"
        told.append(paragraph(owner, f" {text}", indent=6, tone=Tone.QUIET, limit=2))
    if len(changes) > len(shown):
        told.append(line(quiet(f"and {len(changes) - len(shown):,} more like it in --json"), indent=6))
    return Aside("torch's message", tuple(told))
