"""The rows of one program, in the making."""

from __future__ import annotations

import contextlib
import io
import random
import re
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.capture.recorder import recorded
from compiler_lens.capture.torch_api.settings import caches_in
from compiler_lens.facts.measured.modes import Comparison, Deviation, Row, Timing, compiled_of
from compiler_lens.measure.modes.clean import as_is, clean, compile_first, no_active_lens
from compiler_lens.measure.modes.clock import WARM_UP, Clock, Memory
from compiler_lens.measure.modes.differences import differences, with_sameness
from compiler_lens.measure.modes.phases import Phase
from compiler_lens.measure.modes.reference import Doubles, Results, depends_on_chance, deviation, gradients, kept, widen
from compiler_lens.measure.modes.wanted import Wanted
from compiler_lens.measure.program import cause, placed
from compiler_lens.measure.sandbox.restoring import Kept, quiet
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording


class Compared(Struct, frozen=True):
    """A comparison with the recordings of its cold compiles, by row, and each compiled row's diff against default."""

    comparison: Comparison
    recordings: Mapping[str, Recording]
    diffs: Mapping[str, Any] = field(default_factory=dict)


class Work(Struct, frozen=True):
    """What is measured."""

    function: Callable[..., Any]
    phases: tuple[Phase, ...]
    dynamic: bool | None  # as the user compiled it
    training: bool
    reached: tuple[Any, ...]  # what else the work can reach: its inputs
    # Of each phase, what it calls one after the other: each one's results are compared, and kept before the next call
    # writes over them.
    pieces: tuple[tuple[Callable[[Any], Any], ...], ...]
    calls: int = 1  # in one call of a phase


class Bench(Struct, frozen=True):
    """What it is measured with."""

    kept: Kept  # the program as it was
    clock: Clock
    caches: Path  # a folder for each row's
    folder: Path | None  # for recordings


class _Attempt(Struct):
    """What one pass showed of one row."""

    times: list[tuple[float, ...]] = field(default_factory=list)  # of each phase
    compile_seconds: float = 0.0
    steady_since: float = 0.0  # seconds since the epoch
    peak: int | None = None
    compile_peak: int | None = None
    deviation: Deviation | None = None
    recording: Recording | None = None


