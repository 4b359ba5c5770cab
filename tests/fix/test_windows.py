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


CACHE = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(2, 3, 8, 4))
        self.register_buffer("values", torch.zeros(2, 3, 8, 4))
        self.register_buffer("pos", torch.tensor(2))

    def forward(self, q, k, v):
        n = k.shape[2]
        start = self.pos
        end = start + n
        self.keys[:, :, start:end] = k
        self.values[:, :, start:end] = v
        keys, values = self.keys[:, :, :end], self.values[:, :, :end]
        out = F.scaled_dot_product_attention(q, keys, values)
        return out + 1
"""
BY_HAND = "(q @ keys.transpose(-1, -2) / 2).softmax(-1) @ values"
CAUSAL = """\
mask = torch.arange(end)[None, :] <= torch.arange(start, end)[:, None]
        out = F.scaled_dot_product_attention(q, keys, values, attn_mask=mask)"""
NONE_GIVEN = "F.scaled_dot_product_attention(q, keys, values)"


def of_slices(text: str, line: str = "self.keys[:, :, ") -> list[str]:
    return [one for one in others(text, ITEM, line) if "index_copy_" in one or "masked_fill" in one]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        (NONE_GIVEN, BY_HAND),
        (NONE_GIVEN, BY_HAND.replace("(q @", "F.softmax(q @").replace(").softmax(-1)", ", dim=-1)")),
        ("out = F.scaled_dot_product_attention(q, keys, values)", CAUSAL),
        (
            "keys, values = self.keys[:, :, :end], self.values[:, :, :end]",
            "keys, values = 2 * self.keys[:, :, :end], self.values[:, :, :end].exp()",
        ),
        ("start:end] =", "start : start + n] ="),
        ("start:end] =", "start:end, :] ="),
        ("[:, :, start:end] =", "[..., start:end, :] ="),
    ],
)
def test_what_ends_at_a_number_is_whole_and_masked(old: str, new: str) -> None:
    text = CACHE.replace(old, new)
    line = "self.keys[..., " if new.startswith("[...") else "self.keys[:, :, "
    (found,) = of_slices(text, line)
    assert "end]" not in found
    assert_alike(text, found, *torch.randn(3, 2, 3, 1 if "attn_mask" in text else 2, 4))


def test_numbers_of_an_object_are_read_where_they_stand() -> None:
    text = CACHE.replace("        start = self.pos\n        end = start + n\n", "").replace(
        "start:end", "self.pos : self.pos + n"
    )
    text = text.replace("        keys, values", "        self.pos += n\n        keys, values").replace(
        ":end]", ": self.pos]"
    )
    (found,) = of_slices(text)
    assert found.count("places = ") == 1  # both are written to the same places
    assert_alike(text, found, *torch.randn(3, 2, 3, 2, 4))


def test_one_of_several_caches_is_written_to() -> None:
    text = (
        CACHE.replace("zeros(2, 3", "zeros(5, 2, 3")
        .replace("keys[:, :, ", "keys[0, :, :, ")
        .replace("values[:, :, ", "values[1, :, :, ")
    )
    (found,) = of_slices(text, "self.keys[0, :, :, ")
    assert "self.keys[0, :, :, :].index_copy_(2, " in found
    assert_alike(text, found, *torch.randn(3, 2, 3, 2, 4))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (NONE_GIVEN, "q + keys.sum(2, keepdim=True)"),  # nothing that a mask could go on
        (NONE_GIVEN, "F.scaled_dot_product_attention(q, keys, values, is_causal=True)"),
        (NONE_GIVEN, BY_HAND.replace("softmax(-1)", "softmax(1)")),
        ("start:end] = k", "start:end] += k"),
        ("start:end] = k", "start:end, [0, 1, 2, 3]] = k"),
    ],
)
def test_what_no_mask_makes_whole_is_left(old: str, new: str) -> None:
    assert old in CACHE
    assert not of_slices(CACHE.replace(old, new))


def test_a_number_taken_out_is_a_tensor_in_all_that_follows() -> None:
    text = CACHE.replace("start = self.pos", "start = self.pos.item()")
    found = [one for one in others(text, ITEM, "start = self") if "index_copy_" in one]
    assert len(found) == 1
    assert ".item()" not in found[0]
    assert_alike(text, found[0], *torch.randn(3, 2, 3, 2, 4))


RETURNED = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("queue", torch.zeros(2, 8))
        self.register_buffer("ptr", torch.zeros(1, dtype=torch.long))

    def enqueue(self, keys):
        ptr = int(self.ptr)
        self.queue[:, ptr : ptr + 3] = keys
        self.ptr[0] = (ptr + 3) % 6
        return ptr

    def forward(self, keys):
        ptr = self.enqueue(keys)
        return keys.sum() + torch.arange(ptr, ptr + keys.shape[0])
"""


def test_a_number_that_is_returned_stays_a_tensor_without_dimensions() -> None:
    """What counts from it where it was called is then written by places, too."""
    (inner,) = [one for one in others(RETURNED, ITEM, "ptr = int(") if "index_copy_" in one]
    assert "ptr = self.ptr.clone().reshape(())\n" in inner
    (both,) = [one for one in others(inner, ITEM, "return keys.sum()") if "(ptr + torch.arange(keys.shape[0]))" in one]
    assert_alike(RETURNED, both, torch.randn(2, 3))
