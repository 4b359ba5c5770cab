"""A comparison of modes as text: the tables, what each changes in the kernels, and which to use."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from compiler_lens.facts.measured.modes import (
    Choice,
    Comparison,
    NoVerdict,
    Row,
    Why,
    break_even,
    choose,
    is_doubtful,
    is_unsteady,
    largest_drift,
    no_verdict,
)
from compiler_lens.recording.own_files import is_own
from compiler_lens.render.console.open_page import terminal_width, wants_color
from compiler_lens.render.console.page import (
    BAD,
    DIM,
    GOOD,
    MIN_WIDTH,
    PLACE,
    WARN,
    Page,
    line,
    paragraph,
    render,
    title,
)
from compiler_lens.render.names import FileNames
from compiler_lens.views.console.modes_tables import compile_lines, duration, outcome_lines, speed_lines
from compiler_lens.views.modes_file import told_diffs
from compiler_lens.views.text import plural, seconds, short_paths

_DIFF_LINES = 4  # of each row's differences
_REASONS = 3  # why CUDA graphs were skipped


def modes_report(result: Comparison, *, width: int | None = None, color: bool | None = None) -> str:
    """The rows as tables, then differences, then what to use."""
    page = Page(
        width=max(width, MIN_WIDTH) if width else terminal_width(),
        color=wants_color() if color is None else color,
        names=FileNames(short_paths(_files(result))),
    )
    return render(_lines(result, page), page)


def _files(result: Comparison) -> Iterator[str]:
    for row in result.rows:
        if row.failure_line is not None and is_own(row.failure_line.file):
            yield row.failure_line.file


def _lines(result: Comparison, page: Page) -> Iterator[Text]:
    best = choose(result)
    name = best.row.name if best else ""
    for phase in result.phases:
        yield from speed_lines(result, phase, name, page)
    yield Text()
    yield from compile_lines(result, name, page)
    yield Text()
    yield from outcome_lines(result, name, page)
    yield from _remarks(result, page)
    yield from _diffs(result, page)
    yield Text()
    yield from paragraph(_advice(best, result), page.width, 0, _style(best, result))


# -- below them


def _remarks(result: Comparison, page: Page) -> Iterator[Text]:
    for row in result.measured:
        reasons = row.compiled.skipped if row.compiled else ()
        for reason in reasons[:_REASONS]:
            yield from paragraph(f"{row.name}, no CUDA graph: {reason}", page.width, 2, WARN, limit=2)
        if row.compiled and row.compiled.late:
            yield from paragraph(f"{row.name}: {_late(row.compiled.late)}", page.width, 2, WARN, limit=2)
        if is_doubtful(row, result):
            yield from paragraph(f"{row.name}: its error is far above eager's, check its results", page.width, 2, BAD)
    if unsteady := [row for row in result.measured if is_unsteady(row)]:
        yield from paragraph(_unsteady(unsteady), page.width, 2, WARN, limit=3)
    for note in result.notes:
        yield from paragraph(note, page.width, 2, DIM, limit=3)


def _late(count: int) -> str:
    return f"still compiling in timed calls ({plural(count, 'compilation')}): its times are not those of steady calls"


def _unsteady(rows: Sequence[Row]) -> str:
    drift = _factor(largest_drift(rows))
    names = ", ".join(row.name for row in rows)
    return f"{names}: up to {drift} times slower in one pass than in another: is something else running here?"


def _diffs(result: Comparison, page: Page) -> Iterator[Text]:
    told = told_diffs(result)
    if told:
        yield Text()
        yield title("Against default", "what the compiler did differently")
    for name, lines in told.items():
        yield line((name, PLACE), indent=2)
        for one in lines[:_DIFF_LINES]:
            yield from paragraph(one, page.width, 4, "", limit=2)


def _style(best: Choice | None, result: Comparison) -> str:
    if best is not None:
        return GOOD
    return WARN if no_verdict(result) is NoVerdict.UNSTEADY else BAD


def _advice(best: Choice | None, result: Comparison) -> str:
    if best is None:
        return _no_verdict(result)
    if best.why is Why.NO_GAIN:
        return f"Use eager: {_no_gain(best)}"
    if best.why is Why.ALONE:
        return f"Only {best.row.name} was measured: there is nothing to compare it with."
    gain = f"{best.speedup:.2f} × eager{_over(best.row, result)}" if best.speedup else "the fastest"  # noqa: RUF001
    calls = break_even(best.row, result.eager, best.row.cold_seconds)
    earned = f", earned back after {plural(calls, 'call')} with empty caches" if calls is not None else ""
    others = "".join(f"; {_dearer(other, best.row)}" for other in best.equals if not other.is_eager)
    return f"Use {best.row.name}: {gain}{earned}{others}{_same(best)}"


def _over(row: Row, result: Comparison) -> str:
    """What a speedup over several phases is of: no column has their sums."""
    if len(result.phases) == 1 or result.eager is None or not (row.seconds and result.eager.seconds):
        return ""
    return f" over {' and '.join(result.phases)} together, {duration(result.eager.seconds)} → {duration(row.seconds)}"


def _factor(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004


def _no_verdict(result: Comparison) -> str:
    if no_verdict(result) is not NoVerdict.UNSTEADY:
        return "Nothing could be measured."
    drift = _factor(largest_drift(result.measured))
    return (
        f"No verdict: passes over the same row disagree {drift} times. "
        "Measure again on a quiet machine, and longer: --seconds 10, in Python seconds=10."
    )


def _no_gain(best: Choice) -> str:
    names = ", ".join(other.name for other in best.equals)
    return f"{names}: not above noise of it{_same(best)}" if names else f"nothing is faster{_same(best)}"


def _same(best: Choice) -> str:
    """The rows that are default by another name."""
    names = ", ".join(row.name for row in best.same)
    return f"; {names}: the same kernels as default" if names else ""


def _dearer(other: Row, best: Row) -> str:
    more = (other.cold_seconds or 0.0) - (best.cold_seconds or 0.0)
    return f"{other.name} is not above noise of it and costs {seconds(more)} more to compile"
