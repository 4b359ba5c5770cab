"""Numbers of tensors that a program computes on with: tensors without dimensions."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import assert_alike, others

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
ALPHA = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(0.3))

    @property
    def alpha(self):
        return self.log_alpha.exp().item()

    def forward(self, x):
        return self.alpha * x + self.log_alpha
"""


def found(text: str) -> list[str]:
    return [one for one in others(text, ITEM, "return ") if ".detach()" in one]


def test_a_number_has_no_gradient_and_a_tensor_in_its_place_has_none() -> None:
    plain, double = found(ALPHA)
    assert "return self.log_alpha.exp().detach()\n" in plain
    assert "return self.log_alpha.exp().detach().double()\n" in double
    for one in (plain, double):
        assert_alike(ALPHA, one, torch.randn(4, requires_grad=True))


def test_so_has_what_float_makes_of_one() -> None:
    text = ALPHA.replace("self.log_alpha.exp().item()", "float(self.log_alpha.exp())")
    assert len(found(text)) == len(found(ALPHA))


@pytest.mark.parametrize(
    "value", ["int(self.log_alpha.item())", 'f"{self.log_alpha.item()}"', "self.items[: self.log_alpha.item()]"]
)
def test_what_has_to_be_a_number_stays_one(value: str) -> None:
    assert not found(ALPHA.replace("self.log_alpha.exp().item()", value))


@pytest.mark.parametrize("other", ['float("nan") if self.training else', "float(len(self.items)) *", "float(1) +"])
def test_what_float_makes_of_something_else_stays(other: str) -> None:
    """A branch that a program does not take would raise where the text of `nan` is asked for what tensors have."""
    plain, double = found(
        ALPHA.replace("return self.log_alpha.exp().item()", f"return {other} self.log_alpha.exp().item()")
    )
    assert f"return {other} self.log_alpha.exp().detach()\n" in plain
    assert f"return {other} self.log_alpha.exp().detach().double()\n" in double


@pytest.mark.parametrize("name", ["exp", "sqrt", "isfinite"])
def test_what_math_computes_of_one_torch_computes(name: str) -> None:
    text = ALPHA.replace("self.log_alpha.exp().item()", f"math.{name}(2 - (self.log_alpha.exp().item()))")
    text = f"import math\n{text}"
    plain, double = found(text)
    assert f"return torch.{name}(2 - (self.log_alpha.exp().detach()))\n" in plain
    for one in (plain, double):
        assert_alike(text, one, torch.randn(4, requires_grad=True))


@pytest.mark.parametrize("name", ["math.floor", "statistics.fmean", "exp"])
def test_another_function_stays(name: str) -> None:
    for one in found(ALPHA.replace("self.log_alpha.exp().item()", f"{name}(self.log_alpha.exp().item())")):
        assert f"return {name}(" in one
