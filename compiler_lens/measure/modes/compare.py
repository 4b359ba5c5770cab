"""Which mode: a program run as it is and under modes of torch.compile, each from a clean start, and timed.

Then what each row's compiler did differently from default's.
"""

from __future__ import annotations

import contextlib
import gc
import io
import os
import random
import re
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.capture.recorder import recorded, unheard
from compiler_lens.capture.torch_api import dynamo, inductor
from compiler_lens.capture.torch_api.settings import caches_in, without_shared_caches
from compiler_lens.facts.measured.modes import DEFAULT, Comparison, Deviation, Row, Timing, compiled_of
from compiler_lens.measure.modes.clock import WARM_UP, Clock, Memory
from compiler_lens.measure.modes.reference import Doubles, Results, depends_on_chance, deviation, gradients, kept, widen
from compiler_lens.measure.modes.wanted import Phase, Wanted, checked, wanted_rows
from compiler_lens.measure.program import Call, Program, as_calls, callable_of, cause, must_run
from compiler_lens.measure.sandbox.restoring import Kept, quiet, restoring_state
from compiler_lens.recording.errors import RecordingFileError, UsageError
from compiler_lens.recording.model import Recording
from compiler_lens.recording.output_files import Product, check_may_be_written


class Compared(Struct, frozen=True):
    """A comparison with the recordings of its cold compiles, by row, and each compiled row's diff against default."""

    comparison: Comparison
    recordings: Mapping[str, Recording]
    diffs: Mapping[str, Any] = field(default_factory=dict)


class _Work(Struct, frozen=True):
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


_FEWEST_PASSES = 2  # cold, then from the caches on disk


def compared(  # noqa: PLR0913 -- each by its name
    model: Callable[..., Any],
    given: tuple[Any, Any, Any],
    *,
    modes: Iterable[str] | str,
    options: Mapping[str, Mapping[str, Any]] | None,
    training: bool,
    phases: Sequence[Phase] | None,
    seconds: float,
    passes: int,
    seed: int,
    folder: str | os.PathLike[str] | None,
    overwrite: bool,
    each: Callable[[Compared, str], object],
) -> Compared:
    """Measure a program under modes, of which `given` are inputs, named inputs and calls. See `compare_modes`."""
    rows = wanted_rows(modes, options)
    work = _work(model, given, training=training, phases=phases)
    passes = max(passes, _FEWEST_PASSES)
    kept = None if folder is None else Path(folder)
    if kept is not None:
        try:
            kept.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RecordingFileError(f"cannot make {kept}: {error.strerror or error}") from error
        for row in rows:
            check_may_be_written(_file(kept, row), Product.RECORDING, overwrite=overwrite)
    with (
        without_shared_caches(),
        restoring_state(work.function, work.reached) as before,
        tempfile.TemporaryDirectory(prefix="compiler_lens_", ignore_cleanup_errors=True) as caches,
    ):
        # A program without tensors may run on the accelerator.
        here = torch.accelerator.current_accelerator(check_available=True)
        device = before.device or here or torch.device("cpu")
        clock = Clock(device, seconds / passes)
        try:
            return _Session(work, rows, seed, before, clock, Path(caches), kept).result(passes, each)
        finally:
            clean(device)


def _work(model: Any, given: tuple[Any, Any, Any], *, training: bool, phases: Sequence[Phase] | None) -> _Work:
    function, dynamic = callable_of(model, "compare_modes")
    inputs, kwargs, calls = given
    if phases is None:
        program = Program(function, as_calls(inputs, kwargs, calls), training, dynamic)

        def piece(call: Call, compiled: Any) -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            return program.one(compiled, call)

        pieces = tuple(partial(piece, call) for call in program.calls)

        def in_turn(compiled: Any) -> None:
            for each in pieces:
                each(compiled)

        phase = Phase("step" if training else "call", in_turn)
        return _Work(function, (phase,), dynamic, training, program.inputs, (pieces,), len(pieces))
    if inputs or kwargs or calls is not None or training:
        raise UsageError("give either inputs or phases: a phase has inputs of its own, and runs its own backward")
    found = checked(phases)
    runs = tuple(phase.run for phase in found)
    return _Work(function, found, dynamic, training=False, reached=runs, pieces=tuple((run,) for run in runs))


