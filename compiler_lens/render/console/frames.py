"""Coverage: what became of every function, and of every frame it fell into."""

from __future__ import annotations

from rich.text import Text

from compiler_lens.analysis.coverage import Frame, Function, coverage
from compiler_lens.analysis.select import Selection
from compiler_lens.model import Outcome, Recording
from compiler_lens.render import words
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, DIM, GOOD, PLACE, WARN, Page, joined, line, paragraph, title
from compiler_lens.render.console.recompiles import named
from compiler_lens.render.text import one_line, plural

_STYLES = {Outcome.COMPILED: GOOD, Outcome.EMPTY: DIM, Outcome.FAILED: BAD}


def frame_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC frames [ID]` shows."""
    covered = coverage(recording)
    functions = [f for f in covered.functions if any(_chosen(frame, selection) for frame in f.frames)]
    library = [frame for frame in covered.library if _chosen(frame, selection)]
    if not functions and not library:
        return [line("No frame entered the compiler.")]
    frames = sum(len(f.frames) for f in functions)
    lines = [title("Frames", f"{plural(frames, 'frame')} of {plural(len(functions), 'function')}")] if functions else []
    for function in functions:
        lines += _function(function, page)
    return lines + _passed_over(library, page)


def _chosen(frame: Frame, selection: Selection) -> bool:
    return any(selection.has(c) for c in frame.compilations)


def _function(function: Function, page: Page) -> list[Text]:
    split = f" in {function.parts} parts" if function.parts > 1 and function.outcome is Outcome.COMPILED else ""
    style = _STYLES.get(function.outcome, WARN)
    lines = [line(named(function.name, page), "  ", (words.OUTCOMES[function.outcome] + split, style), indent=2)]
    reasons = [frame for frame in function.frames if frame.outcome is not Outcome.COMPILED and frame.reason]
    if len(function.frames) > 1:
        lines += table(
            (Column(style=DIM), Column(), Column(), Column()), [_frame(f) for f in function.frames], page.width, 4
        )
    for reason in dict.fromkeys(one_line(frame.reason, 600) for frame in reasons):
        lines += paragraph(reason, page.width, 6)
    return lines


def _frame(frame: Frame) -> tuple[str | Text, ...]:
    at = f"after line {frame.resumes_at}" if frame.resumes_at is not None else "from its start"
    compiled = plural(len(frame.compilations), "compilation")
    broken = f", {plural(frame.graph_breaks, 'graph break')}" if frame.graph_breaks else ""
    style = _STYLES.get(frame.outcome, WARN)
    return f"[{frame.compilations[0].compile_id}]", at, line((words.OUTCOMES[frame.outcome], style)), compiled + broken


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
