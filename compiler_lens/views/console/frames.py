"""Coverage: what became of every function, and of every frame it fell into."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rich.text import Text

from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.facts.program.coverage import Coverage, Frame, Function, Lines, Treatment, coverage
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.recording.model import BreakOutcome, CompileId, Outcome, Recording
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, WARN, Page, joined, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.advice import changed, often, why
from compiler_lens.views.text import one_line, plural, times

_STYLES = {Outcome.COMPILED: GOOD, Outcome.EMPTY: DIM, Outcome.FAILED: BAD}
_TREATMENT_STYLES = {
    Treatment.FAILED: BAD,
    Treatment.SPLIT: GOOD,
    Treatment.WHOLE: GOOD,
    Treatment.EMPTY: DIM,
}
_ORDER = (*words.TREATMENTS_COUNTED, Treatment.SPLIT, Treatment.WHOLE, Treatment.EMPTY)  # the worst first
_BREAK = "break"
_EAGER = (BreakOutcome.SKIPPED_FRAME, BreakOutcome.SKIPPED_REST)

Reasons = Mapping[CompileId, str]  # why something of a compilation runs eagerly


def frame_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC frames [ID]` shows."""
    own = Ownership.of(selection.user_paths)
    covered = coverage(recording, own)
    functions = [f for f in covered.functions if any(_chosen(frame, selection) for frame in f.frames)]
    library = [frame for frame in covered.library if _chosen(frame, selection)]
    if not functions and not library:
        return [line("No frame entered the compiler.")]
    functions.sort(key=lambda f: _ORDER.index(f.treatment))
    reasons = reasons_of(recording, own, page)
    lines = _functions("Functions", [f for f in functions if f.own], reasons, page)
    lines += _functions("Functions of libraries", [f for f in functions if not f.own], reasons, page)
    lines += _disabled(covered, page) if selection.ids is None else []
    return [*lines, *_passed_over(library, page)][1:]


def _chosen(frame: Frame, selection: Selection) -> bool:
    return any(selection.has(c) for c in frame.compilations)


def reasons_of(recording: Recording, own: Ownership, page: Page) -> Reasons:
    """Why something of a compilation is not compiled, for those where that is known."""
    found: dict[CompileId, str] = {}
    for number, card in enumerate(break_cards(recording, own), 1):
        for event in card.events:
            if event.outcome in _EAGER:
                found.setdefault(event.compile_id, f"{_BREAK} {number}: {why(card)}")
    for report in recompile_reports(recording):
        if report.limit:
            found[report.limit] = f"recompiled {often(report.recompiles)}: {changed(report.causes[0])}"
    for compilation in recording.compilations:
        if compilation.outcome is Outcome.FAILED and compilation.failure and compilation.failure_line:
            found[compilation.compile_id] = f"{page.name(compilation.failure_line)}: {compilation.failure.gb_type}"
    return found


def _functions(name: str, functions: Sequence[Function], reasons: Reasons, page: Page) -> list[Text]:
    if not functions:
        return []
    frames = sum(len(f.frames) for f in functions)
    count = f"{plural(len(functions), 'function')} in {plural(frames, 'frame')}, the worst first"
    columns = (
        Column(flexible=True, middle=True, style=PLACE),
        Column(flexible=True, style=DIM),
        Column(),
        Column(style=DIM),
    )
    lines = [Text(), title(name, count)]
    heads = table(columns, [_row(f, page) for f in functions], page.width)
    above: set[str] = set()
    for function, head in zip(functions, heads, strict=True):
        lines += [head, *_why(function, reasons, above, page), *_frames(function, page)]
    return lines


def _row(function: Function, page: Page) -> tuple[str | Text, ...]:
    place = page.name(function.name) if function.name.file else ""
    treated = line((treated_words(function), _TREATMENT_STYLES.get(function.treatment, WARN)))
    return function.name.name, place, treated, _compiled(function.frames[0]) if len(function.frames) == 1 else ""


def _compiled(frame: Frame) -> str:
    """`[0/0]`, with how often it was compiled."""
    first = frame.compilations[0].compile_id
    again = f" {times(len(frame.compilations))}" if len(frame.compilations) > 1 else ""
    return f"[{first}]{again}" if first.frame is not None else ""


