"""Which mode to use: rows of measured figures, and what may be concluded from them."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import accumulate

from msgspec import Struct, field

from compiler_lens.facts.kernels.kernels import launch_count
from compiler_lens.recording.model import CudagraphState, Recording, SourceLine

EAGER, DEFAULT = "eager", "default"

_STEADY = 1.3  # times: passes that differ by more were not run on the same machine, so to speak
_USELESS = 3  # times: which row is the fastest is then a matter of when it was measured
_DOUBTFUL = 10  # times eager's error: more than another order of summation explains
_EXACT = 1e-6  # errors below are as good as none


class Timing(Struct, frozen=True):
    """How long one phase of the work took, call by call."""

    phase: str  # "call", "step"; "prefill", "decode"
    passes: tuple[tuple[float, ...], ...]  # seconds of each call, one tuple for each pass over all rows
    tokens: int | None = None  # that one call makes

    @property
    def samples(self) -> tuple[float, ...]:
        """The seconds of all calls."""
        return tuple(seconds for one in self.passes for seconds in one)

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """A quarter, half and three quarters of the calls took no longer than this, in seconds; each pass counts alike.

        So a row that was fast in one pass and slow in the next has a wide spread, however many calls each had time for.
        """
        weighted = sorted((seconds, 1 / len(one)) for one in self.passes for seconds in one)
        ends = list(accumulate(weight for _, weight in weighted))
        places = [(end - weight / 2) / ends[-1] for end, (_, weight) in zip(ends, weighted, strict=True)]
        found: list[float] = []
        for share in (0.25, 0.5, 0.75):
            after = bisect_left(places, share)
            if after in {0, len(places)}:
                found.append(weighted[min(after, len(weighted) - 1)][0])
                continue
            (below, _), (above, _) = weighted[after - 1 : after + 1]
            part = (share - places[after - 1]) / (places[after] - places[after - 1])
            found.append(below + part * (above - below))
        low, middle, high = found
        return low, middle, high

    @property
    def median(self) -> float:
        """Seconds of the call in the middle."""
        return self.quartiles[1]

    @property
    def drift(self) -> float:
        """How many times longer a call took in the slowest pass than in the fastest, by their medians."""
        medians = [statistics.median(one) for one in self.passes]
        return max(medians) / min(medians) if min(medians) else 1.0

    @property
    def tokens_per_second(self) -> float | None:
        """Tokens that a call makes, by its median time."""
        return self.tokens / self.median if self.tokens and self.median else None


class Deviation(Struct, frozen=True):
    """How far results are from those of the reference."""

    relative: float  # L2 norm of the difference by that of the reference, of the tensor where it is largest
    largest: float  # of all single differences


class Compiled(Struct, frozen=True):
    """What the compiler made of the program, from a recording of its first, cold compile."""

    graphs: int
    breaks: int
    kernels: int
    launches: int
    captured: int = 0  # graphs that run as CUDA graphs, whole or in parts
    skipped: tuple[str, ...] = ()  # why others do not, a reason each
    late: int = 0  # compilations in timed calls: the program had not come to rest
    same_as_default: bool = False  # the very kernels that default runs, called in the same way


class Row(Struct, frozen=True):
    """One way to run the program, measured."""

    name: str
    arguments: Mapping[str, str] = field(default_factory=dict)  # of torch.compile; empty: its defaults, or eager
    timings: tuple[Timing, ...] = ()
    cold_seconds: float | None = None  # what the first calls took longer than later ones, with empty caches
    warm_seconds: float | None = None  # the same with full caches on disk
    peak_bytes: int | None = None  # of device memory in steady calls, above what was there before
    compile_peak_bytes: int | None = None  # the same while compiling and in the first calls
    compiled: Compiled | None = None
    deviation: Deviation | None = None
    failure: str = ""  # what it raised, in one line
    failure_line: SourceLine | None = None  # the user's line where it raised

    @property
    def is_eager(self) -> bool:
        """Whether nothing is compiled."""
        return self.name == EAGER

    @property
    def seconds(self) -> float | None:
        """Median seconds of all phases together."""
        return sum(timing.median for timing in self.timings) if self.timings and not self.failure else None

    @property
    def quartiles(self) -> tuple[float, float, float]:
        """Those of all phases, added up."""
        lows, middles, highs = zip(*(timing.quartiles for timing in self.timings), strict=True)
        return sum(lows), sum(middles), sum(highs)

    def timing(self, phase: str) -> Timing | None:
        """Return the times of one phase."""
        return next((timing for timing in self.timings if timing.phase == phase), None)


class Comparison(Struct, frozen=True):
    """A program's rows, in the order that was asked for, and how they were measured."""

    rows: tuple[Row, ...]
    phases: tuple[str, ...]
    device: str = ""  # "NVIDIA H200"
    torch: str = ""
    training: bool = False
    reference: str = ""  # what deviations are from: "fp64", "eager"; empty: there are none
    orders: tuple[tuple[str, ...], ...] = ()  # of each pass over the rows
    seed: int = 0  # that gave these orders
    notes: tuple[str, ...] = ()  # what could not be measured, in words
    calls: int = 1  # of the model in one measured call
    diffs_told: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # each row against default, as shown

    def row(self, name: str) -> Row | None:
        """Return a row by its name."""
        return next((row for row in self.rows if row.name == name), None)

    @property
    def eager(self) -> Row | None:
        """The program as it is."""
        return self.row(EAGER)

    @property
    def measured(self) -> tuple[Row, ...]:
        """The rows that did not fail."""
        return tuple(row for row in self.rows if row.seconds is not None)


