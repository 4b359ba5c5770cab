"""A recompile that torch itself cannot explain is told as that: no value of the user's is to be kept the same for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

import pytest
import torch
from torch import Tensor

from compiler_lens import Lens, explain
from compiler_lens.facts.recompiles.fixes import CauseClass

MODE = "torch._dynamo.utils.get_optimize_ddp_mode"


def step(x: Tensor) -> Tensor:
    return x.sin() * 2


def in_threads(*, before: bool) -> Lens:
    """Two threads call it with a new dtype at once; or it was called with that before."""
    torch._dynamo.reset()
    x = torch.ones(3, dtype=torch.float64)
    has_looked, is_compiled = threading.Event(), threading.Event()
    mode = torch._dynamo.utils.get_optimize_ddp_mode
    inside: list[Callable[[], None]] = []

    def backend(gm: torch.fx.GraphModule, _inputs: object) -> torch.fx.GraphModule:
        if inside:
            inside.pop()()
        return gm

    # `CatchErrorsWrapper.__call__` (convert_frame.py) asks this between the look for compiled code and torch's lock.
    def waiting() -> Any:
        if threading.current_thread().name == "second":
            has_looked.set()
            is_compiled.wait(120)
        return mode()

    with Lens(strict=True) as lens, mock.patch(MODE, waiting):
        compiled = torch.compile(step, backend=backend)
        compiled(torch.ones(3))
        if before:
            compiled(x)
        first, second = (threading.Thread(target=compiled, args=(x,), name=name) for name in ("first", "second"))

        def call_beside() -> None:
            second.start()
            has_looked.wait(120)

        inside.append(call_beside)
        first.start()
        first.join()
        is_compiled.set()
        if before:
            second.start()
        second.join()
    return lens


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 names the guard that failed before")
def test_what_torch_calls_its_own_error_is_no_advice_to_keep_something_the_same() -> None:
    lens = in_threads(before=False)
    causes = {cause.cause: cause for cause in explain(lens.recording).recompiles[0].causes}
    cause = causes[CauseClass.TORCH_ERROR]
    assert (cause.count, cause.subject, cause.benign) == (1, "", True)
    screen = " ".join(lens.report(color=False, width=200).split())
    assert "torch found nothing that changed" in screen
    assert "Please open an issue" not in screen
    assert "Keep what torch names the same" not in screen
    assert CauseClass.TORCH_ERROR not in [
        cause.cause for cause in explain(in_threads(before=True).recording).recompiles[0].causes
    ]
