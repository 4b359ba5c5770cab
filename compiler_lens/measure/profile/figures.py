"""The figures of a profile: calls timed from outside, then under torch's profiler, and what ran given to launches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import fmean, median, quantiles
from typing import Any

from compiler_lens.capture.recorder import Recorder
from compiler_lens.facts.kernels.launch_work import dtypes_multiplied
from compiler_lens.measure.profile.ceilings import measure_ceilings, product_notes
from compiler_lens.measure.profile.match import Matched, match, with_keys
from compiler_lens.measure.profile.profiler import EMPTY, empty_ranges, kernels_named, traced
from compiler_lens.measure.profile.run import MOST, Run, rounds_in_time, timed_calls, wait_notes, warm_up
from compiler_lens.measure.profile.trace import Op, read_trace
from compiler_lens.recording import model
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import LaunchTime, OtherTime, ProfileNote, Recording, Remark, Trust


def measured(recorder: Recorder, run: Run, repeats: int | None) -> model.Profile:
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
            *_not_seen(recording, matched, named=named),
            *([ProfileNote(Remark.LOSS_ADDED)] if run.training else ()),
            *_timing_cost(events),
        ),
    )


def _not_seen(recording: Recording, matched: Matched, *, named: int) -> Iterator[ProfileNote]:
    if not named and any(k.kind is model.KernelKind.CPP for k in recording.kernels):
        yield ProfileNote(Remark.NO_CPP_TIMES)
    ran = {launch.code for launch in matched.samples}
    missing = sum(len(k.launches) for k in recording.kernels if k.code_id in ran) - len(matched.samples)
    if missing:
        yield ProfileNote(Remark.NO_TIME, number=missing)


def _timing_cost(events: Iterable[Any]) -> Iterator[ProfileNote]:
    """What measuring adds to what is measured."""
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
