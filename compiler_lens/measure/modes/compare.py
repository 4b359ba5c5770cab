"""Which mode: the program run as it is and under modes of torch.compile, each from a clean start, and timed."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from compiler_lens.measure.calls import Call, as_calls
from compiler_lens.measure.modes.clean import apart, clean
from compiler_lens.measure.modes.clock import Clock
from compiler_lens.measure.modes.phases import Phase, checked
from compiler_lens.measure.modes.result import Modes
from compiler_lens.measure.modes.session import Bench, Session, Work
from compiler_lens.measure.modes.wanted import MODES, wanted_rows
from compiler_lens.measure.restoring_state import restoring_state
from compiler_lens.measure.trial import Program, callable_of
from compiler_lens.recording.errors import RecordingFileError, UsageError

_FEWEST_PASSES = 2  # cold, then from the caches on disk


def compare_modes(  # noqa: PLR0913 -- each by its name
    model: Callable[..., Any],
    *inputs: Any,
    modes: Iterable[str] | str = MODES,
    options: Mapping[str, Mapping[str, Any]] | None = None,
    calls: Any = None,
    training: bool = False,
    phases: Sequence[Phase] | None = None,
    seconds: float = 2.0,
    passes: int = _FEWEST_PASSES,
    seed: int = 0,
    folder: str | os.PathLike[str] | None = None,
    each: Callable[[Modes, str], object] | None = None,
    **kwargs: Any,
) -> Modes:
    """Measure a program under modes of torch.compile: time per call, compile time, memory, kernels, error.

        print(compiler_lens.compare_modes(model, x))
        print(compiler_lens.compare_modes(model, x, modes=("eager", "max-autotune"), training=True))

    Rows are measured one after the other, in a shuffled order, in a cold pass and once more from the caches that it
    left on disk. Each starts without compiled code and with a cache folder of its own. Parameters, buffers, gradients,
    inputs, random states, torch's settings and its cache folder are afterwards as they were; compiled code is dropped
    and compiles again when it is next called, recorded CUDA graphs too.

    Args:
        modes: rows by torch's names, and "eager".
        options: further rows by names of your own, each a dict of Inductor's options; "mode" in it is a mode to begin
            with.
        calls: several sets of inputs, `[(args, kwargs), …]`; all of them together are then one measured call.
        training: forward and backward, from `.loss` or the sum of the first result that has a gradient. Without it
            the model is run without gradients, if it can be.
        phases: pieces of work that are timed apart, each a `compiler_lens.Phase`, in place of inputs.
        seconds: to spend on timing each row and phase, all passes together; compiling comes on top.
        passes: over all rows, two or more: the first compiles with empty caches.
        seed: of the order of the rows.
        folder: where to leave a recording of each row's cold compile.
        each: called with the result so far and a row's name, whenever that row has been measured.

    Raises:
        UsageError: the model cannot be called with these inputs, or a mode or option has no such name.
        RecordingFileError: the folder cannot be made.
    """
    rows = wanted_rows(modes, options)
    work = _work(model, (inputs, kwargs, calls), training=training, phases=phases)
    passes = max(passes, _FEWEST_PASSES)
    kept = None if folder is None else _made(folder)
    with apart(), restoring_state(work.function, work.reached) as before, _folder() as caches:
        device = before.device or _guessed()
        bench = Bench(before, Clock(device, seconds / passes), caches, kept)
        try:
            return Session(work, rows, bench, seed).result(passes, each)
        finally:
            clean(device)


def _work(model: Any, given: tuple[Any, Any, Any], *, training: bool, phases: Sequence[Phase] | None) -> Work:
    function, dynamic = callable_of(model, "compare_modes")
    inputs, kwargs, calls = given
    if phases is None:
        made = as_calls(inputs, kwargs, calls)
        program = Program(function, made if calls is not None else made[:1], training, dynamic)
        pieces = tuple(partial(_piece, program, call) for call in program.calls)
        phase = Phase("step" if training else "call", partial(_in_turn, pieces))
        return Work(function, (phase,), dynamic, training, program.inputs, (pieces,), len(pieces))
    if inputs or kwargs or calls is not None or training:
        raise UsageError("give either inputs or phases: a phase has inputs of its own, and runs its own backward")
    found = checked(phases)
    runs = tuple(phase.run for phase in found)
    return Work(function, found, dynamic, training=False, reached=runs, pieces=tuple((run,) for run in runs))


def _piece(program: Program, call: Call, function: Any) -> Any:
    torch.compiler.cudagraph_mark_step_begin()
    return program.one(function, call)


def _in_turn(pieces: Sequence[Callable[[Any], Any]], function: Any) -> None:
    for piece in pieces:
        piece(function)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="compiler_lens_", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


def _made(folder: str | os.PathLike[str]) -> Path:
    path = Path(folder)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RecordingFileError(f"cannot make {path}: {error.strerror or error}") from error
    return path


def _guessed() -> torch.device:
    """Where a program without tensors may run."""
    return torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
