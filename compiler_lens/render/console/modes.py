"""The table of modes, what each changes in the kernels, and which to use."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.text import Text

from compiler_lens.analysis.modes import (
    Choice,
    Comparison,
    NoVerdict,
    Row,
    Timing,
    Why,
    above_noise,
    break_even,
    choose,
    is_doubtful,
    is_unsteady,
    largest_drift,
    no_verdict,
    speedup,
)
from compiler_lens.analysis.ownership import is_own
from compiler_lens.render.console.columns import Column, table
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
from compiler_lens.render.json import FORMAT, plain
from compiler_lens.render.text import UNKNOWN, nbytes, number, plural, seconds, short_paths

_DIFF_LINES = 4  # of each row's differences
_REASONS = 3  # why CUDA graphs were skipped
_NEVER = "never"

_SPEED = (
    Column(style=GOOD),
    Column("", flexible=True, middle=True),
    Column("median", right=True),
    Column("quartiles", right=True, style=DIM),
    Column("× eager", right=True),  # noqa: RUF001
    Column("tokens/s", right=True),
)
_COMPILE = (
    Column(style=GOOD),
    Column("", flexible=True, middle=True),
    Column("cold", right=True),
    Column("warm", right=True),
    Column("break-even cold", right=True),
    Column("warm", right=True),
)
_OUTCOME = (
    Column(style=GOOD),
    Column("", flexible=True, middle=True),
    Column("peak memory", right=True),
    Column("kernels", right=True),
    Column("launches", right=True),
    Column("breaks", right=True),
    Column("CUDA graphs", right=True),
    Column("error", right=True),
)


def modes_report(result: Comparison, *, width: int | None = None, color: bool | None = None) -> str:
    """The rows as tables, then differences, then what to use."""
    page = Page(
        width=max(width, MIN_WIDTH) if width else terminal_width(),
        color=wants_color() if color is None else color,
        paths=short_paths(_files(result)),
    )
    return render(_lines(result, page), page)


def modes_json(result: Comparison) -> str:
    """The rows for programs: every field of them, what follows from them, and the name of the one to use."""
    best = choose(result)
    data = {name: getattr(result, name) for name in Comparison.__dataclass_fields__ if name != "diffs_told"}
    data["rows"] = [plain(row) | _derived(row, result) for row in result.rows]
    data["best"] = best.row.name if best else None
    data["best_because"] = best.why if best else no_verdict(result)
    data["diffs"] = {name: list(lines) for name, lines in told_diffs(result).items()}
    return json.dumps(plain({"format": FORMAT, "view": "modes"} | data), indent=1, allow_nan=False)


def _derived(row: Row, result: Comparison) -> dict[str, Any]:
    return {
        "seconds": row.seconds,
        "speedup": speedup(row, result.eager),
        "above_noise_of_eager": above_noise(row, result.eager) if result.eager else None,
        "break_even_cold": break_even(row, result.eager, row.cold_seconds),
        "break_even_warm": break_even(row, result.eager, row.warm_seconds),
        "medians": {timing.phase: timing.median for timing in row.timings},
        "tokens_per_second": {timing.phase: timing.tokens_per_second for timing in row.timings},
    }


def _files(result: Comparison) -> Iterator[str]:
    for row in result.rows:
        if row.failure_line is not None and is_own(row.failure_line.file):
            yield row.failure_line.file


def _lines(result: Comparison, page: Page) -> Iterator[Text]:
    best = choose(result)
    name = best.row.name if best else ""
    for phase in result.phases:
        yield from _speed(result, phase, name, page)
    yield Text()
    yield title("Compile", "time until calls are steady, and the calls that earn it back")
    yield from table(_COMPILE, [_compile_row(row, result, name) for row in result.measured], page.width)
    yield Text()
    yield title("Outcome", _outcome_summary(result))
    yield from table(_OUTCOME, [_outcome_row(row, result, name) for row in result.measured], page.width)
    yield from _remarks(result, page)
    yield from _diffs(result, page)
    yield Text()
    yield from paragraph(_advice(best, result), page.width, 0, _style(best, result))


# -- the tables


def _speed(result: Comparison, phase: str, best: str, page: Page) -> Iterator[Text]:
    yield title(phase[:1].upper() + phase[1:], _speed_summary(result, phase))
    rows = [_speed_row(row, result, phase, best) for row in result.rows]
    header, *lines = table(_SPEED, rows, page.width)
    yield header
    for row, made in zip(result.rows, lines, strict=True):
        yield made
        if row.failure and phase == result.phases[0]:
            at = f"{page.at(row.failure_line)}: " if row.failure_line else ""
            yield from paragraph(f"{at}{row.failure}", page.width, 7, BAD, limit=2)


def _speed_summary(result: Comparison, phase: str) -> str:
    counts = [len(timing.samples) for row in result.rows if (timing := row.timing(phase))]
    calls = f"{min(counts):,} to {max(counts):,} calls each, " if counts and min(counts) < max(counts) else ""
    calls = calls or (f"{plural(counts[0], 'call')} each, " if counts else "")
    rounds = f"one call here is {result.calls} of yours, " if result.calls > 1 else ""
    return f"{calls}{rounds}{result.device}, torch {result.torch}"


def _speed_row(row: Row, result: Comparison, phase: str, best: str) -> list[str | Text]:
    timing = row.timing(phase)
    name = _name(row, best)
    if timing is None or row.failure:
        return [" ", name, Text("failed" if row.failure else UNKNOWN, style=BAD), "", "", ""]
    low, median, high = timing.quartiles
    rate = timing.tokens_per_second
    return [
        "*" if row.name == best else " ", name, duration(median), f"{duration(low)}–{duration(high)}",  # noqa: RUF001
        _gain(row, result, phase, timing), _per_second(rate),
    ]  # fmt: skip


def _per_second(rate: float | None) -> str:
    """Three digits: no machine runs so evenly that a fourth means something."""
    if not rate:
        return ""
    decimals = 2 - math.floor(math.log10(rate))
    return f"{round(rate, decimals):,.{max(decimals, 0)}f}"


def _gain(row: Row, result: Comparison, phase: str, timing: Timing) -> str | Text:
    gain, before = speedup(row, result.eager, phase), result.eager and result.eager.timing(phase)
    if gain is None or before is None or row.is_eager:
        return ""
    if not above_noise(timing, before):
        return Text(f"{gain:.2f}, noise", style=DIM)
    return Text(f"{gain:.2f}", style=GOOD if gain > 1 else WARN)


def _compile_row(row: Row, result: Comparison, best: str) -> list[str | Text]:
    mark = "*" if row.name == best else " "
    if row.is_eager:
        return [mark, _name(row, best), UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN]
    even = [_even(row, result, spent) for spent in (row.cold_seconds, row.warm_seconds)]
    return [mark, _name(row, best), seconds(row.cold_seconds), seconds(row.warm_seconds), *even]


def _even(row: Row, result: Comparison, spent: float | None) -> str:
    if spent is None or result.eager is None:
        return UNKNOWN
    calls = break_even(row, result.eager, spent)
    return _NEVER if calls is None else number(calls)


def _outcome_row(row: Row, result: Comparison, best: str) -> list[str | Text]:
    made = row.compiled
    figures = [number(n) for n in (made.kernels, made.launches, made.breaks)] if made else [UNKNOWN] * 3
    memory = "" if row.peak_bytes is None else nbytes(row.peak_bytes)
    return ["*" if row.name == best else " ", _name(row, best), memory, *figures, _cudagraphs(row), _error(row, result)]


def _cudagraphs(row: Row) -> str:
    made = row.compiled
    if made is None or not (made.captured or made.skipped):
        return ""
    return f"{made.captured} of {made.graphs}"


def _error(row: Row, result: Comparison) -> str | Text:
    if row.deviation is None:
        return ""
    relative = row.deviation.relative
    told = f"{relative:.1e}" if math.isfinite(relative) else "not finite"
    return Text(told, style=BAD if is_doubtful(row, result) else "")


def _outcome_summary(result: Comparison) -> str:
    if not result.reference:
        return "errors not compared"
    return f"error: relative L2 distance from {'the same in fp64' if result.reference == 'fp64' else result.reference}"


def _name(row: Row, best: str) -> Text:
    return line((row.name, PLACE if row.name == best else ""))


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


def told_diffs(result: Comparison) -> Mapping[str, tuple[str, ...]]:
    """The differences of each row from default in a few lines, as they are shown."""
    diffs: Mapping[str, Any] = getattr(result, "diffs", {})
    if not diffs:
        return result.diffs_told
    return {name: _told(diff) for name, diff in diffs.items()}


def _told(diff: Any) -> tuple[str, ...]:
    from compiler_lens.render.console.diff import diff_summary

    return tuple(diff_summary(diff))


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
    over = f" over {' and '.join(result.phases)} together" if len(result.phases) > 1 else ""
    gain = f"{best.speedup:.2f} × eager{over}" if best.speedup else "the fastest"  # noqa: RUF001
    calls = break_even(best.row, result.eager, best.row.cold_seconds)
    earned = f", earned back after {plural(calls, 'call')} with empty caches" if calls is not None else ""
    others = "".join(f"; {_dearer(other, best.row)}" for other in best.equals if not other.is_eager)
    return f"Use {best.row.name}: {gain}{earned}{others}{_same(best)}"


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


def duration(value: float) -> str:
    """A measured time with its unit, three digits: 8.21 µs, 0.124 ms, 12.4 ms, 1.25 s."""
    if value >= 0.9995:  # noqa: PLR2004 -- what would round to a second
        return seconds(value)
    return f"{value * 1e6:.3g} µs" if value < 1e-4 else f"{value * 1e3:.3g} ms"  # noqa: PLR2004