def treated_words(function: Function) -> str:
    """`compiled in 3 parts`, `partly eager: lines 20-34`."""
    told = words.TREATMENTS[function.treatment]
    if function.treatment is Treatment.SPLIT:
        return f"compiled in {function.parts} parts" if function.parts > 1 else "compiled around a graph break"
    if function.treatment is Treatment.PARTLY_EAGER:
        return f"{told}: {_ranges(function.eager_lines)}"
    return told


def _ranges(parts: Iterable[Lines]) -> str:
    """`lines 20-34`, what overlaps as one."""
    merged: list[tuple[int, int | None]] = []
    for part in sorted(parts, key=lambda p: p.first):
        if merged and (merged[-1][1] is None or part.first <= merged[-1][1] + 1):
            first, last = merged.pop()
            merged.append((first, None if last is None or part.last is None else max(last, part.last)))
        else:
            merged.append((part.first, part.last))
    told = [f"{a} on" if b is None else str(a) if a == b else f"{a}-{b}" for a, b in merged]
    single = len(merged) == 1 and merged[0][0] == merged[0][1]
    return f"{'line' if single else 'lines'} {', '.join(told)}"


def _why(function: Function, reasons: Reasons, above: set[str], page: Page) -> list[Text]:
    """Why it, or a part of it, is not compiled; what stands above already, by its number only."""
    if function.treatment.is_compiled or function.treatment is Treatment.EMPTY:
        return []
    told = dict.fromkeys(reasons[i] for i in function.compile_ids if i in reasons) or [one_line(function.reason, 600)]
    lines: list[Text] = []
    for reason in told:
        number = reason.partition(":")[0]
        lines += paragraph(f"{number}, as above" if reason in above else reason, page.width, 6)
    above.update(reason for reason in told if reason.startswith(_BREAK))
    return lines


def _frames(function: Function, page: Page) -> list[Text]:
    """Its frames, if there are several."""
    if len(function.frames) == 1:
        return []
    columns = (Column(style=DIM), Column(), Column(), Column(style=DIM))
    return table(columns, [_frame(f) for f in function.frames], page.width, 6)


def _frame(frame: Frame) -> tuple[str | Text, ...]:
    at = f"after line {frame.resumes_at}" if frame.resumes_at is not None else "from its start"
    broken = plural(frame.graph_breaks, "graph break") if frame.graph_breaks else ""
    outcome = line((words.OUTCOMES[frame.outcome], _STYLES.get(frame.outcome, WARN)))
    return _compiled(frame), at, outcome, broken


def _disabled(covered: Coverage, page: Page) -> list[Text]:
    if not covered.disabled:
        return []
    columns = (Column(flexible=True, middle=True, style=PLACE), Column(flexible=True, style=CODE))
    rows = [(page.at(at), one_line(at.code, 200)) for at in covered.disabled]
    told = title("Disabled on purpose", f"{plural(len(rows), 'call')} of functions that are kept out of the compiler")
    return [Text(), told, *table(columns, rows, page.width)]


def _passed_over(frames: list[Frame], page: Page) -> list[Text]:
    if not frames:
        return []
    groups: dict[tuple[str, str], list[str]] = {}
    for frame in frames:
        reason = one_line(frame.reason, 200) or words.OUTCOMES[frame.outcome]
        groups.setdefault((page.path(frame.compilations[0].file), reason), []).append(frame.name.name)
    ranked = sorted(groups.items(), key=lambda item: -len(item[1]))
    rows = [
        (f"{len(names):,}", file, reason, joined(list(dict.fromkeys(names)), 6)) for (file, reason), names in ranked
    ]
    columns = (
        Column(right=True),
        Column(style=PLACE, flexible=True),
        Column(flexible=True),
        Column(style=DIM, flexible=True),
    )
    heading = title("Passed over", f"{plural(len(frames), 'frame')} of libraries with nothing in it to compile")
    return [Text(), heading, *table(columns, rows, page.width)]
