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


LARGEST = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0.5

    def forward(self, x):
        self.seen = {kept}
        return x * 2, self.seen
"""


@pytest.mark.parametrize("values", [[1.0, 3.0], [-2.0, 0.1], [float("nan"), 1.0]], ids=str)
@pytest.mark.parametrize(
    "kept",
    [
        "max(self.seen, x.abs().max().item())",
        "max(float(x.sum()), self.seen)",
        "min(self.seen, x.min().item())",
    ],
)
def test_the_largest_so_far_is_chosen_as_python_chooses(kept: str, values: list[float]) -> None:
    text = LARGEST.format(kept=kept)
    better = next(one for one in others(text, ITEM, "self.seen = m") if "torch.where(" in one)
    as_tensor = text.replace("return x * 2, self.seen", "return x * 2, torch.as_tensor(self.seen)")
    new = better.replace("return x * 2, self.seen", "return x * 2, torch.as_tensor(self.seen)")
    assert_alike(as_tensor, new, torch.tensor(values))


TABLE = """\
import math
import numpy as np
import torch


class Scheduler:
    def __init__(self):
        self.products = np.cumprod(1.0 - np.linspace(0.1, 0.2, 10))

    def step(self, x, t):
        a = float(self.products[t])
        before = float(self.products[t - 1]) if t > 0 else 1.0
        return math.sqrt(a) * x + (1 - before) * x


scheduler = Scheduler()


def f(x, t):
    return scheduler.step(x, t)
"""
ELEMENT = BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")


@pytest.mark.parametrize("t", [0, 4])
def test_an_element_of_a_table_of_numpys_is_a_tensor_without_dimensions(t: int) -> None:
    text = TABLE
    for containing in ("a = float", "before = float", "return math"):
        text = next(one for one in others(text, ELEMENT, containing) if "as_tensor" in one)
    assert "a = torch.as_tensor(self.products)[t]" in text
    assert "torch.as_tensor(self.products)[t - 1] if t > 0 else torch.tensor(1.0, dtype=torch.float64)" in text
    assert "torch.sqrt(a) * x" in text
    assert_alike(TABLE, text, torch.randn(3), t)


def test_an_element_of_a_table_is_no_tensor_to_detach() -> None:
    assert not any(".detach()" in one for one in others(TABLE, ELEMENT, "a = float"))
