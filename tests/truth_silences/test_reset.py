"""After `torch._dynamo.reset()` all is compiled again: that is neither a graph break nor further parts of a function."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from compiler_lens import Lens, explain
from compiler_lens.facts.program.coverage import Treatment


def step(x: Tensor) -> Tensor:
    return x.sin() * 2


def cut(x: Tensor) -> Tensor:
    y = x.sin() * 2
    torch._dynamo.graph_break()
    return y.cos() + 1


def compiled_anew(function: Callable[[Tensor], Tensor], lives: int = 4) -> Lens:
    with Lens(strict=True) as lens:
        for _ in range(lives):
            torch._dynamo.reset()
            torch.compile(function, backend="eager")(torch.ones(3))
    return lens


def test_a_function_that_is_compiled_again_after_a_reset_is_not_cut() -> None:
    lens = compiled_anew(step)
    explained = explain(lens.recording)
    (function,) = explained.coverage.functions
    assert (function.treatment, function.parts) == (Treatment.WHOLE, 1)
    assert not explained.findings
    screen = " ".join(lens.report(color=False, width=120).split())
    assert "1 of 1 function compiled. " in screen
    assert "there is: 3 compilations again after `torch._dynamo.reset()`" in screen
    assert "break" not in screen


def test_the_parts_of_a_function_that_is_cut_are_those_of_one_life() -> None:
    explained = explain(compiled_anew(cut).recording)
    (function,) = explained.coverage.functions
    assert (function.treatment, function.parts) == (Treatment.SPLIT, 2)
    assert "tiny-graphs" not in [finding.rule for finding in explained.findings]
