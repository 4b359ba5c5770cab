"""How many different values a tensor has, where that decides whether something raises."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from compiler_lens.facts.breaks.rewrites import rewrite
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import applied
from tests.fix.rewritten import FILE, assert_alike, ran

UNIQUE = BreakCause("Dynamic shape operator", context="aten._unique2.default")
TEXT = """\
    import torch

    def f(labels, n=3):
        if len(torch.unique(labels)) > n:
            raise RuntimeError(f"Detected more than {n} values")
        return labels.double().sum()
    """


def rewritten(text: str) -> str | None:
    number, line = next((n, one) for n, one in enumerate(text.split("\n"), 1) if "unique" in one)
    found = rewrite(UNIQUE, Sources({FILE: text}), SourceLine(FILE, number, "f", line.strip()))
    return applied(text, found) if found else None


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("len(torch.unique(labels)) > n", "labels.unique().numel() > n"),
        ("len(torch.unique(labels)) > n", "torch.unique(labels).shape[0] >= n + 1"),
        ("len(torch.unique(labels)) > n", "n < (labels - 1).unique().size(0)"),
        ('if len(torch.unique(labels)) > n:\n        raise RuntimeError(f"Detected more than {n} values")',
         'assert len(torch.unique(labels)) <= n, "too many"'),
    ],
)  # fmt: skip
def test_a_count_of_values_is_checked_in_the_graph(old: str, new: str) -> None:
    text = dedent(TEXT).replace(old, new)
    found = rewritten(text)
    assert found is not None
    assert "_assert_async" in found
    for labels in (torch.tensor([[1, 2], [2, 5]]), torch.tensor([1.0, 1.0]), torch.tensor([True, False, True])):
        if labels.dtype is torch.bool and "- 1" in new:
            continue
        assert_alike(text, found, labels)
    for one in (text, found):
        with pytest.raises((RuntimeError, AssertionError), match=r"Detected more than 3|too many"):
            ran(one, (torch.tensor([4, 1, 2, 3]),))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('raise RuntimeError(f"Detected more than {n} values")', "labels = labels + 1"),
        ("torch.unique(labels)", "torch.unique(labels, dim=0)"),
        ("torch.unique(labels)", "labels"),
        ("len(torch.unique(labels)) > n", "len(torch.unique(labels)) > len(torch.unique(labels + 1))"),
    ],
)
def test_anything_else_is_left(old: str, new: str) -> None:
    text = dedent(TEXT).replace(old, new)
    text = text if "unique" in text else text + "# unique\n"
    assert rewritten(text) is None
