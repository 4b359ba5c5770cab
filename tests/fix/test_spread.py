"""What is computed of chosen rows, and written in their places, is computed of all rows, and chosen afterwards."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.breaks.rewrites.site import Seen
from tests.fix.rewritten import JUMP, SHAPE, assert_alike, others, seen

TEXT = """\
import torch


def f(x, m, w):
    out = torch.zeros(x.shape)
    hidden = torch.tanh(x[m] @ w)
    out[m] = hidden @ w.t()
    return out * 2
"""
BRANCH = """\
import torch


def f(x, m, w):
    out = torch.zeros(x.shape)
    if m.any():
        hidden = torch.tanh(x[m] @ w)
        out[m] = hidden @ w.t()
    return out * 2
"""


def given(*shape: int) -> tuple[torch.Tensor, ...]:
    torch.manual_seed(0)
    return torch.randn(*shape, 4, requires_grad=True), torch.rand(*shape) > 0.5, torch.randn(4, 3, requires_grad=True)


def spread(text: str, begins: str = "hidden =", **dims: int) -> list[str]:
    known = seen(text, **{name: Seen("bool" if name == "m" else "float32", of) for name, of in dims.items()})
    cause = JUMP if begins == "if m" else SHAPE
    return [one for one in others(text, cause, begins, known) if "torch.where(m" in one]


@pytest.mark.parametrize(("text", "begins"), [(TEXT, "hidden ="), (BRANCH, "if m")])
@pytest.mark.parametrize(
    ("dims", "shape", "writes"),
    [
        ({"x": 2, "m": 1, "out": 2}, (6,), "out.copy_(torch.where(m[:, None], hidden @ w.t(), out))"),
        ({"m": 1}, (6,), "torch.where(m.view(-1, *[1] * (out.dim() - 1)), "),
        ({"x": 3, "m": 2, "out": 3}, (5, 3), "torch.where(m[:, :, None], (hidden @ w.t()).unflatten(0, m.shape), out)"),
        ({}, (5, 3), "torch.where(m.view(*m.shape, *[1] * (out.dim() - m.dim())), "),
    ],
)
def test_all_rows_are_computed(
    text: str, begins: str, dims: dict[str, int], shape: tuple[int, ...], writes: str
) -> None:
    (new,) = spread(text, begins, **dims)
    assert writes in new
    assert "if m" not in new
    assert_alike(text, new, *given(*shape))


def test_none_may_be_chosen() -> None:
    (new,) = spread(BRANCH, "if m", m=1)
    x, m, w = (one.detach() for one in given(6))
    assert_alike(BRANCH, new, x, torch.zeros_like(m), w)


@pytest.mark.parametrize("sign", ["+", "-", "*"])
def test_what_is_added_to_chosen_rows(sign: str) -> None:
    text = TEXT.replace("out = torch.zeros(x.shape)", "out = torch.ones(x.shape)").replace(
        "out[m] =", f"out[m] {sign}="
    )
    (new,) = spread(text, m=1, out=2)
    assert f" {sign} (hidden @ w.t()), out)" in new
    assert_alike(text, new, *given(6))


def test_rows_of_the_tensor_itself() -> None:
    text = TEXT.replace("    hidden = torch.tanh(x[m] @ w)\n", "").replace("torch.zeros(x.shape)", "x.clone()")
    text = text.replace("hidden @ w.t()", "out[m].mean(1, keepdim=True).expand(-1, 4)")
    (new,) = spread(text, "out[m] =", m=1, out=2)
    assert_alike(text, new, *given(6))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return out * 2", "return out * hidden.sum()"),  # rows that are asked for beyond
        ("hidden @ w.t()", "hidden @ w.t() / m.sum()"),  # the mask is asked how many there are
        ("    out[m] =", "    print(hidden)\n    out[m] ="),
        ("    out[m] =", "    m = ~m\n    out[m] ="),
        ("out[m] =", "out[0] ="),
    ],
)
def test_what_asks_for_more_stays(old: str, new: str) -> None:
    assert spread(TEXT.replace(old, new), m=1, x=2, out=2) == []


def test_a_branch_that_does_more_stays() -> None:
    assert spread(BRANCH.replace("    return", "    else:\n        out += 1\n    return"), "if m", m=1) == []
    assert spread(BRANCH.replace("m.any()", "x.sum() > 0"), "if x", m=1) == []