class Why(Enum):
    """Why a row is the one to use."""

    FASTEST = "fastest"  # of all, and not by noise
    CHEAPEST = "cheapest"  # of those that are equally fast, but for noise, the least to compile
    NO_GAIN = "no_gain"  # nothing is faster than eager, but for noise
    ALONE = "alone"  # nothing else was measured


class NoVerdict(Enum):
    """Why no row is the one to use."""

    NOTHING = "nothing"  # could be measured
    UNSTEADY = "unsteady"  # passes over the same row disagree: the machine was measured, not the program


class Choice(Struct, frozen=True):
    """The row to use."""

    row: Row
    why: Why
    equals: tuple[Row, ...] = ()  # as fast, but for noise, and dearer
    same: tuple[Row, ...] = ()  # run the very kernels of default, whatever was measured
    speedup: float | None = None  # against eager


def above_noise(one: Row | Timing, other: Row | Timing) -> bool:
    """Return whether the middle halves of two do not meet: one's lower quartile is above the other's upper."""
    if any(isinstance(each, Row) and each.seconds is None for each in (one, other)):
        return False
    (low, _, high), (other_low, _, other_high) = one.quartiles, other.quartiles
    return low > other_high or other_low > high


def speedup(row: Row, eager: Row | None, phase: str = "") -> float | None:
    """Return how many times faster than eager a row is, in all or in one phase."""
    taken: list[float | None] = []
    for each in (eager, row):
        timing = each.timing(phase) if each and phase else None
        taken.append(timing.median if timing else each.seconds if each else None)
    before, after = taken
    return before / after if before and after else None


def break_even(row: Row, eager: Row | None, compile_seconds: float | None) -> int | None:
    """Return the number of calls that earn back the time to compile. None: never, it is not faster; or not known."""
    if eager is None or row.seconds is None or eager.seconds is None or compile_seconds is None:
        return None
    saved = eager.seconds - row.seconds
    if saved <= 0 or not above_noise(row, eager):
        return None
    return math.ceil(compile_seconds / saved)


def is_unsteady(row: Row) -> bool:
    """Return whether a row's passes differ so much that something else was running, or the device throttled."""
    return any(timing.drift > _STEADY for timing in row.timings)


def is_doubtful(row: Row, comparison: Comparison) -> bool:
    """Return whether a row's results are so far from the reference that rounding alone does not explain it."""
    eager = comparison.eager
    if row.deviation is None or eager is None or eager.deviation is None or row.is_eager:
        return False
    if not math.isfinite(row.deviation.relative):
        return math.isfinite(eager.deviation.relative)
    return comparison.reference != EAGER and row.deviation.relative > _DOUBTFUL * max(eager.deviation.relative, _EXACT)


def no_verdict(comparison: Comparison) -> NoVerdict | None:
    """Return why there is no row to use; None where there is one."""
    rows = _candidates(comparison)
    if not rows:
        return NoVerdict.NOTHING
    return NoVerdict.UNSTEADY if len(rows) > 1 and largest_drift(rows) > _USELESS else None


def largest_drift(rows: Iterable[Row]) -> float:
    """Return how many times slower in one pass than in another any of these was."""
    return max((timing.drift for row in rows for timing in row.timings), default=1.0)


def _candidates(comparison: Comparison) -> list[Row]:
    return [row for row in comparison.measured if not is_doubtful(row, comparison)]


def choose(comparison: Comparison) -> Choice | None:
    """Return the row to use: of all that no other row beats by more than noise, the one that costs least to compile.

    Rows that run the very kernels of default are default: what differs between their figures is the machine.
    """
    if no_verdict(comparison):
        return None
    rows = _candidates(comparison)
    same = tuple(row for row in rows if row.compiled and row.compiled.same_as_default)
    if any(row.name == DEFAULT for row in rows):
        rows = [row for row in rows if row not in same]
    # Not those that are near the fastest: with a wide spread it would have slow rows for its equals.
    equals = [
        row for row in rows if not any((o.seconds or 0.0) < (row.seconds or 0.0) and above_noise(o, row) for o in rows)
    ]
    best = min(equals, key=lambda row: (not row.is_eager, row.cold_seconds or 0.0, row.seconds or 0.0))
    others = tuple(row for row in equals if row is not best)
    if len(_candidates(comparison)) == 1:
        why = Why.ALONE
    elif best.is_eager:
        why = Why.NO_GAIN
    else:
        why = Why.CHEAPEST if others else Why.FASTEST
    return Choice(best, why, others, same, speedup(best, comparison.eager))


def compiled_of(recording: Recording, steady_since: float = math.inf) -> Compiled:
    """Return a recording's figures for a row; `steady_since` is when timing began, in seconds since the epoch."""
    ran = (CudagraphState.CAPTURED, CudagraphState.PARTITIONED)
    outcomes = recording.cudagraphs
    skipped = dict.fromkeys(o.reason for o in outcomes if o.state is CudagraphState.SKIPPED)
    return Compiled(
        graphs=len(recording.output_codes),
        breaks=len(recording.graph_breaks),
        kernels=len(recording.kernels),
        launches=launch_count(recording.kernels),
        captured=len({(o.compile_id, o.direction) for o in outcomes if o.state in ran}),
        skipped=tuple(skipped),
        late=sum(c.started > steady_since for c in recording.compilations),
    )
