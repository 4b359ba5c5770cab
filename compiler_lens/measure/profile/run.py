"""The calls of the user's program that a profile is made of: compiled first, then as often as one likes."""

from __future__ import annotations

import torch

from compiler_lens.capture.recorder import Recorder
from compiler_lens.capture.torch_api.dynamo import as_written
from compiler_lens.measure.profile.profiler import seconds_of
from compiler_lens.measure.program import Program, cause, placed
from compiler_lens.measure.sandbox.restoring import Kept
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording

_ESTIMATES = 3  # one may be held up
_WARM_UP = 3  # the first compiles, under CUDA graphs the second records, and the third replays
_SECONDS = 0.5  # for each of the two measurements, as far as the fewest calls allow
_FEWEST, _MOST = 5, 30  # calls
_MOST_OF_A_CPU = 1000  # of a call of 50 µs, 30 are over before others have had a turn


class Run:
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
        """Return what the first call raises as it is written: that says more than what torch makes of it."""
        first = self._steps[0]
        try:
            with torch.compiler.set_stance("force_eager"):
                first.run(as_written(first.function)[0])
        except Exception as error:  # noqa: BLE001 -- whatever it raises is the answer
            return error
        return None


def warm_up(recorder: Recorder, run: Run) -> tuple[torch.device, Recording]:
    """Compile, and see on which device the kernels run."""
    try:
        for _ in range(_WARM_UP * run.calls):
            run()
    except UsageError:
        raise
    except Exception as error:
        eager = run.error_without_compiling()
        message, line = cause(eager or error)
        cannot = f"the model cannot be {'called' if eager else 'compiled'}: {message}"
        raise UsageError(placed(cannot, line)) from error
    recording = recorder.recording
    if not recording.output_codes:
        raise UsageError(
            "nothing of the model was compiled with this lens, so there are no kernels to time: "
            "compile it with torch.compile(model, backend=lens), or see `frames` for what runs eagerly"
        )
    return _device(recording, run), recording


def _device(recording: Recording, run: Run) -> torch.device:
    """Where the program's tensors are; where all are on the CPU, where the last graph runs."""
    last = recording.output_codes[-1].compile_id
    names = [
        k.device for k in recording.kernels if k.compile_id == last and k.device and not k.device.startswith("cpu")
    ]
    found = run.device or torch.device("cpu")
    if found.type == "cpu" and names:
        found = torch.device(names[-1])
    return found if found.type == "cpu" or found.index is not None else torch.device(found.type, 0)


def rounds_in_time(run: Run, device: torch.device) -> int:
    """Return how often there is time to make all calls."""
    once = max(min(sum(seconds_of(run, run.calls, device)) for _ in range(_ESTIMATES)), 1e-6)
    return min(max(round(_SECONDS / once), _FEWEST), _MOST_OF_A_CPU if device.type == "cpu" else _MOST)


def fewer(rounds: int) -> int:
    """Return how many of them the profiler sees: each leaves a thousand events."""
    return min(rounds, _MOST)
