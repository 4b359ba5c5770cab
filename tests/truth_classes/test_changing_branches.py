"""What a branch on a tensor may become: no `torch.where` for what changes state, nor for sides of two dtypes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from compiler_lens import Lens
from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.render.console import view
from compiler_lens.render.console.page import Page


class Set(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("is_set", torch.tensor(0))
        self.register_buffer("mean", torch.zeros(4))
        self.is_set: Tensor
        self.mean: Tensor


class ByNumber(Set):
    def forward(self, x: Tensor) -> Tensor:
        if self.is_set.item() == 0:
            self.mean.copy_(x.mean(0))
            self.is_set.fill_(1)
        return x - self.mean


class ByTruth(Set):
    def forward(self, x: Tensor) -> Tensor:
        if not self.is_set:
            self.mean = x.mean(0)
            self.is_set = torch.tensor(1)
        return x - self.mean


class ByMethod(Set):
    def fill(self, x: Tensor) -> None:
        if self.is_set:
            return
        self.mean.data.copy_(x.mean(0))
        self.is_set.data.copy_(torch.tensor(1))

    def forward(self, x: Tensor) -> Tensor:
        self.fill(x)
        return x - self.mean


class InTraining(Set):
    def fill(self, x: Tensor) -> None:
        self.mean.copy_(x.mean(0))
        self.is_set.fill_(1)

    def forward(self, x: Tensor) -> Tensor:
        if self.training and self.is_set == 0:
            self.fill(x)
        return x - self.mean


class Moved(Set):
    def forward(self, x: Tensor) -> Tensor:
        if x.sum() > 0:
            self.mean.mul_(0.9).add_(x.mean(0))
        return x * 2


def shown(function: Callable[..., object], *calls: tuple[Tensor, ...]) -> tuple[BreakCard, str]:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(function, backend="eager")
        for inputs in calls:
            compiled(*inputs)
    (card,) = explain(lens.recording).cards
    return card, " ".join(view(lens.recording, "breaks", Page(width=1000, color=False)).split())


@pytest.mark.parametrize("module", [ByNumber, ByTruth, ByMethod, InTraining])
def test_what_is_set_up_once_is_to_be_done_before_the_compiled_call(module: type[Set]) -> None:
    card, text = shown(module(), (torch.ones(3, 4),))
    assert card.rewrite is None
    assert "Set it up once, in a function of its own that the caller runs before the compiled one" in text
    assert "choose with `torch.where`" not in text
    assert "always applying the transform" not in text


def test_what_an_object_keeps_is_to_be_changed_by_the_caller() -> None:
    card, text = shown(Moved(), (torch.ones(3, 4),))
    assert card.rewrite is None
    assert "test and change in the caller" in text
    assert "choose with `torch.where`" not in text
    assert "always applying the transform" not in text


def either(x: Tensor, one: Tensor, other: Tensor) -> Tensor:
    y = one * 2 if x.sum() > 0 else -other
    return y + 1


def test_sides_that_were_recorded_with_one_dtype_are_chosen_between() -> None:
    x, one = torch.ones(3), torch.ones(3)
    card, text = shown(either, (x, one, one), (-x, one, one))
    assert card.rewrite is not None
    assert "one shape and dtype" in text


def test_sides_that_were_recorded_with_two_dtypes_are_not() -> None:
    x, one = torch.ones(3), torch.ones(3)
    card, text = shown(either, (x, one, one.half()), (-x, one, one.half()))
    assert card.rewrite is None
    assert "one shape and dtype" not in text
