"""Which mode: the program run as it is and under modes of torch.compile, each from a clean start, and timed."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from compiler_lens.capture.torch_api.settings import without_shared_caches
from compiler_lens.measure.modes.clock import Clock
from compiler_lens.measure.modes.session import Compared, Session, Work, clean
from compiler_lens.measure.modes.wanted import Phase, checked, wanted_rows
from compiler_lens.measure.program import Call, Program, as_calls, callable_of
from compiler_lens.measure.sandbox.restoring import restoring_state
from compiler_lens.recording.errors import RecordingFileError, UsageError

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
            return Session(work, rows, seed, before, clock, Path(caches), kept).result(passes, each)
        finally:
            clean(device)


def _work(model: Any, given: tuple[Any, Any, Any], *, training: bool, phases: Sequence[Phase] | None) -> Work:
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
        return Work(function, (phase,), dynamic, training, program.inputs, (pieces,), len(pieces))
    if inputs or kwargs or calls is not None or training:
        raise UsageError("give either inputs or phases: a phase has inputs of its own, and runs its own backward")
    found = checked(phases)
    runs = tuple(phase.run for phase in found)
    return Work(function, found, dynamic, training=False, reached=runs, pieces=tuple((run,) for run in runs))
