"""The tables of a comparison of modes: time, compile time, outcome."""

from __future__ import annotations

import math
from collections.abc import Iterator

from rich.text import Text

from compiler_lens.facts.measured.modes import Comparison, Row, Timing, above_noise, break_even, is_doubtful, speedup
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import BAD, DIM, GOOD, PLACE, WARN, Page, line, paragraph, title
from compiler_lens.views.text import UNKNOWN, nbytes, number, plural, seconds

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


def speed_lines(result: Comparison, phase: str, best: str, page: Page) -> Iterator[Text]:
    """How long a call of one phase takes, row by row, and why rows failed."""
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


def compile_lines(result: Comparison, best: str, page: Page) -> Iterator[Text]:
    """What compiling costs."""
    yield title("Compile", "time until calls are steady, and the calls that earn it back")
    yield from table(_COMPILE, [_compile_row(row, result, best) for row in result.measured], page.width)


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


def outcome_lines(result: Comparison, best: str, page: Page) -> Iterator[Text]:
    """What came out: memory, kernels, CUDA graphs, error."""
    yield title("Outcome", _outcome_summary(result))
    yield from table(_OUTCOME, [_outcome_row(row, result, best) for row in result.measured], page.width)


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


def duration(value: float) -> str:
    """A measured time with its unit, three digits: 8.21 µs, 0.124 ms, 12.4 ms, 1.25 s."""
    if value >= 0.9995:  # noqa: PLR2004 -- what would round to a second
        return seconds(value)
    return f"{value * 1e6:.3g} µs" if value < 1e-4 else f"{value * 1e3:.3g} ms"  # noqa: PLR2004
