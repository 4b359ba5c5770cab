"""Calls timed with an eye on who had the processor: a call that waits for it measures the other programs."""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from statistics import median

import torch
from msgspec import Struct

from compiler_lens.measure.profile.profiler import Step, seconds_of
from compiler_lens.recording.model import ProfileNote, Remark

_ROUNDS = 3  # tries to find the machine quiet
_PAUSE = 0.5  # seconds between them
_HELD = 0.7  # of a call: a thread that runs for less of it, and was taken off the processor, waited
_UNEVEN = 3  # times the fastest call


class Timed(Struct, frozen=True):
    """How long calls took, and which share of each the calling thread ran where others took it off the processor."""

    seconds: Sequence[float]
    shares: Sequence[float] = ()  # 1: nobody took it off; empty where the device does the work

    @property
    def share(self) -> float:
        """Of a usual call."""
        return median(self.shares) if self.shares else 1.0

    @property
    def is_held_up(self) -> bool:
        """Whether usual calls waited for a processor."""
        return self.share < _HELD


def timed_calls(step: Step, calls: int, device: torch.device) -> Timed:
    """So many calls one right after the other; on a CPU that others keep busy, the quietest of three rounds."""
    if device.type != "cpu":
        return Timed(seconds_of(step, calls, device))
    rounds = [_watched(step, calls)]
    while (rounds[-1].is_held_up or _is_uneven(rounds[-1].seconds)) and len(rounds) < _ROUNDS:
        time.sleep(_PAUSE)
        rounds.append(_watched(step, calls))
    return min(rounds, key=lambda one: median(one.seconds))


def wait_notes(timed: Timed, rounds: Sequence[float]) -> Iterator[ProfileNote]:
    """Give what speaks against such times; `rounds`: of the same work each."""
    if timed.is_held_up:
        yield ProfileNote(Remark.KEPT_WAITING, number=round(timed.share, 3))
    if timed.shares and _is_uneven(rounds):
        yield ProfileNote(Remark.UNEVEN, number=round(median(rounds) / min(rounds), 1))


def _is_uneven(rounds: Sequence[float]) -> bool:
    return median(rounds) > _UNEVEN * min(rounds)


def _watched(step: Step, calls: int) -> Timed:
    seconds, shares = [], []
    for _ in range(calls):
        switches, ran, start = _switches(), time.thread_time(), time.perf_counter()
        step()
        took = time.perf_counter() - start
        # Threads of a parallel region wait for each other: whichever is taken off holds all of them up.
        taken_off = _switches() > switches
        seconds.append(took)
        shares.append((time.thread_time() - ran) / took if taken_off and took else 1.0)
    return Timed(seconds, shares)


def _switches() -> int:
    """How often a thread of this process was taken off a processor that it wanted to go on with."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw
