"""Profile: how long every launch of every kernel takes, in real calls of the user's model."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import torch

from compiler_lens.analysis.flops import dtypes_multiplied
from compiler_lens.analysis.modes import DEFAULT
from compiler_lens.errors import UsageError
from compiler_lens.event import Event
from compiler_lens.measure.as_it_was import Kept, as_it_was, code_caches_apart
from compiler_lens.measure.calls import as_calls
from compiler_lens.measure.ceilings import measure_ceilings, product_notes
from compiler_lens.measure.modes.wanted import known_mode
from compiler_lens.measure.profile_match import (
    Matched,
    launch_times,
    match,
    median_and_spread,
    other_times,
    with_keys,
)
from compiler_lens.measure.profile_session import (
    EMPTY,
    check_profiler_is_free,
    empty_ranges,
    kernels_named,
    seconds_of,
    traced,
)
from compiler_lens.measure.profile_trace import Trace, read_trace
from compiler_lens.measure.settings import quiet
from compiler_lens.measure.trial import Program, as_written, callable_of, cause
from compiler_lens.model import CompileId, KernelKind, Pass, Profile, ProfileNote, Recording, Remark
from compiler_lens.readers.profiles import profile_meta

if TYPE_CHECKING:
    import os

    from compiler_lens.lens import Lens

_WARM_UP = 3  # the first compiles, under CUDA graphs the second records, and the third replays
_SECONDS = 0.5  # for each of the two measurements, as far as the fewest calls allow
_FEWEST, _MOST = 5, 30  # calls


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
        from compiler_lens.render.console.profile import profile_report

        return profile_report(self.recording, width=width, color=color, path=self.path, part=part)

    def to_json(self, part: str = "") -> str:
        """The same for programs."""
        from compiler_lens.analysis.select import EVERYTHING, select_launches
        from compiler_lens.render.json import to_json

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
        repeats: how often to call, for each of the two measurements; by default as often as takes half a second.

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
    with quiet(), as_it_was(program.function, program.inputs) as kept, _caches(is_apart=is_ours):
        # The module, its parts, what a function closes over.
        if not is_ours and not any(map(_is_compiled, kept.state.values)):
            program = Program(torch.compile(program.function, backend=lens), program.calls, program.training)
            is_ours = True
        run = _Run(program, kept)
        # As `compare_modes` does: kernels of a forward that keeps tensors for a backward are not those of inference.
        if is_ours and not program.training and torch.is_grad_enabled() and _runs_without_gradients(run, kept):
            with torch.no_grad():
                made = _profile(lens, run, repeats)
            made = replace(made, notes=(*made.notes, ProfileNote(Remark.NO_GRADIENTS)))
        else:
            made = _profile(lens, run, repeats)
    lens._session.take(Event("lens.profile", time.time(), meta=profile_meta(made)))  # noqa: SLF001 -- no user needs this
    recording = lens.recording
    return Profiled(recording, recording.profiles[-1], _file_of(lens))


def _caches(*, is_apart: bool) -> contextlib.AbstractContextManager[None]:
    return code_caches_apart() if is_apart else contextlib.nullcontext()


def _runs_without_gradients(run: _Run, kept: Kept) -> bool:
    with torch.no_grad():
        error = run.error_without_compiling()
    kept.restore()
    return error is None


def _file_of(lens: Lens) -> str:
    """Where the whole recording is; empty where it is in no file."""
    return "" if lens.path is None or lens._session.journal.failure else str(lens.path)  # noqa: SLF001


class _Run:
    """One round of the program's calls, as often as one likes."""

    def __init__(self, program: Program, kept: Kept) -> None:
        self._steps = [Program(program.function, (call,), program.training) for call in program.calls]
        self._parameters = [t for t in kept.state.tensors if t.is_leaf and t.requires_grad] if program.training else []
        self.device = kept.device
        self.training = program.training
        self.calls = len(self._steps)
        self._next = 0

    def __call__(self) -> None:
        """The next call."""
        step = self._steps[self._next % self.calls]
        self._next += 1
        # A sum of gradients would read what the next replay of a graph of launches writes over.
        for parameter in self._parameters:
            parameter.grad = None
        if torch.cuda.is_available():
            torch.compiler.cudagraph_mark_step_begin()
        step.run(step.function)

    def error_without_compiling(self) -> Exception | None:
        """What the first call raises as it is written: that says more than what torch makes of it."""
        first = self._steps[0]
        try:
            with torch.compiler.set_stance("force_eager"):
                first.run(as_written(first.function)[0])
        except Exception as error:  # noqa: BLE001 -- whatever it raises is the answer
            return error
        return None