class Session:
    """Measures rows, pass by pass."""

    def __init__(self, work: Work, wanted: Sequence[Wanted], bench: Bench, seed: int) -> None:
        self._work, self._wanted, self._bench, self._seed = work, wanted, bench, seed
        self._grad = True
        self._expected: list[Results] = []  # of each phase
        self._reference = ""
        self._notes: list[str] = []
        self._orders: list[tuple[str, ...]] = []
        self._rows = {one.name: Row(one.name, one.as_text) for one in wanted}
        self._recordings: dict[str, Recording] = {}

    def result(self, passes: int, each: Callable[[Compared, str], object]) -> Compared:
        """Measure all rows in as many passes, and say after each row what is known by then."""
        with _silent():
            self._prepare()
        order = random.Random(self._seed)  # noqa: S311 -- an order to measure in
        for number in range(passes):
            shuffled = order.sample(list(self._wanted), len(self._wanted))
            self._orders.append(tuple(one.name for one in shuffled))
            for wanted in shuffled:
                if not self._rows[wanted.name].failure:
                    self._measure(wanted, is_cold=number == 0)
                    each(Compared(self._so_far(), dict(self._recordings)), wanted.name)
        found, diffs = self._so_far(), differences(self._recordings)
        return Compared(replace(found, rows=with_sameness(found.rows, diffs)), self._recordings, diffs)

    def _so_far(self) -> Comparison:
        return Comparison(
            rows=tuple(self._rows.values()),
            phases=tuple(phase.name for phase in self._work.phases),
            device=self._bench.clock.device_name,
            torch=str(torch.__version__),
            training=self._work.training,
            reference=self._reference,
            orders=tuple(self._orders),
            seed=self._seed,
            calls=self._work.calls,
            notes=tuple(self._notes),
        )

    # -- before the first row

    def _prepare(self) -> None:
        with as_is():
            self._check_eager()
            eager = self._results(self._work.function)
            self._bench.kept.restore()
            torch.manual_seed(self._seed + 1)
            again = self._results(self._work.function, keep_seed=True)
        self._bench.kept.restore()
        device = self._bench.clock.device
        with caches_in(self._bench.caches / "first"):
            compile_first(self._wanted, device, training=self._grad)
        if not any(eager):
            self._notes.append("the program returns no floating tensor: errors are not compared")
        elif any(map(depends_on_chance, eager, again)):
            self._notes.append("the program draws random numbers, which differ between modes: errors are not compared")
        else:
            self._expected, self._reference = self._in_double(eager)
        clean(device)

    def _check_eager(self) -> None:
        """Run the program as it is, without gradients if it needs none. Raises `UsageError` if it fails."""
        if not self._work.training:
            with contextlib.suppress(Exception):
                self._grad = False
                self._results(self._work.function)
                return
        self._grad = True
        try:
            self._results(self._work.function)
        except UsageError:
            raise
        except Exception as error:
            message, line = cause(error)
            raise UsageError(placed(f"the model fails without torch.compile, too: {message}", line)) from error

    def _in_double(self, eager: list[Results]) -> tuple[list[Results], str]:
        """What the results should be, and of which run that is."""
        try:
            self._bench.kept.restore()
            widen(self._bench.kept.state.tensors)
            with as_is(), Doubles():
                return self._results(self._work.function, keep_state=True), "fp64"
        except Exception as error:  # noqa: BLE001 -- whatever the program raises with doubles
            self._notes.append(f"it does not run in fp64 ({cause(error)[0]}): errors are against eager")
            traceback.clear_frames(error.__traceback__)
            return eager, "eager"
        finally:
            self._bench.kept.restore()

    # -- one row

    def _measure(self, wanted: Wanted, *, is_cold: bool) -> None:
        device, row = self._bench.clock.device, self._rows[wanted.name]
        self._bench.kept.restore()
        clean(device)
        try:
            with _silent(), caches_in(self._bench.caches / str(self._wanted.index(wanted))):
                attempt = self._attempt(wanted, is_cold=is_cold)
            self._rows[wanted.name] = self._with(row, attempt, is_cold=is_cold)
            if attempt.recording is not None:
                self._recordings[wanted.name] = attempt.recording
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it raises is this row's result
            message, line = cause(error)
            traceback.clear_frames(error.__traceback__)  # they hold the tensors that there was no room for
            self._rows[wanted.name] = replace(row, failure=message, failure_line=line)
        finally:
            self._bench.kept.restore()
            clean(device)

    def _attempt(self, wanted: Wanted, *, is_cold: bool) -> _Attempt:
        clock, found = self._bench.clock, _Attempt()
        memory = Memory(clock.device)
        compiled = wanted.compile(self._work.function, self._work.dynamic)
        calls = [lambda phase=phase: self._run(phase.run, compiled) for phase in self._work.phases]
        with self._recorded(wanted, is_cold=is_cold) as lens:
            first = [clock.warm(call, self._before) for call in calls]
            found.compile_peak = memory.peak
            memory.start()
            found.steady_since = time.time()
            found.times = [clock.many(call, self._before) for call in calls]
            found.peak = memory.peak
            found.recording = lens.recording if lens else None
        steady = sum(Timing("", (times,)).median for times in found.times)
        found.compile_seconds = 0.0 if wanted.is_eager else max(0.0, sum(first) - WARM_UP * steady)
        if is_cold and self._expected:
            with as_is() if wanted.is_eager else no_active_lens():
                found.deviation = self._deviation(compiled)
        return found

    def _recorded(self, wanted: Wanted, *, is_cold: bool) -> contextlib.AbstractContextManager[Any]:
        if wanted.is_eager:
            return as_is()
        if not is_cold:
            return no_active_lens()
        folder = self._bench.folder
        return recorded(folder / f"{file_name(wanted.name)}.clens" if folder else None)

    def _with(self, row: Row, attempt: _Attempt, *, is_cold: bool) -> Row:
        known = [timing.passes for timing in row.timings] or [()] * len(self._work.phases)
        peaks = [peak for peak in (row.peak_bytes, attempt.peak) if peak is not None]
        row = replace(
            row,
            timings=tuple(
                Timing(phase.name, (*before, times), phase.tokens)
                for phase, before, times in zip(self._work.phases, known, attempt.times, strict=True)
            ),
            peak_bytes=max(peaks, default=None),
        )
        if not is_cold:
            return replace(row, warm_seconds=attempt.compile_seconds)
        return replace(
            row,
            cold_seconds=attempt.compile_seconds,
            compile_peak_bytes=attempt.compile_peak,
            compiled=compiled_of(attempt.recording, attempt.steady_since) if attempt.recording else None,
            deviation=attempt.deviation,
        )

    def _deviation(self, function: Any) -> Deviation | None:
        pairs = zip(self._results(function), self._expected, strict=True)
        found = [one for one in (deviation(results, expected) for results, expected in pairs) if one]
        if not found:
            return None
        return Deviation(max(one.relative for one in found), max(one.largest for one in found))

    # -- one call

    def _results(self, function: Any, *, keep_seed: bool = False, keep_state: bool = False) -> list[Results]:
        """What each phase computes, all of them from the start."""
        if not (keep_seed or keep_state):
            self._bench.kept.restore()
        found: list[Results] = []
        for pieces in self._work.pieces:
            self._before()
            results = [tensor for piece in pieces for tensor in kept(self._run(piece, function))]
            found.append(results + (gradients(self._bench.kept.state.tensors) if self._work.training else []))
        return found

    def _run(self, piece: Callable[[Any], Any], function: Any) -> Any:
        with torch.set_grad_enabled(self._grad and (self._work.training or torch.is_grad_enabled())):
            return piece(function)

    def _before(self) -> None:
        """What a training loop does between steps, and a server between requests."""
        torch.compiler.cudagraph_mark_step_begin()
        if self._work.training:
            for tensor in self._bench.kept.state.tensors:
                if tensor.is_leaf and tensor.requires_grad:
                    tensor.grad = None


def file_name(name: str) -> str:
    """Return a row's name as that of a file."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "row"


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the program and autotuning print: it would come with every call."""
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        yield
