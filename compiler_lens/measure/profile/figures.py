"""The figures of a profile: calls timed from outside, then under torch's profiler, and what ran given to launches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from statistics import fmean, median
from typing import Any

import torch

from compiler_lens.capture.recorder import Recorder
from compiler_lens.facts.kernels.launch_work import dtypes_multiplied
from compiler_lens.measure.profile.ceilings import measure_ceilings, product_notes
from compiler_lens.measure.profile.match import Matched, match
from compiler_lens.measure.profile.plans import with_keys
from compiler_lens.measure.profile.profiler import EMPTY, empty_ranges, kernels_named, traced
from compiler_lens.measure.profile.run import Run, fewer, rounds_in_time, warm_up
from compiler_lens.measure.profile.times import launch_times, median_and_spread, other_times
from compiler_lens.measure.profile.trace import Trace, read_trace
from compiler_lens.measure.profile.waits import timed_calls, wait_notes
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import KernelKind, Profile, ProfileNote, Recording, Remark


def measured(recorder: Recorder, run: Run, repeats: int | None) -> Profile:
    """Make all calls `repeats` times, or as often as there is time for, once without the profiler and once under it."""
    device, before = warm_up(recorder, run)
    rounds = repeats or rounds_in_time(run, device)
    timed = timed_calls(run, run.calls * rounds, device)
    # Of one call, in each round over calls that differ.
    seconds = [fmean(timed.seconds[at : at + run.calls]) for at in range(0, len(timed.seconds), run.calls)]
    traced_rounds = repeats or fewer(rounds)
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
    _check(trace, matched, device)
    dtypes = dtypes_multiplied(recording, {launch.code.compile_id for launch in matched.samples})
    middle, spread = median_and_spread([s * 1e6 for s in seconds])
    launches = launch_times(matched, count, traced_rounds)
    others = other_times((*matched.others, *trace.others), count, traced_rounds)
    # A call that was held up counts in the first only.
    seen = sum(t.microseconds * t.runs for t in launches) + sum(t.microseconds for t in others)
    return Profile(
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
            *_notes(recording, matched, named=named),
            *_costs(events, training=run.training),
        ),
    )


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


def _notes(recording: Recording, matched: Matched, *, named: int) -> Iterator[ProfileNote]:
    """What was not seen."""
    if not named and any(k.kind is KernelKind.CPP for k in recording.kernels):
        yield ProfileNote(Remark.NO_CPP_TIMES)
    ran = {launch.code for launch in matched.samples}
    missing = sum(len(k.launches) for k in recording.kernels if k.code_id in ran) - len(matched.samples)
    if missing:
        yield ProfileNote(Remark.NO_TIME, number=missing)


def _costs(events: Iterable[Any], *, training: bool) -> Iterator[ProfileNote]:
    """What measuring adds to what is measured."""
    if training:
        yield ProfileNote(Remark.LOSS_ADDED)
    empty = [float(e["dur"]) for e in events if e.get("name") == EMPTY]
    if empty:
        yield ProfileNote(Remark.TIMING_COST, number=round(median(empty), 3))
