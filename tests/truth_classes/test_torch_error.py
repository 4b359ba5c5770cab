"""A recompile that torch itself cannot explain is told as that: no value of the user's is to be kept the same for it."""

from __future__ import annotations

import threading
import time

import pytest
import torch
from torch import Tensor

from compiler_lens import Lens, explain
from compiler_lens.facts.recompiles.fixes import CauseClass

BEGUN = threading.Event()


def slow(gm: torch.fx.GraphModule, _inputs: object) -> torch.fx.GraphModule:
    BEGUN.set()
    time.sleep(0.5)
    return gm


def step(x: Tensor) -> Tensor:
    return x.sin() * 2


def in_threads(*, before: bool) -> Lens:
    """Two threads call it with a new dtype at once; or it was called with that before."""
    torch._dynamo.reset()
    x = torch.ones(3, dtype=torch.float64)
    with Lens(strict=True) as lens:
        compiled = torch.compile(step, backend=slow)
        compiled(torch.ones(3))
        if before:
            compiled(x)
        BEGUN.clear()
        first = threading.Thread(target=compiled, args=(x,))
        first.start()
        BEGUN.wait(10 if not before else 0)
        second = threading.Thread(target=compiled, args=(x,))
        second.start()
        for each in (first, second):
            each.join()
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
