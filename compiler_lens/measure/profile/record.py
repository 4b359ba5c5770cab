"""Profile: how long every launch of every kernel takes, in real calls of the user's model.

Calls are timed from outside, then under torch's profiler, and what ran is given to launches.
"""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from statistics import fmean, median, quantiles
from typing import Any

import torch
from msgspec.structs import replace

from compiler_lens.capture.recorder import Recorder, note, whole_file
from compiler_lens.capture.torch_api.dynamo import is_compiled
from compiler_lens.facts.kernels.launch_work import dtypes_multiplied
from compiler_lens.facts.measured.modes import DEFAULT
from compiler_lens.measure.profile.ceilings import measure_ceilings, product_notes
from compiler_lens.measure.profile.match import Matched, match, with_keys
from compiler_lens.measure.profile.profiler import EMPTY, check_profiler_is_free, empty_ranges, kernels_named, traced
from compiler_lens.measure.profile.run import MOST, Run, rounds_in_time, timed_calls, wait_notes, warm_up
from compiler_lens.measure.profile.trace import Op, read_trace
from compiler_lens.measure.program import Program, as_calls, callable_of, known_mode
from compiler_lens.measure.sandbox.restoring import code_caches_apart, quiet, restoring_state
from compiler_lens.recording import model
from compiler_lens.recording.codec import packed
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import LaunchTime, OtherTime, ProfileNote, Recording, Remark, Trust


def profile_anew(  # noqa: PLR0913 -- all but the first two are said by name
    model: Callable[..., Any],
    given: tuple[Any, Any, Any],
    *,
    mode: str | None,
    path: str | os.PathLike[str] | None,
    overwrite: bool,
    training: bool,
    repeats: int | None,
) -> tuple[Recording, str]:
    """Compile a model and measure it, of which `given` are inputs, named inputs and calls.

    Returns the recording, whose last profile is this one, and its file, empty where it is in none.
    """
    inner, dynamic = callable_of(model, "profile")
    if mode not in {None, DEFAULT}:
        known_mode(mode)
    with contextlib.closing(Recorder(path, overwrite=overwrite)) as recorder:
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
            made = _measured(recorder, run, repeats)
        if needs_none:
            made = replace(made, notes=(*made.notes, ProfileNote(Remark.NO_GRADIENTS)))
    note(recorder, "lens.profile", packed(made))
    return recorder.recording, whole_file(recorder)


def _measured(recorder: Recorder, run: Run, repeats: int | None) -> model.Profile:
    """Make all calls `repeats` times, or as often as there is time for, once without the profiler and once under it."""
    device, before = warm_up(recorder, run)
    rounds = repeats or rounds_in_time(run, device)
    timed = timed_calls(run, run.calls * rounds, device)
    # Of one call, in each round over calls that differ.
    seconds = [fmean(timed.seconds[at : at + run.calls]) for at in range(0, len(timed.seconds), run.calls)]
    traced_rounds = repeats or min(rounds, MOST)
    count = run.calls * traced_rounds
    recording = recorder.recording  # once more: it may have gone on compiling
    late = len(recording.compilations) - len(before.compilations)

    def step() -> None:
        run()
        if device.type == "cpu":
            empty_ranges()

    with kernels_named(recording.output_codes, recording.kernels) as named:
        events = traced(step, count, device)
    trace = read_trace(events, on_cpu=device.type == "cpu")
    matched = match(trace.ranges, with_keys(recording), recording.kernels)
    if device.type != "cpu" and not trace.device_events:
        raise UsageError(
            f"torch's profiler saw no work on {device.type}: another tool may be tracing it, or it may not be allowed"
        )
    if not matched.samples:
        raise UsageError(
            "the model ran nothing that this lens recorded: it was compiled before, with another backend, or so often "
            "that torch gave it up; compile it with torch.compile(model, backend=lens), and see `recompiles`"
        )
    dtypes = dtypes_multiplied(recording, {launch.code.compile_id for launch in matched.samples})
    middle, spread = median_and_spread([s * 1e6 for s in seconds])
    launches = launch_times(matched, count, traced_rounds)
    others = other_times((*matched.others, *trace.others), count, traced_rounds)
    # A call that was held up counts in the first only.
    seen = sum(t.microseconds * t.runs for t in launches) + sum(t.microseconds for t in others)
    return model.Profile(
        calls=run.calls * rounds,
        microseconds=middle,
        spread=spread,
        busy_microseconds=min(trace.busy_microseconds / count, seen),
        launches=launches,
        others=others,
        ceilings=measure_ceilings(device, dtypes),
        timer="torch.profiler",
        training=run.training,
        notes=(
            *wait_notes(timed, seconds),
            *([ProfileNote(Remark.STILL_COMPILING, number=late)] if late else ()),
            *matched.notes,
            *product_notes(dtypes),
            *_notes(recording, matched, events, named, training=run.training),
        ),
    )


