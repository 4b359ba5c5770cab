"""The user's file, line by line, with a gutter: what is compiled, where it breaks, what runs eagerly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rich.text import Text

from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.overview.source_view import FileView, LineFacts, select_file, source_view
from compiler_lens.facts.program.coverage import Treatment
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CompileId, Recording
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, WARN, Page, command, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.advice import changed, why
from compiler_lens.views.text import clean, plural

_AROUND = 12  # lines shown on each side of the one asked for
_SHORT = 4  # a stretch that is not worth folding
_QUIET = 14  # lines in a row that nothing happened in, inside of a function that was seen
_CONTEXT = 3
_IDS = 3
_TABLE = 12  # files in the list

_COMPILED, _EAGER, _BOTH, _FAILED, _BREAK, _CALLS, _GUARD = "+", "-", "~", "x", "!", "|", "g"
_STYLES = {_COMPILED: GOOD, _EAGER: WARN, _BOTH: WARN, _FAILED: BAD, _BREAK: BAD, _CALLS: WARN, _GUARD: CODE}
LEGEND = {
    _COMPILED: "compiled, in the graphs on the right",
    _EAGER: "runs eagerly",
    _BOTH: "partly compiled, partly eager",
    _FAILED: "failed to compile",
    _BREAK: "graph break",
    _CALLS: "calls what breaks",
    _GUARD: "recompiled for this",
}


def source_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `source REC [FILE[:LINE]]` shows."""
    views = source_view(recording, Ownership.of(selection.user_paths))
    if selection.file:
        view, number = select_file(views, selection.file)
        kernels = _kernels(recording, view.file, number, selection, page) if number else []
        return [*file_lines(view, page, number), *kernels]
    happened = [view for view in views if view.breaks or view.compiled_lines or view.uncompiled_lines]
    chosen = [view for view in happened if view.own] or [view for view in happened if view.cards]
    if not chosen:
        none = line("No line of your files was compiled, and none broke a graph.")
        return [none, Text(), *_files(happened, page, "of libraries")] if happened else [none]
    if len(chosen) == 1:
        return [*file_lines(chosen[0], page)]
    return [*_files(chosen, page), Text(), *file_lines(chosen[0], page)]


def _kernels(recording: Recording, file: str, number: int, selection: Selection, page: Page) -> list[Text]:
    """How many kernels work for the line that was asked for."""
    provenance = Provenance.of(recording, Ownership.of(selection.user_paths))
    kernels = [match.lineage.kernel for match in provenance.launches_of(provenance.at_line(file, number).every)]
    counts = Counter(words.PASSES[part] for _, part in {(id(kernel), kernel.direction) for kernel in kernels})
    if not counts:
        return []
    told = ", ".join(f"{n:,} {part}" for part, n in sorted(counts.items(), reverse=True))
    where = page.show(f"line {page.path(file)}:{number}")
    return [Text(), command(f"its kernels ({told}): ", where)]


def file_lines(view: FileView, page: Page, number: int | None = None) -> list[Text]:
    """One file: its legend, then its lines."""
    counts = [
        plural(view.breaks, "graph break") + f" at {plural(len(view.cards), 'line')}" if view.cards else "",
        f"{plural(view.compiled_lines, 'line')} compiled",
        f"{view.uncompiled_lines:,} not" if view.uncompiled_lines else "",
    ]
    lines = [title(page.path(view.file), ", ".join(filter(None, counts)) if view.facts else "nothing happened in it")]
    if not view.text:
        lines.append(line(("its text is not in the recording: these are the lines that torch told", DIM), indent=2))
    every = _numbers(view)
    shown = [n for n in every if number is None or abs(n - number) <= _AROUND]
    rows = [*_rows(view, shown, page, folds=number is None)]
    if not shown:
        known = f"it has {plural(len(every), 'line')}" if view.text else "nothing is known of the lines there"
        return [*lines, line(f"No line {number}: {known}." if number else "No line of it is known.", indent=2)]
    return [
        *lines,
        *_legend([view.facts[n] for n in shown if n in view.facts], page),
        Text(),
        *rows,
        *_next(view, shown, page),
    ]


def _next(view: FileView, shown: Sequence[int], page: Page) -> list[Text]:
    if not any(
        view.facts[n].cards or view.facts[n].follows or view.facts[n].calls_break for n in shown if n in view.facts
    ):
        return []
    return [Text(), command("what to change, break by break: ", page.show("breaks"))]


def _files(views: Sequence[FileView], page: Page, whose: str = "") -> list[Text]:
    rows = [(page.path(v.file), *map(_counted, (v.breaks, v.compiled_lines, v.uncompiled_lines))) for v in views]
    columns = (
        Column("file", flexible=True, middle=True, style=PLACE),
        *(Column(name, right=True) for name in ("breaks", "lines compiled", "not compiled")),
    )
    lines = [title("Source", f"{plural(len(views), 'file')}{whose and f' {whose}'}, the most broken first")]
    lines += table(columns, rows[:_TABLE], page.width)
    more = f"… {len(rows) - _TABLE:,} more with --json" if len(rows) > _TABLE else ""
    return [*lines, *([line(more, indent=2)] if more else []), command("one of them: ", page.show("source FILE"))]


