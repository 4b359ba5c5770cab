"""One program recorded, beside what torch itself was seen to do."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from unittest import mock

import torch

from compiler_lens import Lens
from compiler_lens.facts.overview.explanation import Explanation, explain
from compiler_lens.recording.model import Recording


@dataclass(frozen=True)
class Seen:
    """A recording, what we say of it, and torch's own count."""

    recording: Recording
    explanation: Explanation
    breaks: int  # calls of torch's `log_graph_break` that it did not ignore
    report: str


def observe(program: Callable[..., Any], calls: Sequence[Mapping[str, Any] | tuple[Any, ...]], **settings: Any) -> Seen:
    """Compile with Dynamo only, make the calls, and keep nothing of it."""
    torch._dynamo.reset()
    counted: list[None] = []
    with counting(counted), contextlib.redirect_stdout(io.StringIO()), Lens(strict=True, progress=False) as lens:
        compiled = torch.compile(program, backend="eager", **settings)
        for call in calls:
            compiled(**call) if isinstance(call, Mapping) else compiled(*call)
        recording = lens.recording
        report = lens.report(width=120, color=False)
    return Seen(recording, explain(recording), len(counted), report)


@contextlib.contextmanager
def counting(counted: list[None]) -> Iterator[None]:
    """Have torch's graph breaks counted beside the lens, at the one place that all of them pass."""
    from torch._dynamo.symbolic_convert import InstructionTranslatorBase

    original = InstructionTranslatorBase.log_graph_break

    def count(self: Any, code_options: Any, reason: str, exc: Any) -> None:
        if not exc.logged:  # the first thing that torch asks: an exception on its way comes by again
            counted.append(None)
        original(self, code_options, reason, exc)

    with mock.patch.object(InstructionTranslatorBase, "log_graph_break", count):
        yield
