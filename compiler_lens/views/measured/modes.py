"""A comparison of modes: what each costs and gains, what it changes in the kernels, and which to use."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct, field

from compiler_lens.facts.measured import modes
from compiler_lens.facts.measured.modes import Choice, Comparison, NoVerdict, Row, Why, break_even, speedup
from compiler_lens.views.diff.summary import summary_lines
from compiler_lens.views.document import Block, Column, Gap, Section, Table, line, paragraph
from compiler_lens.views.parts import At, Cell, Figure, Kind, Span, Tone, quiet, strong
from compiler_lens.views.text import UNKNOWN, duration, plural, seconds

_DIFF_LINES = 8  # of each row's differences
_REASONS = 3  # why CUDA graphs were skipped

_ROW = (Column(tone=Tone.GOOD), Column("", flexible=True, middle=True))
_SPEED = (
    *_ROW,
    Column("median", Kind.DURATION),
    Column("quartiles", Kind.DURATION),
    Column("× eager", Kind.RATIO),  # noqa: RUF001
    Column("tokens/s", Kind.RATE),
)
_COMPILE = (
    *_ROW,
    Column("cold", Kind.SECONDS, missing=UNKNOWN),
    Column("warm", Kind.SECONDS, missing=UNKNOWN),
    Column("break-even cold", Kind.COUNT),
    Column("warm", Kind.COUNT),
)
_OUTCOME = (
    *_ROW,
    Column("peak memory", Kind.BYTES),
    Column("kernels", Kind.COUNT, missing=UNKNOWN),
    Column("launches", Kind.COUNT, missing=UNKNOWN),
    Column("breaks", Kind.COUNT, missing=UNKNOWN),
    Column("CUDA graphs", Kind.COUNT),
    Column("error", Kind.ERROR),
)


class RowFacts(Row, frozen=True):
    """One way to run the program, measured, and what follows from that."""

    seconds: float | None = None  # median of all phases together
    speedup: float | None = None  # against eager
    above_noise_of_eager: bool | None = None
    break_even_cold: int | None = None  # calls
    break_even_warm: int | None = None
    medians: Mapping[str, float] = field(default_factory=dict)  # seconds by phase
    tokens_per_second: Mapping[str, float | None] = field(default_factory=dict)  # by phase


class Data(Struct, frozen=True):
    """A program's ways to run, in the order that was asked for, how they were measured, and which to use."""

    rows: tuple[RowFacts, ...]
    phases: tuple[str, ...]
    device: str
    torch: str
    training: bool
    reference: str  # what deviations are from: "fp64", "eager"; empty: there are none
    orders: tuple[tuple[str, ...], ...]  # of each pass over the rows
    seed: int
    notes: tuple[str, ...]  # what could not be measured
    calls: int  # of the model in one measured call
    best: str | None  # the row to use
    best_because: Why | NoVerdict | None
    diffs: Mapping[str, tuple[str, ...]]  # what the compiler did differently in each row than in default


def data(result: Comparison) -> Data:
    """Return a comparison's facts for programs."""
    best, eager = modes.choose(result), result.eager
    rows = tuple(
        RowFacts(
            **{name: getattr(row, name) for name in Row.__struct_fields__},
            seconds=row.seconds,
            speedup=speedup(row, eager),
            above_noise_of_eager=modes.above_noise(row, eager) if eager else None,
            break_even_cold=break_even(row, eager, row.cold_seconds),
            break_even_warm=break_even(row, eager, row.warm_seconds),
            medians={timing.phase: timing.median for timing in row.timings},
            tokens_per_second={timing.phase: timing.tokens_per_second for timing in row.timings},
        )
        for row in result.rows
    )
    shared = {name: getattr(result, name) for name in Data.__struct_fields__ if hasattr(result, name)}
    because = best.why if best else modes.no_verdict(result)
    own = {"rows": rows, "best": best and best.row.name, "best_because": because, "diffs": diff_lines(result)}
    return Data(**{**shared, **own})