class _Session(Struct):
    """Measures rows, pass by pass."""

    work: _Work
    wanted: Sequence[Wanted]
    seed: int
    kept: Kept  # the program as it was
    clock: Clock
    caches: Path  # a folder for each row's
    folder: Path | None  # for recordings
    grad: bool = True
    expected: list[Results] = field(default_factory=list)  # of each phase
    reference: str = ""
    notes: list[str] = field(default_factory=list)
    orders: list[tuple[str, ...]] = field(default_factory=list)
    rows: dict[str, Row] = field(default_factory=dict)
    recordings: dict[str, Recording] = field(default_factory=dict)

    def result(self, passes: int, each: Callable[[Compared, str], object]) -> Compared:
        """Measure all rows in as many passes, and say after each row what is known by then."""
        self.rows.update((one.name, Row(one.name, one.as_text)) for one in self.wanted)
        with _silent():
            self._prepare()
        order = random.Random(self.seed)  # noqa: S311 -- an order to measure in
        for number in range(passes):
            shuffled = order.sample(list(self.wanted), len(self.wanted))
            self.orders.append(tuple(one.name for one in shuffled))
            for wanted in shuffled:
                if not self.rows[wanted.name].failure:
                    self._measure(wanted, is_cold=number == 0)
                    each(Compared(self._so_far(), dict(self.recordings)), wanted.name)
        found, diffs = self._so_far(), differences(self.recordings)
        return Compared(replace(found, rows=with_sameness(found.rows, diffs)), self.recordings, diffs)

    def _so_far(self) -> Comparison:
        return Comparison(
            rows=tuple(self.rows.values()),
            phases=tuple(phase.name for phase in self.work.phases),
            device=self.clock.device_name,
            torch=str(torch.__version__),
            training=self.work.training,
            reference=self.reference,
            orders=tuple(self.orders),
            seed=self.seed,
            calls=self.work.calls,
            notes=tuple(self.notes),
        )

    # -- before the first row

    def _prepare(self) -> None:
        with _as_it_is():
            self._check_eager()
            eager = self._results(self.work.function)
            self.kept.restore()
            torch.manual_seed(self.seed + 1)
            again = self._results(self.work.function, restores=False)
        self.kept.restore()
        with caches_in(self.caches / "first"):
            compile_first(self.wanted, self.clock.device, training=self.grad)
        if not any(eager):
            self.notes.append("the program returns no floating tensor: errors are not compared")
        elif any(map(depends_on_chance, eager, again)):
            self.notes.append("the program draws random numbers, which differ between modes: errors are not compared")
        else:
            self.expected, self.reference = self._in_double(eager)
        clean(self.clock.device)

    def _check_eager(self) -> None:
        """Run the program as it is, without gradients if it needs none. Raises `UsageError` if it fails."""
        if not self.work.training:
            with contextlib.suppress(Exception):
                self.grad = False
                self._results(self.work.function)
                return
        self.grad = True
        with must_run():
            self._results(self.work.function)

    def _in_double(self, eager: list[Results]) -> tuple[list[Results], str]:
        """What the results should be, and of which run that is."""
        try:
            self.kept.restore()
            widen(self.kept.state.tensors)
            with _as_it_is(), Doubles():
                return self._results(self.work.function, restores=False), "fp64"
        except Exception as error:  # noqa: BLE001 -- whatever the program raises with doubles
            self.notes.append(f"it does not run in fp64 ({cause(error)[0]}): errors are against eager")
            traceback.clear_frames(error.__traceback__)
            return eager, "eager"
        finally:
            self.kept.restore()

    # -- one row

    def _measure(self, wanted: Wanted, *, is_cold: bool) -> None:
        self.kept.restore()
        clean(self.clock.device)
        try:
            with _silent(), caches_in(self.caches / str(self.wanted.index(wanted))):
                self.rows[wanted.name] = self._measured(wanted, is_cold=is_cold)
        except UsageError:
            raise
        except Exception as error:  # noqa: BLE001 -- whatever it raises is this row's result
            message, line = cause(error)
            traceback.clear_frames(error.__traceback__)  # they hold the tensors that there was no room for
            self.rows[wanted.name] = replace(self.rows[wanted.name], failure=message, failure_line=line)
        finally:
            self.kept.restore()
            clean(self.clock.device)

    def _measured(self, wanted: Wanted, *, is_cold: bool) -> Row:
        """A row, with what this pass adds to it."""
        clock, phases, row = self.clock, self.work.phases, self.rows[wanted.name]
        memory = Memory(clock.device)
        compiled = wanted.compile(self.work.function, self.work.dynamic)
        calls = [lambda phase=phase: self._run(phase.run, compiled) for phase in phases]
        file = _file(self.folder, wanted) if self.folder else None
        with recorded(file, overwrite=True) if is_cold and not wanted.is_eager else _unheard(wanted) as recorder:
            first = [clock.warm(call, self._before) for call in calls]
            compile_peak = memory.peak
            memory.start()
            steady_since = time.time()
            times = [clock.many(call, self._before) for call in calls]
            peaks = [peak for peak in (row.peak_bytes, memory.peak) if peak is not None]
            recording = recorder.recording if recorder and is_cold else None
        steady = sum(Timing("", (of_phase,)).median for of_phase in times)
        seconds = 0.0 if wanted.is_eager else max(0.0, sum(first) - WARM_UP * steady)
        known = [timing.passes for timing in row.timings] or [()] * len(phases)
        timings = tuple(
            Timing(phase.name, (*before, of_phase), phase.tokens)
            for phase, before, of_phase in zip(phases, known, times, strict=True)
        )
        row = replace(row, timings=timings, peak_bytes=max(peaks, default=None))
        if not is_cold:
            return replace(row, warm_seconds=seconds)
        with _unheard(wanted):
            apart = self._deviation(compiled) if self.expected else None
        made = compiled_of(recording, steady_since) if recording else None
        if recording is not None:
            self.recordings[wanted.name] = recording
        return replace(row, cold_seconds=seconds, compile_peak_bytes=compile_peak, compiled=made, deviation=apart)

    def _deviation(self, function: Any) -> Deviation | None:
        pairs = zip(self._results(function), self.expected, strict=True)
        found = [one for one in (deviation(results, expected) for results, expected in pairs) if one]
        if not found:
            return None
        return Deviation(max(one.relative for one in found), max(one.largest for one in found))

    # -- one call

    def _results(self, function: Any, *, restores: bool = True) -> list[Results]:
        """What each phase computes, all of them from the start."""
        if restores:
            self.kept.restore()
        found: list[Results] = []
        for pieces in self.work.pieces:
            self._before()
            results = [tensor for piece in pieces for tensor in kept(self._run(piece, function))]
            found.append(results + (gradients(self.kept.state.tensors) if self.work.training else []))
        return found

    def _run(self, piece: Callable[[Any], Any], function: Any) -> Any:
        with torch.set_grad_enabled(self.grad and (self.work.training or torch.is_grad_enabled())):
            return piece(function)

    def _before(self) -> None:
        """What a training loop does between steps, and a server between requests."""
        torch.compiler.cudagraph_mark_step_begin()
        if self.work.training:
            for tensor in self.kept.state.tensors:
                if tensor.is_leaf and tensor.requires_grad:
                    tensor.grad = None


