"""Profile: how long every launch of every kernel takes, in real calls of the user's model."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import Any

import torch
from msgspec.structs import replace

from compiler_lens.capture.recorder import Recorder, note, whole_file
from compiler_lens.capture.torch_api.dynamo import is_compiled
from compiler_lens.facts.measured.modes import DEFAULT
from compiler_lens.measure.profile.figures import measured
from compiler_lens.measure.profile.profiler import check_profiler_is_free
from compiler_lens.measure.profile.run import Run
from compiler_lens.measure.program import Program, as_calls, callable_of, known_mode
from compiler_lens.measure.sandbox.restoring import code_caches_apart, quiet, restoring_state
from compiler_lens.recording.codec import packed
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import ProfileNote, Recording, Remark


def profile_anew(  # noqa: PLR0913 -- all but the first two are said by name
    model: Callable[..., Any],
    given: tuple[Any, Any, Any],
    *,
    mode: str | None,
    path: str | os.PathLike[str] | None,
    training: bool,
    repeats: int | None,
) -> tuple[Recording, str]:
    """Compile a model and measure it, of which `given` are inputs, named inputs and calls.

    Returns the recording, whose last profile is this one, and its file, empty where it is in none.
    """
    inner, dynamic = callable_of(model, "profile")
    if mode not in {None, DEFAULT}:
        known_mode(mode)
    with contextlib.closing(Recorder(path)) as recorder:
        compiled = torch.compile(inner, backend=recorder, mode=mode, dynamic=dynamic)
        return _noted(recorder, Program(compiled, as_calls(*given), training), repeats, is_ours=True)


def profile_with(
    recorder: Recorder,
    model: Callable[..., Any],
    given: tuple[Any, Any, Any],
    *,
    training: bool = False,
    repeats: int | None = None,
) -> tuple[Recording, str]:
    """Do the same with a recorder that is there, which keeps the profile in its recording.

    A model that is compiled already, or has parts that are, is called as it is, with gradients if they are on; else it
    is compiled with the recorder.
    """
    callable_of(model, "profile")
    return _noted(recorder, Program(model, as_calls(*given), training), repeats, is_ours=False)


def _noted(recorder: Recorder, program: Program, repeats: int | None, *, is_ours: bool) -> tuple[Recording, str]:
    """Measure, and note the profile in the recording. `is_ours`: compiled for this, and nobody else calls it."""
    if repeats is not None and repeats < 1:
        raise UsageError(f"repeats is a number of calls, 1 or more, not {repeats}")
    check_profiler_is_free()
    caches = code_caches_apart() if is_ours else contextlib.nullcontext()
    with quiet(), restoring_state(program.function, program.inputs) as kept, caches:
        # The module, its parts, what a function closes over.
        if not is_ours and not any(map(is_compiled, kept.state.values)):
            program = Program(torch.compile(program.function, backend=recorder), program.calls, program.training)
            is_ours = True
        run = Run(program, kept)
        # As `compare_modes` does: kernels of a forward that keeps tensors for a backward are not those of inference.
        needs_none = False
        if is_ours and not program.training and torch.is_grad_enabled():
            with torch.no_grad():
                needs_none = run.error_without_compiling() is None
            kept.restore()
        with torch.no_grad() if needs_none else contextlib.nullcontext():
            made = measured(recorder, run, repeats)
        if needs_none:
            made = replace(made, notes=(*made.notes, ProfileNote(Remark.NO_GRADIENTS)))
    note(recorder, "lens.profile", packed(made))
    return recorder.recording, whole_file(recorder)
