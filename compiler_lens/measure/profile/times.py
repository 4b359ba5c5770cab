"""From single runs of launches to the time that each takes: medians over calls. Pure functions of plain values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from statistics import fmean, median, quantiles

from compiler_lens.measure.profile.match import Matched, Sample
from compiler_lens.measure.profile.trace import Op
from compiler_lens.recording.ids import LaunchId
from compiler_lens.recording.model import LaunchTime, OtherTime, Trust


def launch_times(matched: Matched, calls: int, rounds: int = 0) -> tuple[LaunchTime, ...]:
    """Return how long each launch takes, the longest first. The calls are so many rounds over different ones."""
    times = [_launch_time(launch, samples, calls, rounds or calls) for launch, samples in matched.samples.items()]
    return tuple(sorted(times, key=lambda time: -time.microseconds * time.runs))


def _launch_time(launch: LaunchId, samples: Sequence[Sample], calls: int, rounds: int) -> LaunchTime:
    times = [sample.microseconds for sample in samples]
    _, spread = median_and_spread(times)
    exact = all(sample.trust is Trust.EXACT for sample in samples)
    return LaunchTime(
        *(launch.code.compile_id, launch.code.direction, launch.code.ordinal, launch.kernel, launch.launch),
        microseconds=_typical(times, rounds),
        spread=spread,
        runs=len(samples) / calls,
        device_kernels=samples[-1].device_kernels,
        trust=Trust.EXACT if exact else Trust.TEXT,
    )


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