def _profile(lens: Lens, run: _Run, repeats: int | None) -> Profile:
    device, before = _warm_up(lens, run)
    count = run.calls * (repeats or _count(run, device))
    seconds = _by_round(seconds_of(run, count, device), run.calls)
    recording = lens.recording  # once more: it may have gone on compiling
    late = len(recording.compilations) - len(before.compilations)
    with kernels_named(recording.output_codes, recording.kernels) as named:
        events = traced(_with_empty_ranges(run, device), count, device)
    trace = read_trace(events, on_cpu=device.type == "cpu")
    matched = match(trace.ranges, with_keys(recording), recording.kernels)
    _check(trace, matched, device)
    dtypes = _dtypes_of(recording, matched)
    middle, spread = median_and_spread([s * 1e6 for s in seconds])
    rounds = count // run.calls
    launches = launch_times(matched, count, rounds)
    others = other_times((*matched.others, *trace.others), count, rounds)
    told = sum(t.microseconds * t.runs for t in launches) + sum(t.microseconds for t in others)
    return Profile(
        calls=count,
        microseconds=middle,
        spread=spread,
        busy_microseconds=min(
            trace.busy_microseconds / count, told
        ),  # a call that was held up counts in the first only
        launches=launches,
        others=others,
        ceilings=measure_ceilings(device, dtypes),
        timer="torch.profiler",
        training=run.training,
        notes=(*_late(late), *_notes(recording, matched, dtypes, named=named), *_cost(events, run)),
    )


def _by_round(seconds: Sequence[float], calls: int) -> list[float]:
    """Seconds of one call in each round over calls that differ."""
    return [fmean(seconds[start : start + calls]) for start in range(0, len(seconds), calls)]


def _warm_up(lens: Lens, run: _Run) -> tuple[torch.device, Recording]:
    """Compile, and see on which device the kernels run."""
    try:
        for _ in range(_WARM_UP * run.calls):
            run()
    except UsageError:
        raise
    except Exception as error:
        eager = run.error_without_compiling()
        message, line = cause(eager or error)
        at = f" ({line.file}:{line.line})" if line else ""
        raise UsageError(f"the model cannot be {'called' if eager else 'compiled'}: {message}{at}") from error
    recording = lens.recording
    if not recording.output_codes:
        raise UsageError(
            "nothing of the model was compiled with this lens, so there are no kernels to time: "
            "compile it with torch.compile(model, backend=lens), or see `frames` for what runs eagerly"
        )
    return _device(recording, run), recording


def _device(recording: Recording, run: _Run) -> torch.device:
    """Where the program's tensors are; where all are on the CPU, where the last graph runs."""
    last = recording.output_codes[-1].compile_id
    names = [
        k.device for k in recording.kernels if k.compile_id == last and k.device and not k.device.startswith("cpu")
    ]
    found = run.device or torch.device("cpu")
    if found.type == "cpu" and names:
        found = torch.device(names[-1])
    return found if found.type == "cpu" or found.index is not None else torch.device(found.type, 0)


def _count(run: _Run, device: torch.device) -> int:
    once = max(sum(seconds_of(run, run.calls, device)), 1e-6)
    return min(max(round(_SECONDS / once), _FEWEST), _MOST)


def _with_empty_ranges(run: _Run, device: torch.device) -> Callable[[], None]:
    def step() -> None:
        run()
        if device.type == "cpu":
            empty_ranges()

    return step


def _check(trace: Trace, matched: Matched, device: torch.device) -> None:
    if device.type != "cpu" and not trace.device_events:
        raise UsageError(
            f"torch's profiler saw no work on {device.type}: another tool may be tracing it, or it may not be allowed"
        )
    if not matched.samples:
        raise UsageError(
            "the model ran nothing that this lens recorded: it was compiled before, with another backend, or so often "
            "that torch gave it up; compile it with torch.compile(model, backend=lens), and see `recompiles`"
        )


def _dtypes_of(recording: Recording, matched: Matched) -> tuple[str, ...]:
    """The types whose matrices the graphs that ran multiply."""
    ran: set[CompileId] = {slot.compile_id for slot in matched.samples}
    return dtypes_multiplied(recording, ran)


def _late(compilations: int) -> Iterator[ProfileNote]:
    if compilations:
        yield ProfileNote(Remark.STILL_COMPILING, number=compilations)


def _notes(recording: Recording, matched: Matched, dtypes: Iterable[str], *, named: int) -> Iterator[ProfileNote]:
    yield from matched.notes
    yield from product_notes(dtypes)
    if not named and any(k.kind is KernelKind.CPP for k in recording.kernels):
        yield ProfileNote(Remark.NO_CPP_TIMES)
    if missing := _not_seen(recording, matched):
        yield ProfileNote(Remark.NO_TIME, number=missing)


def _cost(events: Iterable[Any], run: _Run) -> Iterator[ProfileNote]:
    """What measuring adds to what is measured."""
    if run.training:
        yield ProfileNote(Remark.LOSS_ADDED)
    empty = [float(e["dur"]) for e in events if e.get("name") == EMPTY]
    if empty:
        yield ProfileNote(Remark.TIMING_COST, number=round(median(empty), 3))


def _not_seen(recording: Recording, matched: Matched) -> int:
    ran: set[tuple[CompileId, Pass, int]] = {(s.compile_id, s.part, s.ordinal) for s in matched.samples}
    there = [k for k in recording.kernels if (k.compile_id, k.part, k.ordinal) in ran]
    return sum(len(k.launches) for k in there) - len(matched.samples)


def _is_compiled(value: Any) -> bool:
    # OptimizedModule and compiled functions have the first or the second; Module.compile() sets the third
    return (
        isinstance(value, torch._dynamo.OptimizedModule)  # noqa: SLF001 -- its documented name
        or (callable(value) and hasattr(value, "_torchdynamo_orig_callable"))
        or (isinstance(value, torch.nn.Module) and getattr(value, "_compiled_call_impl", None) is not None)
    )