def _file(folder: Path, row: Wanted) -> Path:
    return folder / f"{file_name(row.name)}.clens"


def file_name(name: str) -> str:
    """Return a row's name as that of a file."""
    return re.sub(r"[^\w.-]+", "_", name).strip("._") or "row"


# -- a clean start for each row, and silence


def clean(device: torch.device) -> None:
    """Drop what the row before left: compiled code, CUDA graphs, unused memory."""
    dynamo.forget_compiled_code()
    if device.type == "cuda":
        inductor.forget_recorded_cudagraphs()
    gc.collect()
    if device.type != "cpu":
        with contextlib.suppress(RuntimeError, AttributeError, NotImplementedError):  # not every vendor's has it
            torch.accelerator.empty_cache()


def compile_first(rows: Iterable[Wanted], device: torch.device, *, training: bool) -> None:
    """Compile next to nothing, as each row will: what a process pays once is then paid, and no row's.

    Imports, the start of workers, the search for a compiler and its precompiled headers.
    """
    for row in rows:
        if row.is_eager:
            continue
        with contextlib.suppress(Exception), recorded():  # the row itself will say it
            tiny = row.compile(lambda x: (x * 2).sum(), None)
            for _ in range(3):  # CUDA graphs are recorded at the second call and run at the third
                torch.compiler.cudagraph_mark_step_begin()
                x = torch.ones(8, device=device, requires_grad=training)
                with torch.set_grad_enabled(training):
                    y = tiny(x)
                    if training:
                        y.backward()
        clean(device)


@contextlib.contextmanager
def _as_it_is() -> Iterator[None]:
    """Compile nothing in the block, and run what the user compiled as it is written. The stance is none of theirs."""
    with unheard(), torch.compiler.set_stance("force_eager"):
        yield


def _unheard(wanted: Wanted) -> contextlib.AbstractContextManager[None]:
    """Run a row in the block, and keep what that compiles from all lenses of the user."""
    return _as_it_is() if wanted.is_eager else unheard()


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Without what the program and autotuning print: it would come with every call."""
    with quiet(), contextlib.redirect_stderr(io.StringIO()):
        yield


# -- what each row's compiler did differently from default's


def differences(recordings: Mapping[str, Recording]) -> dict[str, Any]:
    """Return for each row but default the `RecordingDiff` from default's recording to its own."""
    from compiler_lens.facts.compare import diff

    before = recordings.get(DEFAULT)
    if before is None:
        return {}
    return {name: diff(before, after) for name, after in recordings.items() if name != DEFAULT}


def with_sameness(rows: Iterable[Row], diffs: Mapping[str, Any]) -> tuple[Row, ...]:
    """Return the rows, with those marked that run what default runs."""
    found = {row.name: row for row in rows}
    default = found[DEFAULT].compiled if DEFAULT in found else None
    for name, diff in diffs.items():
        made = found[name].compiled if name in found else None
        if made is not None and default is not None and diff is not None:
            # Not `is_empty`: that a mode asks for CUDA graphs, and gets none, changes nothing in what runs.
            alike = (made.captured, made.breaks) == (default.captured, default.breaks)
            is_same = alike and diff.same_kernels and not diff.retuned
            found[name] = replace(found[name], compiled=replace(made, same_as_default=is_same))
    return tuple(found.values())
