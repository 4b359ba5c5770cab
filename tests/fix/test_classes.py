"""Loops over the classes that a tensor has: all that there are, of which those that it has not are left out."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import SHAPE, assert_alike, others

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
CAUSES = [
    SHAPE,
    ITEM,
    BreakCause("Tensor.tolist() with non-integer tensor"),
    BreakCause("Data dependent operator", context="aten._local_scalar_dense.default"),
]
OF_COLUMNS = """\
import torch


def f(x, labels):
    found = []
    for c in labels.unique().tolist():
        found.append(x[:, c].exp().mean() * (labels == c).sum())
    return sum(found) / len(found)
"""
LOOP = "for c in labels.unique().tolist()"
OF_HEADS = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = torch.nn.ModuleDict({"0": torch.nn.Linear(3, 2), "2": torch.nn.Linear(3, 2)})

    def of_one(self, x, number):
        return self.heads[str(number)](x)

    def forward(self, x, labels):
        out = x.new_zeros(x.shape[0], 2)
        for c in labels.unique().tolist():
            mask = labels == c
            out[mask] = self.of_one(x[mask], c)
        return out
"""


def given() -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.arange(12.0).view(4, 3) / 10
    return x.requires_grad_(), torch.tensor([2, 0, 2, 0])


def rewritten(text: str, cause: BreakCause = SHAPE) -> str:
    """The text with a loop over all classes."""
    found = [one for one in others(text, cause, "    for c in ") if ".any():" in one]
    assert len(found) == 1
    assert "unique" not in found[0]
    assert "set(" not in found[0]
    return found[0]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda one: one.gb_type)
def test_each_of_torchs_words_for_the_break_will_do(cause: BreakCause) -> None:
    assert "for c in range(x.shape[1]):" in rewritten(OF_COLUMNS, cause)


@pytest.mark.parametrize(
    "over",
    [
        "labels.unique().tolist()",
        "torch.unique(labels).tolist()",
        "labels.unique()",
        "sorted(set(labels.tolist()))",
        "set(labels.flatten().tolist())",
        "labels.view(-1).unique().cpu().tolist()",
    ],
)
def test_the_classes_that_are_there_count(over: str) -> None:
    text = OF_COLUMNS.replace("labels.unique().tolist()", over)
    new = rewritten(text)
    assert_alike(text, new, *given(), is_compiled=False)
    torch._dynamo.reset()


def test_a_class_that_is_left_out_is_not_asked_for() -> None:
    text = OF_COLUMNS.replace("        found", "        if c == 2:\n            continue\n        found", 1)
    new = rewritten(text)
    assert new.index("c == 2") < new.index(".any()")
    assert_alike(text, new, *given(), is_compiled=False)


@pytest.mark.parametrize(
    ("index", "every"),
    [("x[c]", "range(len(x))"), ("x[:, c]", "range(x.shape[1])"), ("x[..., c]", "range(x.shape[-1])")],
)
def test_what_the_class_is_an_index_of_has_all_of_them(index: str, every: str) -> None:
    assert f"for c in {every}:" in rewritten(OF_COLUMNS.replace("x[:, c]", index))


def test_a_number_that_was_a_tensor_is_one_now() -> None:
    text = OF_COLUMNS.replace("labels.unique().tolist()", "labels.unique()").replace("x[:, c]", "x[:, c.item()]")
    assert others(text, SHAPE, "    for c in ") == []  # `x[:, c.item()]` is no table of `c` by its text alone
    text = text.replace("x[:, c.item()]", "x[:, c]").replace("== c", "== c.item()")
    assert "== c).sum()" in rewritten(text)


def test_heads_that_another_method_takes_are_all_of_them() -> None:
    (new,) = (one for one in others(OF_HEADS, SHAPE, "    for c in ") if "unique" not in one)
    assert "for c in [int(key) for key in self.heads]:" in new
    assert ".any()" not in new  # of no rows none are written
    assert_alike(OF_HEADS, new, *given(), is_compiled=False)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("x[:, c]", "x"),
        ("x[:, c]", "x[:, c + 1]"),
        ("found.append(x[:, c].exp().mean() * (labels == c).sum())", "x[0, c] = 1.0"),
        ("    return sum", "    found.append(x[:, c].sum())\n    return sum"),
        ("        found.append", "        c = c * 1\n        found.append"),
        (LOOP, "for c in labels.tolist()"),
        (LOOP, "for c in labels.unique(return_counts=True)[0]"),
        (LOOP, "for c in (labels + 1).unique().tolist()"),
        ("    return sum", "    else:\n        found.append(x.sum())\n    return sum"),
    ],
)
def test_another_loop_stays(old: str, new: str) -> None:
    text = OF_COLUMNS.replace(old, new)
    assert text != OF_COLUMNS
    compile(text, "classes.py", "exec")
    assert [one for one in others(text, SHAPE, "    for c in ") if ".any():" in one] == []
