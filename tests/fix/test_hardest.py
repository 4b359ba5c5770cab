"""The mean of the hardest examples, those above a limit or the largest few, is of the first so many in order."""

from __future__ import annotations

import pytest
import torch

from tests.fix.rewritten import SHAPE, assert_alike, others

TEXT = """\
import torch


def f(x, y, t):
    n = y[y != 9].numel() // 2
    loss = x.square()
    hard = loss[loss > t]
    if hard.numel() < n:
        hard, _ = loss.topk(n)
    return torch.mean(hard)
"""
COUNT = "n = y[y != 9].numel() // 2"


def hardest(text: str, begins: str = COUNT) -> list[str]:
    return [one for one in others(text, SHAPE, begins) if "ordered" in one]


@pytest.mark.parametrize("limit", [0.0, 0.5, 2.0, 9.0])
def test_it_is_the_mean_of_the_first_so_many(limit: float) -> None:
    torch.manual_seed(0)
    x, y = torch.randn(20, requires_grad=True), torch.arange(10) % 10
    (new,) = hardest(TEXT)
    assert "n = (y != 9).sum() // 2" in new
    assert_alike(TEXT, new, x, y, limit)
    text = TEXT.replace(COUNT, "n = 6")
    (new,) = hardest(text, "hard = loss[")
    assert_alike(text, new, x, y, limit)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("hard, _ = loss.topk(n)", "hard = loss.topk(n)[0]"),
        ("hard, _ = loss.topk(n)", "hard = torch.topk(loss, n).values"),
        ("hard.numel() < n", "len(hard) <= n"),
        ("torch.mean(hard)", "hard.mean()"),
    ],
)
def test_other_ways_to_write_it(old: str, new: str) -> None:
    torch.manual_seed(0)
    (found,) = hardest(TEXT.replace(old, new))
    assert_alike(TEXT, found, torch.randn(20), torch.arange(10), 2.0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("loss[loss > t]", "loss[loss < t]"),
        ("loss[loss > t]", "loss[x > t]"),
        ("loss.topk(n)", "loss.topk(n + 1)"),
        ("loss.topk(n)", "loss.topk(n, largest=False)"),
        ("torch.mean(hard)", "torch.sum(hard)"),
        ("torch.mean(hard)", "torch.mean(hard) * hard.numel()"),
        ("hard.numel() < n", "hard.numel() > n"),
    ],
)
def test_what_is_something_else_stays(old: str, new: str) -> None:
    assert old in TEXT
    assert hardest(TEXT.replace(old, new)) == []
