"""One trial: the program's calls under some changes, compiled as far as Dynamo goes, and what was recorded of it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from msgspec import Struct

from compiler_lens.capture.recorder import Recorder, alone
from compiler_lens.capture.torch_api import dynamo, settings
from compiler_lens.measure.calls import Call
from compiler_lens.measure.program import Program, described
from compiler_lens.measure.what_if.changes import Change
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording, SourceLine


class Observed(Struct, frozen=True):
    """What a trial showed."""

    recording: Recording
    error: str = ""
    error_line: SourceLine | None = None


def observe(program: Program, changes: Sequence[Change]) -> Observed:
    """Compile the program under the changes, with a backend that generates nothing, and make its calls."""
    dynamic = next((change.dynamic for change in changes if change.dynamic is not None), program.dynamic)
    config: dict[str, object] = {}
    for change in changes:
        config |= change.config
    dynamo.forget_compiled_code()  # each trial begins without
    with (
        contextlib.closing(Recorder(progress=False)) as recorder,
        settings.dynamo_settings(config),
        alone(recorder),
        # No piece of the program that is compiled by itself reaches Inductor either.
        torch.compiler.set_stance("default", force_backend=captured),
    ):
        for change in changes:
            for call, position, dim in change.marks:
                dynamo.mark_dynamic(program.calls[call].tensors[position][1], dim)
        error, line = "", None
        try:
            program.run(torch.compile(program.function, backend=captured, dynamic=dynamic))
        except UsageError:
            raise
        except Exception as raised:  # noqa: BLE001 -- whatever the program raises is this trial's result
            error, line = described(raised)
        return Observed(recorder.recording, error, line)


def captured(graph_module: Any, _inputs: Any) -> Any:
    """Return the graph as torch captured it: a backend that generates nothing."""
    return graph_module.forward


def warm_up() -> None:
    """Have torch import what it compiles with: that time is not the first trial's."""
    observe(Program(_tiny, (Call((torch.zeros(3),), {}), Call((torch.zeros(4),), {}))), ())


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return x * x.shape[0]


def obstacle(config: Mapping[str, object]) -> str:
    """Return why these settings need not be tried; empty if they can be."""
    if not all(map(settings.has_setting, config)):
        return "this torch does not have it"
    return "set already" if config and settings.is_set(config) else ""
