"""Loops over the numbers of a tensor that change the elements they name: all of them at once."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import JUMP, SHAPE, assert_alike, others

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
CAUSES = [
    ITEM,
    JUMP,
    SHAPE,
    BreakCause("Tensor.tolist() with non-integer tensor"),
    BreakCause("Data dependent operator", context="aten._local_scalar_dense.default"),
]
PENALTY = """\
import torch


def f(scores, ids, mask):
    for row in range(scores.shape[0]):
        for token in set(ids[row].tolist()):
            scores[row, token] /= 1.5
    return scores
"""
CHANGE = "scores[row, token] /= 1.5"
NUMBERS = "set(ids[row].tolist())"
BRANCH = """\
if scores[row, token] > 0:
                scores[row, token] /= 1.5
            else:
                scores[row, token] *= 1.5"""


def given() -> tuple[Any, ...]:
    scores = torch.tensor([[1.0, -2.0, 3.0, 0.5], [-1.0, 2.0, -3.0, 4.0]])
    return scores, torch.tensor([[0, 1, 1], [3, 3, 2]]), torch.tensor([[1, 0, 1], [0, 1, 1]])


def rewritten(text: str, containing: str = "tolist", cause: BreakCause = ITEM) -> str:
    """The text without its loops."""
    found = [one for one in others(text, cause, containing) if "seen" in one]
    assert len(found) == 1
    assert "for " not in found[0]
    return found[0]


@pytest.mark.parametrize(
    "change",
    [
        CHANGE,
        BRANCH,
        BRANCH.partition("\n            else")[0],
        "scores[row, token] -= 2.0",
        "scores[row, token] *= 1.0 / 3",
        "scores[row, token] = scores[row, token] * 2 + 1",
        "scores[row, token] = -1.0",
    ],
    ids=range(7),
)
def test_the_elements_that_are_named_change_once(change: str) -> None:
    text = PENALTY.replace(CHANGE, change)
    text = text.replace("return scores", "return scores * 1")
    assert_alike(text, rewritten(text), *given())


@pytest.mark.parametrize(
    "numbers",
    [
        "set(ids[row].cpu().tolist())",
        "sorted(set(ids[row].tolist()))",
        "set(ids[row][mask[row] > 0].tolist())",
        "set(ids[row][mask[row].bool()].tolist())",
    ],
)
def test_the_numbers_may_be_those_that_a_mask_chooses(numbers: str) -> None:
    text = PENALTY.replace(NUMBERS, numbers)
    assert_alike(text, rewritten(text), *given())


def test_the_numbers_may_have_a_name() -> None:
    text = PENALTY.replace(f"for token in {NUMBERS}", f"named = {NUMBERS}\n        for token in named")
    assert_alike(text, rewritten(text, "named = "), *given())


@pytest.mark.parametrize("cause", CAUSES, ids=lambda one: one.gb_type)
def test_each_of_torchs_words_for_the_break_will_do(cause: BreakCause) -> None:
    assert "scatter(1, ids, True)" in rewritten(PENALTY, cause=cause)


def test_a_branch_within_is_the_line_that_breaks() -> None:
    text = PENALTY.replace(CHANGE, BRANCH)
    assert rewritten(text, "if scores", JUMP) == rewritten(text)


def test_gradients_are_those_of_the_loop() -> None:
    text = PENALTY.replace("    for row", "    scores = scores.clone()\n    for row", 1)
    text = text.replace(CHANGE, "scores[row, token] = scores[row, token] * 1.5")
    scores, *rest = given()
    assert_alike(text, rewritten(text), scores.requires_grad_(), *rest)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CHANGE, f"{CHANGE}\n            print(token)"),
        (CHANGE, "scores[row, token] -= token"),
        (CHANGE, "scores[row, token] -= ids[row].sum()"),
        (CHANGE, "scores[row, token + 1] -= 2.0"),
        (CHANGE, "scores[token, row] -= 2.0"),
        (CHANGE, "scores[row, :token] -= 2.0"),
        (CHANGE, "print(scores[row, token])"),
        (NUMBERS, "set(ids[0].tolist())"),
        (NUMBERS, "set((ids[row] + 1).tolist())"),
        (NUMBERS, "set(ids[row][mask > 0].tolist())"),
        (NUMBERS, "range(int(ids[row].max()))"),
        ("for row in range(scores.shape[0])", "for row in range(0, scores.shape[0], 2)"),
        ("        for token", "        print(row)\n        for token"),
    ],
)
def test_a_loop_that_does_something_else_stays(old: str, new: str) -> None:
    text = PENALTY.replace(old, new)
    assert text != PENALTY
    assert others(PENALTY, ITEM, "for token")
    assert others(text, ITEM, "for token") == []


ROWS = """\
import torch


def f(scores, ids, mask):
    for row, named in enumerate(ids.tolist()):
        index = torch.tensor(sorted(set(named)))
        some = scores[row, index]
        scores[row, index] = torch.where(some < 0, some * 1.5, some / 1.5)
    return scores * 1
"""
ROW = """some = scores[row, index]
        scores[row, index] = torch.where(some < 0, some * 1.5, some / 1.5)"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ids", "ids"),
        ("set(named)", "named"),
        ("torch.tensor(sorted(set(named)))", "list(set(named))"),
        ("enumerate(ids.tolist())", "enumerate(ids)"),
        ("row, named in enumerate(ids.tolist())", "row in range(ids.shape[0])"),
        (ROW, "scores[row, index] -= 1.0"),
        (ROW, "scores[row, index] = scores[row, index] * 2"),
        (ROW, "scores[row, index] = -1.0"),
    ],
)
def test_what_is_written_at_once_for_a_row_is_for_all_rows(old: str, new: str) -> None:
    text = ROWS.replace(old, new)
    text = text if "named in" in text else text.replace("torch.tensor(sorted(set(named)))", "torch.unique(ids[row])")
    text = text.replace("sorted(set(named))", "named") if "enumerate(ids)" in text else text
    text = text.replace("torch.tensor(named)", "named") if "enumerate(ids)" in text else text
    containing = "index = " if "unique" in text or "enumerate(ids)" in text else "tolist"
    containing = "for row" if "enumerate(ids)" in text else containing
    assert_alike(text, rewritten(text, containing), *given())


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("some / 1.5)", "some / row)"),
        ("some / 1.5)", "some / index)"),
        ("return scores * 1", "return scores * index.sum()"),
        ("        some =", "        print(row)\n        some ="),
        ("scores[row, index] =", "scores[0, index] ="),
        ("some = scores[row, index]", "some = ids[row, index]"),
    ],
)
def test_what_is_written_otherwise_for_a_row_stays(old: str, new: str) -> None:
    text = ROWS.replace(old, new)
    assert text != ROWS
    assert others(ROWS, ITEM, "for row")
    assert others(text, ITEM, "for row") == []


def test_a_loop_without_rows_stays() -> None:
    text = PENALTY.replace("    for row in range(scores.shape[0]):\n        for token", "    for token")
    text = text.replace("ids[row]", "ids").replace("            scores[row, ", "        scores[0, ")
    compile(text, "tokens.py", "exec")
    assert others(PENALTY, ITEM, "for token")
    assert others(text, ITEM, "for token") == []