def diff_lines(result: Comparison) -> Mapping[str, tuple[str, ...]]:
    """Return the differences of each row from default in a few lines."""
    diffs: Mapping[str, Any] = getattr(result, "diffs", {})
    return {name: tuple(summary_lines(diff)) for name, diff in diffs.items()} or result.diffs_told


def blocks(result: Comparison) -> tuple[Block, ...]:
    """Return the rows as tables, then what the compiler did differently, then what to use."""
    best = modes.choose(result)
    name = best.row.name if best else ""
    made: list[Block] = []
    for phase in result.phases:
        summary = quiet(f"  {_speed_summary(result, phase)}")
        made += [line(strong(phase[:1].upper() + phase[1:]), summary), _speed(result, phase, name)]
    compiled = Table(_COMPILE, tuple(_compile_row(row, result, name) for row in result.measured))
    made.append(Section("Compile", (compiled,), "time until calls are steady, and the calls that earn it back"))
    outcome = Table(_OUTCOME, tuple(_outcome_row(row, result, name) for row in result.measured))
    same = "the same in fp64" if result.reference == "fp64" else result.reference
    error = f"error: relative L2 distance from {same}" if same else "errors not compared"
    made.append(Section("Outcome", (outcome, *_remarks(result)), error))
    diffs: list[Block] = []
    for row, lines in diff_lines(result).items():
        diffs.append(line(strong(row), indent=2))
        diffs += [paragraph(one, indent=4) for one in lines[:_DIFF_LINES]]
        if (hidden := len(lines) - _DIFF_LINES) > 0:
            diffs.append(line(quiet(f"… {plural(hidden, 'more line')} in --json"), indent=4))
    if diffs:
        made.append(Section("Against default", tuple(diffs), "what the compiler did differently"))
    unsteady = Tone.WARN if modes.no_verdict(result) is NoVerdict.UNSTEADY else Tone.BAD
    return *made, Gap(), paragraph(_advice(best, result), tone=Tone.GOOD if best else unsteady)


# -- the tables


def _speed_summary(result: Comparison, phase: str) -> str:
    counts = [len(timing.samples) for row in result.rows if (timing := row.timing(phase))]
    calls = ""
    if counts:
        is_same = min(counts) == max(counts)
        calls = plural(counts[0], "call") if is_same else f"{min(counts):,} to {max(counts):,} calls"
        calls = f"{calls} each, "
    rounds = f"one call here is {result.calls} of yours, " if result.calls > 1 else ""
    return f"{calls}{rounds}{result.device}, torch {result.torch}"


def _speed(result: Comparison, phase: str, best: str) -> Table:
    """How long a call of one phase takes, row by row; below the first phase's, why rows failed."""
    failures: list[tuple[Block, ...]] = []
    rows: list[tuple[Cell, ...]] = []
    before = result.eager.timing(phase) if result.eager else None
    for row in result.rows:
        at = (At(row.failure_line), ": ") if row.failure_line else ()
        is_said = row.failure and phase == result.phases[0]
        failures.append((paragraph(*at, row.failure, indent=7, tone=Tone.BAD, limit=2),) if is_said else ())
        timing, gain = row.timing(phase), speedup(row, result.eager, phase)
        if timing is None or row.failure:
            rows.append((*_head(row, best), Span("failed" if row.failure else UNKNOWN, Tone.BAD), None, None, None))
            continue
        low, median, high = (Figure(value, Kind.DURATION, Tone.QUIET) for value in timing.quartiles)
        gained: Cell = None
        if gain is not None and before is not None and not row.is_eager:
            gained = Figure(gain, Kind.RATIO, Tone.GOOD if gain > 1 else Tone.WARN)
            if not modes.above_noise(timing, before):
                gained = Figure(gain, Kind.RATIO, Tone.QUIET), quiet(", noise")
        spread = (low, quiet("–"), high)  # noqa: RUF001
        rows.append((*_head(row, best), median.value, spread, gained, timing.tokens_per_second))
    return Table(_SPEED, tuple(rows), beneath=tuple(failures))


def _head(row: Row, best: str) -> tuple[Cell, Cell]:
    """What marks the row to use, and a row's name."""
    return ("*", strong(row.name)) if row.name == best else (None, row.name)


