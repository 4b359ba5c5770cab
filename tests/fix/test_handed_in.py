"""A function that counts by a tensor's numbers what its caller knows: as many rows as the same index picks from."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.measured.handed_in import handed_in
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources
from tests.fix.rewritten import FILE, assert_alike

TEXT = """\
import torch


def scatter(src, index, size=None):
    if size is None:
        size = int(index.max()) + 1
    return torch.zeros(size, src.shape[1]).index_add_(0, index, src)


def f(x, edges):
    senders, receivers = edges
    sent = x[senders] * 2
    y = scatter(sent - x[receivers], receivers)
    return x + y
"""


def new(text: str) -> list[str]:
    lines = text.split("\n")
    number, line = next((n, one) for n, one in enumerate(lines, 1) if "size = int(" in one)
    found = []
    for edit in handed_in(SourceLine(FILE, number, "scatter", line.strip()), Sources({FILE: text})):
        (before,), (after,) = edit.before, edit.after
        found.append(text.replace(before, after))
    return found


@pytest.mark.parametrize("count", ["int(index.max()) + 1", "index.max().item() + 1", "int(torch.max(index)) + 1"])
@pytest.mark.parametrize("call", ["scatter(sent - x[receivers], receivers)", "scatter(sent, index=receivers)"])
def test_the_caller_hands_it_in(count: str, call: str) -> None:
    text = TEXT.replace("int(index.max()) + 1", f"int({count})" if "item" in count else count)
    text = text.replace("scatter(sent - x[receivers], receivers)", call).replace(
        "return x +", "z = x[receivers]\n    return x +"
    )
    (one,) = new(text)
    assert f"{call[:-1]}, size=x.shape[0])" in one
    assert_alike(text, one, torch.randn(4, 3), torch.tensor([[0, 1, 2], [3, 0, 3]]))


@pytest.mark.parametrize(
    ("old", "other"),
    [
        ("receivers)\n    return", "receivers, 4)\n    return"),  # it is handed in
        ("receivers)\n    return", "receivers, *more)\n    return"),
        ("x[receivers]", "x[senders]"),  # nothing that the index picks from
        ("index.max()", "src.max()"),
        ("if size is None:", "if size is None or size < 0:"),
        (".max()", ".sum()"),
    ],
)
def test_what_nobody_knows_stays(old: str, other: str) -> None:
    assert old in TEXT
    assert new(TEXT.replace(old, other)) == []
