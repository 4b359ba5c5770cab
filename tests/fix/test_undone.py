"""A branch whose methods change what an object keeps: they run at each call, and what they change is set back."""

from __future__ import annotations

import pytest
import torch

from tests.fix.rewritten import JUMP, assert_alike, others

TEXT = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(1))
        self.register_buffer("total", torch.zeros(4))
        self.last = torch.zeros(4)
        self.most = 2

    def forward(self, x):
        if self.count < self.most:
            self._accumulate(x.detach())
        return x - self.total / self.count.clamp(min=1.0) + self.last

    def _accumulate(self, x):
        self.total += x.sum(0)
        self.last = x[0]
        self.count.add_(1)
"""


def undone(text: str) -> list[str]:
    return [one for one in others(text, JUMP, "if self.count") if ".clone()" in one]


@pytest.mark.parametrize("count", ["0", "1", "2", "5"])
def test_what_a_method_changes_is_set_back(count: str) -> None:
    text = TEXT.replace("torch.zeros(1)", f"torch.full((1,), {count}.0)")
    (new,) = undone(text)
    assert "changes = self.count < self.most" in new
    assert "total, last, count = self.total.clone(), self.last, self.count.clone()" in new
    assert "self.total.copy_(torch.where(changes, self.total, total))" in new
    assert "self.last = torch.where(changes, self.last, last)" in new
    assert_alike(text, new, torch.randn(3, 4))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        self.total += x.sum(0)\n", "        for row in x:\n            self.total += row\n"),
        ("        return x -", "        else:\n            x = x * 2\n        return x -"),
        ("self._accumulate(x.detach())", "self._accumulate(x.detach())\n            y = 1\n        y += 1"),
        (
            "        self.total += x.sum(0)\n        self.last = x[0]\n        self.count.add_(1)\n",
            "        return x.sum()\n",
        ),
    ],
)
def test_what_is_more_than_that_stays(old: str, new: str) -> None:
    assert old in TEXT
    assert undone(TEXT.replace(old, new)) == []


def test_what_is_set_up_once_is_not_done_each_time() -> None:
    text = TEXT.replace("if self.count < self.most", "if self.count == 0")
    assert undone(text) == []
