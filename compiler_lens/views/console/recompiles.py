"""Recompiles, one card for each function: what changed from which value to which, at what price, what to do."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from compiler_lens.facts.program.coverage import FunctionName
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.dimensions import Dimension, dimensions
from compiler_lens.facts.recompiles.recompile_fixes import CauseClass
from compiler_lens.facts.recompiles.stories import Change, RecompileCause, RecompileReport, Step, recompile_reports
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
    stories = [s for s in recompile_reports(recording) if _is_asked_for(s, selection)]
    sizes = _pinned(dimensions(recording), selection, page)
    if not stories:
        return [line("No recompiles."), *sizes]
    total, fine = sum(story.recompiles for story in stories), sum(story.benign for story in stories)
    told = f"{plural(total, 'recompile')} of {plural(len(stories), 'function')}"
    lines = [title("Recompiles", f"{told}, {_fine(fine, len(stories))}" if fine else told)]
    for story in stories:
        lines += [Text(), *_card(story, page)]
    return lines + sizes


def named(function: FunctionName, page: Page) -> Text:
    """A function with its place."""
    place = f"  {page.at(function)}" if function.file else ""
    return line((function.name, PLACE), (place, DIM))


def _is_asked_for(story: RecompileReport, selection: Selection) -> bool:
    return any(selection.has(change.recompile) for chapter in story.chapters for change in chapter.changes)


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


def _card(story: RecompileReport, page: Page) -> list[Text]:
    lines = paragraph(_headline(story, page), page.width, 2)
    if story.limit is not None:
        told = f"the recompile limit was hit at [{story.limit}]: calls that fit none of these run eagerly"
        lines += paragraph(line((told, BAD)), page.width, 4)
    if story.repeats_breaks:
        breaks = plural(story.repeats_breaks, "graph break")
        lines += paragraph(f"{breaks} came again with the recompiles: they are not new places", page.width, 4, DIM)
    for chapter in story.chapters:
        lines += _chapter(chapter, page)
    return lines


def _headline(story: RecompileReport, page: Page) -> Text:
    place = f" ({page.at(story.function)})" if story.function.file else ""
    parts = f", in {story.parts} parts" if story.parts > 1 else ""
    changed = [_changed(chapter) for chapter in story.chapters[:_CAUSES]]
    more = len(story.chapters) - _CAUSES
    if more > 0:
        changed.append(plural(more, "other cause"))
    told = f" was compiled {plural(story.compilations, 'time')}{parts}: {'; '.join(changed)}"
    fine = [("; nothing to do", GOOD)] if story.benign else []
    cost = f"; {seconds(story.seconds)}" if story.seconds else ""
    return line((story.function.name, PLACE), (place, DIM), told, (cost, WARN), *fine)


def _changed(chapter: RecompileCause) -> str:
    if chapter.cause is CauseClass.DEAD_OBJECT:
        return f"{chapter.subject} does not exist any more"
    told = f"{chapter.subject or 'something'} changed"
    series = series_text(chapter.series)
    return " ".join(part for part in (told, series, f"({chapter.cause.value})") if part)


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


def _chapter(chapter: RecompileCause, page: Page) -> list[Text]:
    count = f"  {times(len(chapter.changes))}"
    lines = [line((chapter.subject or "unknown", CODE), (count, WARN), (f"  {chapter.cause.value}", DIM), indent=4)]
    if chapter.line:
        at = line((page.at(chapter.line), PLACE), (f"  {chapter.line.code.strip()}", CODE), indent=6)
        lines.append(at)
    lines += _labelled("why ", chapter.fix.why, page)
    if chapter.benign:
        lines += _labelled("fine", chapter.fix.leave, page, GOOD)
        lines += _labelled("else", chapter.fix.change, page)
    else:
        lines += _labelled("fix ", chapter.fix.change, page, WARN)
    return [*lines, *_raw(chapter.changes, page)]


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
