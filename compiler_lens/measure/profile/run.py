"""The calls of the user's program that a profile is made of: compiled first, then as often as one likes, and timed.

On a CPU with an eye on who had the processor: a call that waits for it measures the other programs.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Iterator, Sequence
from statistics import median

import torch
from msgspec import Struct

from compiler_lens.capture.recorder import Recorder, unheard
from compiler_lens.capture.torch_api.dynamo import as_written
from compiler_lens.measure.profile.profiler import Step, seconds_of
from compiler_lens.measure.program import Program, usage_error
from compiler_lens.measure.sandbox.restoring import Kept
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import ProfileNote, Recording, Remark

_ESTIMATES = 3  # one may be held up
_WARM_UP = 3  # the first compiles, under CUDA graphs the second records, and the third replays
_SECONDS = 0.5  # for each of the two measurements, as far as the fewest calls allow
_FEWEST, MOST = 5, 30  # calls; under the profiler each leaves a thousand events
_MOST_OF_A_CPU = 1000  # of a call of 50 µs, 30 are over before others have had a turn

_ROUNDS = 3  # tries to find the machine quiet
_PAUSE = 0.5  # seconds between them
_HELD = 0.7  # of a call: a thread that runs for less of it, and was taken off the processor, waited
_UNEVEN = 3  # times the fastest call


class Run:
    """One round of the program's calls, as often as one likes."""

    def __init__(self, program: Program, kept: Kept) -> None:
        self._program = program
        self._parameters = [t for t in kept.state.tensors if t.is_leaf and t.requires_grad] if program.training else []
        self.device = kept.device
        self.training = program.training
        self.calls = len(program.calls)
        self._next = 0

    def __call__(self) -> None:
        """The next call."""
        call = self._program.calls[self._next % self.calls]
        self._next += 1
        # A sum of gradients would read what the next replay of a graph of launches writes over.
        for parameter in self._parameters:
            parameter.grad = None
        if torch.cuda.is_available():
            torch.compiler.cudagraph_mark_step_begin()
        self._program.one(self._program.function, call)

    def error_without_compiling(self) -> Exception | None:
        """Return what the first call raises as it is written: that says more than what torch makes of it."""
        try:
            with unheard(), torch.compiler.set_stance("force_eager"):
                self._program.one(as_written(self._program.function)[0], self._program.calls[0])
        except Exception as error:  # noqa: BLE001 -- whatever it raises is the answer
            return error
        return None


def warm_up(recorder: Recorder, run: Run) -> tuple[torch.device, Recording]:
    """Compile, and see on which device the kernels run: the tensors', or else the last graph's."""
    try:
        for _ in range(_WARM_UP * run.calls):
            run()
    except UsageError:
        raise
    except Exception as error:
        eager = run.error_without_compiling()
        what = f"the model cannot be {'called' if eager else 'compiled'}"
        raise usage_error(what, eager or error) from error
    recording = recorder.recording
    if not recording.output_codes:
        raise UsageError(
            "nothing of the model was compiled with this lens, so there are no kernels to time: "
            "compile it with torch.compile(model, backend=lens), or see `frames` for what runs eagerly"
        )
    device = run.device or torch.device("cpu")
    if device.type == "cpu":
        last = recording.output_codes[-1].compile_id
        devices = [kernel.device for kernel in recording.kernels if kernel.compile_id == last]
        device = torch.device(next((name for name in reversed(devices) if name and not name.startswith("cpu")), device))
    if device.type != "cpu" and device.index is None:
        device = torch.device(device.type, 0)
    return device, recording


def rounds_in_time(run: Run, device: torch.device) -> int:
    """Return how often there is time to make all calls."""
    once = max(min(sum(seconds_of(run, run.calls, device)) for _ in range(_ESTIMATES)), 1e-6)
    return min(max(round(_SECONDS / once), _FEWEST), _MOST_OF_A_CPU if device.type == "cpu" else MOST)


# -- timed


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
