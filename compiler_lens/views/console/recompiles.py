"""Recompiles, one card for each function: what changed from which value to which, at what price, what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.dimensions import Dimension, dimensions
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import Change, RecompileCause, RecompileReport, Step, recompile_reports
from compiler_lens.recording.model import Recording
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, WARN, Page, line, paragraph, title
from compiler_lens.views.text import one_line, plural, seconds, times

_SERIES = 5
_VALUE = 32
_FIRST, _LAST = 5, 2  # of a long series
_CAUSES = 2  # in a headline
_RAW = 3  # of torch's own texts
_DIGITS = re.compile(r"\d\.\d{6,}")


def _fine(count: int, of: int) -> str:
    return (
        "nothing to do"
        if count == of
        else f"{plural(count, 'function')} fine as it is"
        if count == 1
        else (f"{count:,} functions fine as they are")
    )


def recompile_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC recompiles [ID]` shows: a card for every function that was compiled again."""
    reports = [s for s in recompile_reports(recording) if _is_asked_for(s, selection)]
    sizes = _pinned(dimensions(recording), selection, page)
    if not reports:
        return [line("No recompiles."), *sizes]
    total, fine = sum(report.recompiles for report in reports), sum(report.benign for report in reports)
    told = f"{plural(total, 'recompile')} of {plural(len(reports), 'function')}"
    lines = [title("Recompiles", f"{told}, {_fine(fine, len(reports))}" if fine else told)]
    for report in reports:
        lines += [Text(), *_card(report, page)]
    return lines + sizes


def named(function: FunctionName, page: Page) -> Text:
    """A function with its place."""
    place = f"  {page.at(function)}" if function.file else ""
    return line((function.name, PLACE), (place, DIM))


def _is_asked_for(report: RecompileReport, selection: Selection) -> bool:
    return any(selection.has(change.recompile) for cause in report.causes for change in cause.changes)


def _pinned(every: Sequence[Dimension], selection: Selection, page: Page) -> list[Text]:
    """Sizes that could vary and may not: torch made a symbol of each, and a line of the user's took it back."""
    found = [d for d in every if d.pinned and any(selection.has(pin) for pin in d.pins)]
    if not found:
        return []
    lines = [Text(), title("Pinned sizes", "were free to vary until a line needed one value; others compile again")]
    for dimension in found:
        place = f" ({page.at(dimension.function)})" if dimension.function.file else ""
        told = line((dimension.function.name, PLACE), (place, DIM), f": {dimension.name} is {dimension.low} only")
        lines += paragraph(told, page.width, 2)
        at = dimension.pins[-1].line
        if at is not None:
            lines.append(line((page.at(at), PLACE), (f"  {at.code.strip()}", CODE), indent=6))
    return lines


def _card(report: RecompileReport, page: Page) -> list[Text]:
    lines = paragraph(_headline(report, page), page.width, 2)
    if report.limit is not None:
        told = f"the recompile limit was hit at [{report.limit}]: calls that fit none of these run eagerly"
        lines += paragraph(line((told, BAD)), page.width, 4)
    if report.repeats_breaks:
        breaks = plural(report.repeats_breaks, "graph break")
        lines += paragraph(f"{breaks} came again with the recompiles: they are not new places", page.width, 4, DIM)
    for cause in report.causes:
        lines += _cause(cause, page)
    return lines


def _headline(report: RecompileReport, page: Page) -> Text:
    place = f" ({page.at(report.function)})" if report.function.file else ""
    parts = f", in {report.parts} parts" if report.parts > 1 else ""
    changed = [_changed(cause) for cause in report.causes[:_CAUSES]]
    more = len(report.causes) - _CAUSES
    if more > 0:
        changed.append(plural(more, "other cause"))
    told = f" was compiled {plural(report.compilations, 'time')}{parts}: {'; '.join(changed)}"
    fine = [("; nothing to do", GOOD)] if report.benign else []
    cost = f"; {seconds(report.seconds)}" if report.seconds else ""
    return line((report.function.name, PLACE), (place, DIM), told, (cost, WARN), *fine)


def _changed(cause: RecompileCause) -> str:
    if cause.kind is CauseClass.DEAD_OBJECT:
        return f"{cause.subject} does not exist any more"
    told = f"{cause.subject or 'something'} changed"
    series = series_text(cause.series)
    return " ".join(part for part in (told, series, f"({cause.kind.value})") if part)


def series_text(steps: Sequence[Step]) -> str:
    """`8 → 4 → 1`; a long series without its middle, a question mark for a value that nobody told."""
    if len(steps) == 1:  # values that look the same, as two functions of one type do
        return f"from one {_value(Step(steps[0].value))} to another"
    told = [_value(step) for step in steps]
    if len(told) > _FIRST + _LAST + 1:
        told = [*told[:_FIRST], "…", *told[-_LAST:]]
    return " → ".join(told)


def _value(step: Step) -> str:
    text = one_line(_DIGITS.sub(lambda m: m[0][:6], step.value), _VALUE) or "?"
    return f"{text} {times(step.times)}" if step.times > 1 else text


def _cause(cause: RecompileCause, page: Page) -> list[Text]:
    count = f"  {times(len(cause.changes))}"
    lines = [line((cause.subject or "unknown", CODE), (count, WARN), (f"  {cause.kind.value}", DIM), indent=4)]
    if cause.line:
        at = line((page.at(cause.line), PLACE), (f"  {cause.line.code.strip()}", CODE), indent=6)
        lines.append(at)
    lines += _labelled("why ", cause.fix.why, page)
    if cause.benign:
        lines += _labelled("fine", cause.fix.leave, page, GOOD)
        lines += _labelled("else", cause.fix.change, page)
    else:
        lines += _labelled("fix ", cause.fix.change, page, WARN)
    return [*lines, *_raw(cause.changes, page)]


def _labelled(label: str, text: str, page: Page, style: str = DIM) -> list[Text]:
    lines = paragraph(_with_code(text), page.width, 12)
    for i, one in enumerate(lines):
        lines[i] = line((f"      {label}  ", style), one[12:]) if i == 0 else one
    return lines


def _with_code(text: str) -> Text:
    """Text whose backticks mark code, without them."""
    parts = one_line(text, 2_000).split("`")
    return Text().join(Text(part, style=CODE if i % 2 else "") for i, part in enumerate(parts))


def _raw(changes: Sequence[Change], page: Page) -> list[Text]:
    """Torch's own words for the first few, what was said before folded."""
    lines: list[Text] = []
    for change in changes[:_RAW]:
        failure = change.decided.failure
        text = one_line(failure.text, 200) if failure else "torch gave no reason"
        lines += paragraph(line((f"[{change.recompile.compile_id}] {text}", DIM)), page.width, 6, limit=2)
    rest = len(changes) - _RAW
    return [*lines, line((f"and {rest:,} more like it in --json", DIM), indent=6)] if rest > 0 else lines
