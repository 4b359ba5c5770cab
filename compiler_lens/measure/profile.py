"""Profile: how long every launch of every kernel takes, in real calls of the user's model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch

from compiler_lens.decode.profiles import profile_meta
from compiler_lens.facts.measured.modes import DEFAULT
from compiler_lens.measure.calls import as_calls
from compiler_lens.measure.modes.wanted import known_mode
from compiler_lens.measure.profile_figures import measured
from compiler_lens.measure.profile_run import Run
from compiler_lens.measure.profile_session import check_profiler_is_free
from compiler_lens.measure.restoring_state import Kept, code_caches_apart, restoring_state
from compiler_lens.measure.settings import quiet
from compiler_lens.measure.trial import Program, callable_of
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import Profile, ProfileNote, Recording, Remark

if TYPE_CHECKING:
    import os

    from compiler_lens.lens import Lens


@dataclass(frozen=True, slots=True)
class Profiled:
    """A profile with the recording that it belongs to. It prints itself."""

    recording: Recording
    profile: Profile
    path: str = ""  # of the recording, if it is in a file

    def report(self, part: str = "", *, width: int | None = None, color: bool | None = None) -> str:
        """The call, then every kernel with what it could gain; and what to do.

        `part`: only the kernels of a line, `model.py:41`, of a module, `layers.3.attn`, or of that name. Raises
        `UsageError` where there is none.
        """
        from compiler_lens.views.console.profile import profile_report

        return profile_report(self.recording, width=width, color=color, path=self.path, part=part)

    def to_json(self, part: str = "") -> str:
        """The same for programs."""
        from compiler_lens.facts.program.select import EVERYTHING, select_launches
        from compiler_lens.views.json import to_json

        return to_json(self.recording, "profile", select_launches(self.recording, part) if part else EVERYTHING)

    def __str__(self) -> str:
        return self.report().rstrip("\n")


def profile(  # noqa: PLR0913 -- all but the first two are said by name
    model: Callable[..., Any],
    *inputs: Any,
    mode: str | None = None,
    path: str | os.PathLike[str] | None = None,
    training: bool = False,
    calls: Any = None,
    repeats: int | None = None,
    **kwargs: Any,
) -> Profiled:
    """Compile a model, and measure how long each launch of each kernel takes in real calls of it.

        print(compiler_lens.profile(model, x))
        print(compiler_lens.profile(model, x, mode="reduce-overhead", path="run.clens"))

    What a call may change is afterwards as it was before, see `what_if`; as there, what the process has compiled before
    is dropped, and compiles again when it is next called. A model that is compiled already is compiled anew, as this
    asks for; to time it as it is, `Lens.profile` of the lens that it was compiled with.

    Args:
        mode: of torch.compile.
        path: where to write the recording with the profile in it; None keeps it in memory.
        training: run a backward after each call, from `.loss` or the sum of the first result that has a gradient.
            Without it the model is called without gradients, if it can be.
        calls: several sets of inputs, `[(args, kwargs), …]`; times are then of one such call on average.
        repeats: how often to call, for each of the two measurements; by default as often as takes half a second,
            30 times at most under the profiler.

    Raises:
        UsageError: the model cannot be called with these inputs, nothing of it is compiled, torch has no such mode, or
            somebody profiles.
    """
    from compiler_lens.lens import Lens

    inner, dynamic = callable_of(model, "profile")
    if mode not in {None, DEFAULT}:
        known_mode(mode)
    with contextlib.closing(Lens(path)) as lens:
        compiled = torch.compile(inner, backend=lens, mode=mode, dynamic=dynamic)
        return _kept(lens, _program(compiled, (inputs, kwargs, calls), training=training), repeats, is_ours=True)


def profile_with(
    lens: Lens,
    model: Callable[..., Any],
    *inputs: Any,
    training: bool = False,
    calls: Any = None,
    repeats: int | None = None,
    **kwargs: Any,
) -> Profiled:
    """The same with a lens that is there, which keeps the profile in its recording.

    A model that is compiled already, or has parts that are, is called as it is, with gradients if they are on; else it
    is compiled with the lens.
    """
    callable_of(model, "profile")
    return _kept(lens, _program(model, (inputs, kwargs, calls), training=training), repeats, is_ours=False)


def _program(model: Callable[..., Any], given: tuple[Any, Any, Any], *, training: bool) -> Program:
    calls = as_calls(*given)
    return Program(model, calls[:1] if given[2] is None else calls, training)


def _kept(lens: Lens, program: Program, repeats: int | None, *, is_ours: bool) -> Profiled:
    """Measure, and note the profile in the lens's recording. `is_ours`: compiled for this, and nobody else calls it."""
    if repeats is not None and repeats < 1:
        raise UsageError(f"repeats is a number of calls, 1 or more, not {repeats}")
    check_profiler_is_free()
    with quiet(), restoring_state(program.function, program.inputs) as kept, _caches(is_apart=is_ours):
        # The module, its parts, what a function closes over.
        if not is_ours and not any(map(_is_compiled, kept.state.values)):
            program = Program(torch.compile(program.function, backend=lens), program.calls, program.training)
            is_ours = True
        run = Run(program, kept)
        # As `compare_modes` does: kernels of a forward that keeps tensors for a backward are not those of inference.
        if is_ours and not program.training and torch.is_grad_enabled() and _runs_without_gradients(run, kept):
            with torch.no_grad():
                made = measured(lens, run, repeats)
            made = replace(made, notes=(*made.notes, ProfileNote(Remark.NO_GRADIENTS)))
        else:
            made = measured(lens, run, repeats)
    lens._session.take(Event("lens.profile", time.time(), meta=profile_meta(made)))  # noqa: SLF001 -- no user needs this
    recording = lens.recording
    return Profiled(recording, recording.profiles[-1], _file_of(lens))


def _caches(*, is_apart: bool) -> contextlib.AbstractContextManager[None]:
    return code_caches_apart() if is_apart else contextlib.nullcontext()


def _runs_without_gradients(run: Run, kept: Kept) -> bool:
    with torch.no_grad():
        error = run.error_without_compiling()
    kept.restore()
    return error is None


def _file_of(lens: Lens) -> str:
    """Where the whole recording is; empty where it is in no file."""
    return "" if lens.path is None or lens._session.journal.failure else str(lens.path)  # noqa: SLF001


def _is_compiled(value: Any) -> bool:
    # OptimizedModule and compiled functions have the first or the second; Module.compile() sets the third
    return (
        isinstance(value, torch._dynamo.OptimizedModule)  # noqa: SLF001 -- its documented name
        or (callable(value) and hasattr(value, "_torchdynamo_orig_callable"))
        or (isinstance(value, torch.nn.Module) and getattr(value, "_compiled_call_impl", None) is not None)
    )