def _counted(count: int) -> str:
    return f"{count:,}" if count else ""


def _legend(facts: Sequence[LineFacts], page: Page) -> list[Text]:
    used = {mark for one in facts for mark in marks_of(one)}
    lines: list[Text] = []
    for mark, told in LEGEND.items():
        if mark in used:
            part = line((mark, _STYLES[mark]), (f" {told}", DIM))
            if lines and lines[-1].cell_len + part.cell_len + 3 <= page.width:
                lines[-1].append("   ").append_text(part)
            else:
                lines.append(line("  ", part))
    return lines


def marks_of(facts: LineFacts) -> str:
    """Three columns: compiled or not, broken, guarded."""
    if facts.uncompiled is Treatment.FAILED:
        state = _FAILED
    elif facts.uncompiled:
        state = _BOTH if facts.compiled else _EAGER
    else:
        state = _COMPILED if facts.compiled else " "
    return (
        state
        + (_BREAK if facts.cards or facts.follows else _CALLS if facts.calls_break else " ")
        + (_GUARD if facts.guards else " ")
    )


# -- which lines


def _numbers(view: FileView) -> range | list[int]:
    if not view.text:
        return list(view.facts)
    return range(1, max(len(view.text) - (not view.text[-1]), *view.facts, 0) + 1)


def _kept(view: FileView, shown: Sequence[int]) -> Iterator[int]:
    """The functions that were seen, without their long quiet stretches, and every line of which something is known."""
    seen = {number for each in view.seen for number in range(each.line, each.last + 1)}
    loud = [shown[0] - 1, *(n for n in shown if n in view.facts or n not in seen), shown[-1] + 1]
    for before, after in pairwise(loud):
        quiet = after - before > _QUIET
        for number in range(before + 1, after):
            if not quiet or number - before <= _CONTEXT or after - number <= _CONTEXT:
                yield number
        if after in view.facts:
            yield after


def _rows(view: FileView, shown: Sequence[int], page: Page, *, folds: bool) -> Iterator[Text]:
    if not shown:
        return
    kept = [*_kept(view, shown)] if folds and view.text else [*shown]
    digits, right = len(str(shown[-1])), _right(view, kept)
    starts = {each.line: each.name for each in view.seen if "." in each.name}
    last = shown[0] - 1
    for number in [*kept, None]:
        upto = shown[-1] + 1 if number is None else number
        if view.text and upto - last - 1 > _SHORT:
            inside = starts.get(upto, "")
            yield line((f"{'⋮':>{digits}} {upto - last - 1:,} lines", DIM), (f"  {inside}", DIM), indent=2)
        elif view.text:
            for skipped in range(last + 1, upto):
                yield _row(view, skipped, digits, right, page)
        if number is not None:
            yield _row(view, number, digits, right, page)
            yield from _told(view.facts.get(number), digits, page)
            last = number


def _right(view: FileView, kept: Sequence[int]) -> int:
    return max((len(_ids(view.facts[n].compiled)) for n in kept if n in view.facts), default=0)


# -- one line


def _row(view: FileView, number: int, digits: int, right: int, page: Page) -> Text:
    facts = view.facts.get(number)
    marks = marks_of(facts) if facts else "   "
    made = Text(f"  {number:>{digits}} ", style=DIM, no_wrap=True)
    for mark in marks:
        made.append(mark, style=_STYLES.get(mark, ""))
    room = max(page.width - made.cell_len - 1 - (right + 2 if right else 0), 8)
    text = view.text[number - 1] if number <= len(view.text) else facts.code if facts else ""
    code = Text(clean(text[: 4 * page.width]).replace("\n", " ").rstrip(), style=_code_style(facts))
    ids = _ids(facts.compiled) if facts else ""
    code.truncate(room, overflow="ellipsis", pad=bool(ids))
    made.append(" ").append_text(code)
    return made.append(f"  {ids:>{right}}", style=DIM) if ids else made


def _code_style(facts: LineFacts | None) -> str:
    if facts is None:
        return DIM
    return "bold" if facts.cards else WARN if facts.uncompiled else ""


def _ids(ids: Sequence[CompileId]) -> str:
    more = f" +{len(ids) - _IDS}" if len(ids) > _IDS else ""
    return " ".join(map(str, ids[:_IDS])) + more


def _told(facts: LineFacts | None, digits: int, page: Page) -> Iterator[Text]:
    """Below a line: what breaks there and what for it was recompiled."""
    if facts is None:
        return
    indent = digits + 4
    for each in facts.cards:
        head = f"{_BREAK} break {each.number}: "
        told = paragraph(why(each.card), page.width, indent + len(head), limit=2)
        yield line((head, BAD), told[0][indent + len(head) :], indent=indent)
        yield from told[1:]
    for number in facts.follows:
        yield line((f"{_BREAK} follows", WARN), (f" from break {number}", DIM), indent=indent)
    for number in facts.calls_break:
        yield line((f"{_CALLS} break {number}", WARN), (" is in what is called here", DIM), indent=indent)
    for failure in facts.failures:
        yield line((f"{_FAILED} failed here", BAD), f": {failure}", indent=indent - 1)
    for cause in facts.guards:
        yield line((_GUARD, _STYLES[_GUARD]), (f" {changed(cause)}", DIM), indent=indent + 1)
