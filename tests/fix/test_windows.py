"""Slices that begin at a tensor's number: by the places, which a graph counts."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import assert_alike, others

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
QUEUE = """\
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(3, 8))
        self.register_buffer("ptr", torch.tensor([2]))

    def forward(self, keys):
        ptr = int(self.ptr)  # where the oldest are
        n = keys.shape[0]
        self.queue[:, ptr : ptr + n] = keys.T
        self.ptr[0] = (ptr + n) % 8
        return self.queue.sum(1)
"""


def rewritten(text: str) -> list[str]:
    """The text with places in place of the slice."""
    return [one for one in others(text, ITEM, "ptr = int(self.ptr)") if "arange" in one]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("self.queue[:, ptr : ptr + n] = keys.T\n", "self.queue[..., ptr : ptr + n] = keys.T\n"),
        ("self.queue.sum(1)", "self.queue[:, ptr : ptr + n].exp()"),
        ("int(self.ptr)", "int(self.ptr.item())"),
        ("self.ptr[0] = (ptr + n) % 8", "ptr = (ptr + n) % 8\n        self.ptr[0] = ptr"),
    ],
)
def test_the_places_are_counted_from_the_number(old: str, new: str) -> None:
    text = QUEUE.replace("int(self.ptr)", new) if old == "int(self.ptr)" else QUEUE.replace(old, new)
    found = [one for one in others(text, ITEM, "ptr = int(") if "arange" in one]
    assert len(found) == 1
    assert "int(" not in found[0]
    assert_alike(text, found[0], torch.randn(3, 3))


def test_remarks_stay() -> None:
    text = QUEUE.replace("n = keys.shape[0]", "n = keys.shape[0]  # a batch")
    assert "# a batch" in rewritten(text)[0]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.queue[:, ptr : ptr + n] = keys.T", "self.queue[:, ptr:] = keys.T"),
        ("self.queue[:, ptr : ptr + n] = keys.T", "self.queue[:, ptr : ptr + ptr] = keys.T"),
        ("self.queue.sum(1)", "self.queue.sum(1) if ptr > 3 else keys"),
        ("self.queue.sum(1)", "self.queue[:, ptr]"),
        ("self.queue.sum(1)", "self.queue.sum(1), ptr"),
        ("self.queue.sum(1)", "self.queue.roll(ptr, 1)"),
        ("self.queue[:, ptr : ptr + n] = keys.T", "self.queue[[0], ptr : ptr + n] = keys.T"),
    ],
)
def test_what_wants_the_number_itself_is_left(old: str, new: str) -> None:
    assert old in QUEUE
    assert not rewritten(QUEUE.replace(old, new))