def _notes(
    recording: Recording, matched: Matched, events: Iterable[Any], named: int, *, training: bool
) -> Iterator[ProfileNote]:
    """What was not seen; and what measuring adds to what is measured."""
    if not named and any(k.kind is model.KernelKind.CPP for k in recording.kernels):
        yield ProfileNote(Remark.NO_CPP_TIMES)
    ran = {launch.code for launch in matched.samples}
    missing = sum(len(k.launches) for k in recording.kernels if k.code_id in ran) - len(matched.samples)
    if missing:
        yield ProfileNote(Remark.NO_TIME, number=missing)
    if training:
        yield ProfileNote(Remark.LOSS_ADDED)
    empty = [float(e["dur"]) for e in events if e.get("name") == EMPTY]
    if empty:
        yield ProfileNote(Remark.TIMING_COST, number=round(median(empty), 3))


# -- from single runs of launches to the time that each takes


def launch_times(matched: Matched, calls: int, rounds: int = 0) -> tuple[LaunchTime, ...]:
    """Return how long each launch takes, the longest first. The calls are so many rounds over different ones."""
    found: list[LaunchTime] = []
    for launch, samples in matched.samples.items():
        times = [sample.microseconds for sample in samples]
        _, spread = median_and_spread(times)
        exact = all(sample.trust is Trust.EXACT for sample in samples)
        time = LaunchTime(
            *(launch.code.compile_id, launch.code.direction, launch.code.ordinal, launch.kernel, launch.launch),
            microseconds=_typical(times, rounds or calls),
            spread=spread,
            runs=len(samples) / calls,
            device_kernels=samples[-1].device_kernels,
            trust=Trust.EXACT if exact else Trust.TEXT,
        )
        found.append(time)
    return tuple(sorted(found, key=lambda time: -time.microseconds * time.runs))


def other_times(others: Iterable[Op], calls: int, rounds: int = 0) -> tuple[OtherTime, ...]:
    """Return what belongs to no launch, by name; what took most first."""
    total: dict[str, list[float]] = defaultdict(list)
    for op in others:
        total[op.name].append(op.microseconds)
    times = [
        OtherTime(name, _typical(each, rounds or calls) * len(each) / calls, len(each) / calls)
        for name, each in total.items()
    ]
    return tuple(sorted(times, key=lambda time: -time.microseconds))


def _typical(values: Sequence[float], rounds: int) -> float:
    """The mean of what runs several times in each round, each of these by its median: they may be of any size."""
    runs, odd = divmod(len(values), rounds)
    if odd or not runs:
        return fmean(values)
    ordered = sorted(values)
    return fmean(median(ordered[index * rounds : (index + 1) * rounds]) for index in range(runs))


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Return the median, and how far the quartiles are apart."""
    if len(values) < 2:  # noqa: PLR2004
        return (values[0], 0.0) if values else (0.0, 0.0)
    first, _, third = quantiles(values, n=4, method="inclusive")
    return median(values), third - first
