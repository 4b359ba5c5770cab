"""Lists that a loop appends to where a tensor says so: each round appends, and a mask beside them says what counts."""

from __future__ import annotations

import pytest
import torch

from tests.fix.rewritten import JUMP, assert_alike, others

SKIPPED = """\
import torch


def f(x):
    found = []
    for i in range(len(x)):
        if x[i].sum() <= 0:
            continue
        value = x[i].exp().mean()
        found.append(value)
    return torch.stack(found).mean()
"""
APPENDED = """\
import torch


def f(x):
    found = []
    for i in range(len(x)):
        if x[i].sum() > 0:
            value = x[i].exp().mean()
            found.append(value)
    return torch.stack(found).mean()
"""
BOTH = pytest.mark.parametrize("text", [SKIPPED, APPENDED], ids=["skipped", "appended"])
END = "torch.stack(found).mean()"
SOME = torch.tensor([[1.0, 2.0], [0.0, -1.0], [3.0, 1.0], [-1.0, -2.0]], requires_grad=True)
ALL = torch.tensor([[1.0, 2.0], [0.5, 1.0]], requires_grad=True)
NONE = torch.tensor([[-1.0, 0.0], [-2.0, 1.0]], requires_grad=True)


def rewritten(text: str) -> str:
    """The text with a mask beside the list."""
    (found,) = others(text, JUMP, "        if ")
    assert "present.append(" in found
    return found


@BOTH
@pytest.mark.parametrize(
    "end",
    [
        END,
        "torch.mean(torch.stack(found))",
        "torch.stack(found).sum()",
        "torch.stack(found).sum() / max(len(found), 1)",
        "sum(found)",
        "sum(found) / len(found)",
        "sum(found) / max(len(found), 1)",
        "1 - sum(found) / len(found) ** 2",
    ],
)
@pytest.mark.parametrize("x", [SOME, ALL], ids=["some", "all"])
def test_a_sum_or_a_mean_is_of_what_counts(text: str, end: str, x: torch.Tensor) -> None:
    text = text.replace(END, end)
    assert_alike(text, rewritten(text), x)


@BOTH
def test_the_sum_of_none_is_zero_and_so_are_its_gradients(text: str) -> None:
    text = text.replace(END, "x.sum() * 0 + sum(found) / max(len(found), 1)")
    assert_alike(text, rewritten(text), NONE)


@BOTH
@pytest.mark.parametrize("test", ["not found", "len(found) == 0"])
def test_an_early_return_of_an_empty_list_asks_the_mask(text: str, test: str) -> None:
    text = text.replace(f"return {END}", f"if {test}:\n        return x.sum() * 0\n    return {END}")
    better = rewritten(text)
    assert "if not present.any():" in better or "if present.sum() == 0:" in better
    for x in (SOME, ALL, NONE):  # the branch that is left breaks the graph until it is another one
        assert_alike(text, better, x, is_compiled=False)


@BOTH
@pytest.mark.parametrize("test", ["found", "len(found) > 0"])
def test_a_choice_by_the_list_asks_the_mask(text: str, test: str) -> None:
    text = text.replace(END, f"sum(found) / len(found) if {test} else x.sum() * 0")
    assert "if " not in rewritten(text).partition("torch.stack(present)")[2]
    for x in (SOME, ALL, NONE):
        assert_alike(text, rewritten(text), x)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("if x[i].sum() <= 0:", "if not (x[i] > 0).any():"),
        ("if x[i].sum() <= 0:", "if (x[i] > 2).any():"),
        ("if x[i].sum() <= 0:", "if x[i].sum() == 3:"),
        ("for i in range(len(x)):", "for row in x:"),
        ("    found = []\n", "    found = []\n    y = x * 2\n"),
        ("        if x", "        y = x[i] * 2\n        if x"),
    ],
)
def test_other_tests_and_loops_are_alike(old: str, new: str) -> None:
    text = SKIPPED.replace(old, new)
    assert text != SKIPPED
    text = text.replace("x[i]", "row") if "row" in new else text
    assert_alike(text, rewritten(text), SOME)


@BOTH
@pytest.mark.parametrize(
    ("old", "new"),
    [
        (END, "found"),
        (END, "torch.stack(found)"),
        (END, "torch.stack(found).max()"),
        (END, "found[0]"),
        (END, f"{END}, [one for one in found]"),
        ("    return", "    print(found)\n    return"),
        ("    return", "    for one in found:\n        x = x + one\n    return"),
        ("found = []", "found = [x.sum()]"),
        ("found.append(value)", "found.append(value), print(value)"),
        ("found.append(value)", "found.append(value)\n            found.append(value)"),
        ("found.append(value)", "found.insert(0, value)"),
        ("for i in range(len(x)):", "i = -1\n    while i < 3:"),
    ],
)
def test_what_asks_for_more_than_a_sum_keeps_the_list(text: str, old: str, new: str) -> None:
    indent = new if text is APPENDED else new.replace("            ", "        ")
    changed = text.replace(old, indent)
    assert changed != text
    assert others(text, JUMP, "        if ")
    assert [one for one in others(changed, JUMP, "        if ") if "present" in one] == []


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            continue", "            break"),
        ("            continue", "            print(i)\n            continue"),
        ("        value", "        print(i)\n        value"),
        ("        found.append(value)", "        if i > 1:\n            found.append(value)"),
    ],
)
def test_a_loop_that_does_more_stays(old: str, new: str) -> None:
    text = SKIPPED.replace(old, new)
    assert text != SKIPPED
    assert others(SKIPPED, JUMP, "        if ")
    assert others(text, JUMP, "        if ") == []


def test_a_value_that_is_asked_for_after_the_branch_stays() -> None:
    text = APPENDED.replace(f"return {END}", f"return {END} + value")
    assert others(APPENDED, JUMP, "        if ")
    assert [one for one in others(text, JUMP, "        if ") if "present" in one] == []