def _compile_row(row: Row, result: Comparison, best: str) -> tuple[Cell, ...]:
    if row.is_eager:
        return *_head(row, best), None, None, UNKNOWN, UNKNOWN
    even: list[Cell] = []
    for spent in (row.cold_seconds, row.warm_seconds):
        calls = break_even(row, result.eager, spent)
        is_known = spent is not None and result.eager is not None
        even.append(calls if calls is not None else "never" if is_known else UNKNOWN)
    return *_head(row, best), row.cold_seconds, row.warm_seconds, *even


def _outcome_row(row: Row, result: Comparison, best: str) -> tuple[Cell, ...]:
    made, error = row.compiled, None
    if row.deviation is not None:
        error = Figure(row.deviation.relative, Kind.ERROR, Tone.BAD if modes.is_doubtful(row, result) else Tone.PLAIN)
    if made is None:
        return *_head(row, best), row.peak_bytes, None, None, None, None, error
    graphs = f"{made.captured} of {made.graphs}" if made.captured or made.skipped else None
    return *_head(row, best), row.peak_bytes, made.kernels, made.launches, made.breaks, graphs, error


# -- below them


def _remarks(result: Comparison) -> Iterator[Block]:
    def remark(text: str, *, limit: int = 2, tone: Tone = Tone.WARN) -> Block:
        return paragraph(text, indent=2, tone=tone, limit=limit)

    for row in result.measured:
        for reason in row.compiled.skipped[:_REASONS] if row.compiled else ():
            yield remark(f"{row.name}, no CUDA graph: {reason}")
        if row.compiled and row.compiled.late:
            late = f"still compiling in timed calls ({plural(row.compiled.late, 'compilation')})"
            yield remark(f"{row.name}: {late}: its times are not those of steady calls")
        if modes.is_doubtful(row, result):
            yield remark(f"{row.name}: its error is far above eager's, check its results", limit=0, tone=Tone.BAD)
    if unsteady := [row for row in result.measured if modes.is_unsteady(row)]:
        slower = f"up to {_factor(modes.largest_drift(unsteady))} times slower in one pass than in another"
        yield remark(f"{_names(unsteady)}: {slower}: is something else running here?", limit=3)
    for note in result.notes:
        yield remark(note, limit=3, tone=Tone.QUIET)


def _advice(best: Choice | None, result: Comparison) -> str:
    if best is None:
        if modes.no_verdict(result) is not NoVerdict.UNSTEADY:
            return "Nothing could be measured."
        return (
            f"No verdict: passes over the same row disagree {_factor(modes.largest_drift(result.measured))} times. "
            "Measure again on a quiet machine, and longer: --seconds 10, in Python seconds=10."
        )
    same = f"; {_names(best.same)}: the same kernels as default" if best.same else ""
    row, eager = best.row, result.eager
    if best.why is Why.NO_GAIN:
        slower = f"{_names(best.equals)}: not above noise of it" if best.equals else "nothing is faster"
        return f"Use eager: {slower}{same}"
    if best.why is Why.ALONE:
        return f"Only {row.name} was measured: there is nothing to compare it with."
    over = ""
    if len(result.phases) > 1 and eager and row.seconds and eager.seconds:  # no column has the sums over phases
        spent = f"{duration(eager.seconds)} → {duration(row.seconds)}"
        over = f" over {' and '.join(result.phases)} together, {spent}"
    gain = f"{best.speedup:.2f} × eager{over}" if best.speedup else "the fastest"  # noqa: RUF001
    calls = break_even(row, eager, row.cold_seconds)
    earned = f", earned back after {plural(calls, 'call')} with empty caches" if calls is not None else ""
    others = ""
    for other in best.equals:
        if not other.is_eager:
            more = seconds((other.cold_seconds or 0.0) - (row.cold_seconds or 0.0))
            others += f"; {other.name} is not above noise of it and costs {more} more to compile"
    return f"Use {row.name}: {gain}{earned}{others}{same}"


def _names(rows: Iterable[Row]) -> str:
    return ", ".join(row.name for row in rows)


def _factor(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"  # noqa: PLR2004
