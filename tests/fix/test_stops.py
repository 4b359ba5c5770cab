"""Loops that a tensor ends early: all rounds, of which those after the end change nothing."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.breaks.remedies import OfBothSides
from compiler_lens.facts.breaks.rewrites import alternatives
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import applied
from tests.fix.rewritten import FILE, JUMP, assert_alike, others

NEWTON = """\
import torch


def f(x, limit):
    rounds = 0
    y = x.abs() + 1
    for number in range(8):
        step = (y * y - x.abs()) / (2 * y)
        y = y - step
        if step.abs().max() < limit:
            break
        rounds += 1
    return y, rounds + y.sum() * 0
"""
ACCEPTED = """\
import torch


def f(x, limit):
    n, going_on = 0, True
    total, factor = torch.zeros(()), 1.0
    for i in range(x.shape[0]):
        total, factor = total + factor * x[i], factor * 0.5
        if x[i] > limit:
            going_on = False
            break
        n += 1
    return total, n + total * 0, going_on + total * 0
"""
PADDED = """\
import torch


def f(x, mask):
    for i in range(x.shape[0]):
        if not mask[i].any():
            break
        x = torch.where(mask, x + 1, x)
    return x
"""


def rewritten(text: str, containing: str = "if ") -> str:
    """The text with a mask in place of the break."""
    found = [one for one in others(text, JUMP, containing) if "going = " in one]
    assert len(found) == 1
    assert "break" not in found[0]
    return found[0]


@pytest.mark.parametrize("text", [NEWTON, ACCEPTED])
@pytest.mark.parametrize("limit", [0.0, 0.3, 2.0, 1e9])
def test_rounds_after_the_end_change_nothing(text: str, limit: float) -> None:
    x = torch.tensor([0.1, 0.2, 1.5, 0.4], requires_grad=True)
    assert_alike(text, rewritten(text), x, torch.tensor(limit))


def test_values_that_go_on_together_are_computed_of_what_they_were() -> None:
    """`a, b = b, a + b` changes both at once."""
    text = ACCEPTED.replace("total + factor * x[i], factor * 0.5", "factor * x[i], total + x[i]")
    text = text.replace("factor = torch.zeros(()), 1.0", "factor = torch.zeros(()), torch.ones(())")
    for limit in (0.0, 0.3, 9.0):
        assert_alike(text, rewritten(text), torch.tensor([0.1, 0.2, 1.5, 0.4]), torch.tensor(limit))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("y = y - step", "y = y - step; print(number)"),
        ("y = y - step", "y.sub_(step)"),
        ("        rounds += 1", "        rounds += 1\n    else:\n        y = -y"),
        ("        rounds += 1", "        if number > 3:\n            rounds += 1"),
        ("        rounds += 1", "        x += 1"),
        ("            break", "            return y, y.sum()"),
        ("            break", "            y.append(1)\n            break"),
    ],
)
def test_more_than_what_names_are_given_is_not_known(old: str, new: str) -> None:
    assert old in NEWTON
    assert not [one for one in others(NEWTON.replace(old, new), JUMP, "if step") if "going = " in one]


COUNTED = BreakCause("Data-dependent branching", context="attempted to jump with SymNodeVariable()")
CHOSEN = """\
import torch


def f(x, m):
    for i in range(2):
        rows = x[m[i]]
        if rows.shape[0] == 0:
            continue
        x = x + rows.sum()
    return x
"""


@pytest.mark.parametrize(
    "test", ["rows.shape[0] == 0", "rows.numel() < 1", "not len(rows)", "not rows.shape[0]", "len(rows) <= 0"]
)
def test_compiled_code_goes_on_with_no_rows(test: str) -> None:
    text = CHOSEN.replace("rows.shape[0] == 0", test)
    line = next(n for n, one in enumerate(text.split("\n"), 1) if "if " in one)
    at = SourceLine(FILE, line, "f", text.split("\n")[line - 1].strip())
    (found,) = alternatives(COUNTED, Sources({FILE: text}), at)
    assert isinstance(found, OfBothSides)
    assert found.after[0].startswith("if not torch.compiler.is_compiling() and")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        given = torch.arange(3.0), torch.tensor([[True, False, True], [False, False, False]])
        assert_alike(text, applied(text, found), *given)


ROUTED = """\
import torch


def f(x, m, out):
    for i in range(2):
        slot, rows = torch.where(m[i])
        if rows.shape[0] == 0:
            continue
        made = x[rows] * 2
        out.index_add_(0, rows, made)
    return out * 1
"""


@pytest.mark.parametrize("test", ["rows.shape[0] == 0", "rows.numel() == 0", "len(rows) < 1"])
def test_a_guard_of_rows_that_are_only_written_is_left_out(test: str) -> None:
    text = ROUTED.replace("rows.shape[0] == 0", test)
    (new,) = others(text, COUNTED, "    if ")
    assert "if " not in new
    given = torch.arange(6.0).view(3, 2), torch.tensor([[[True, False, True]], [[False] * 3]]), torch.ones(3, 2)
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        assert_alike(text, new, *given)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("made = x[rows] * 2", "made = x[rows].max(0)[0] * 2"),
        ("out.index_add_(0, rows, made)", "out.add_(made.sum())"),
        ("out.index_add_(0, rows, made)", "out.index_add_(0, rows, made)\n        print(made)"),
        ("return out * 1", "return out * made.sum()"),
    ],
)
def test_a_guard_before_something_else_stays(old: str, new: str) -> None:
    text = ROUTED.replace(old, new)
    assert text != ROUTED
    assert others(text, COUNTED, "    if ") == []


def test_a_test_of_some_rows_is_none_of_no_rows() -> None:
    text = CHOSEN.replace("rows.shape[0] == 0", "rows.shape[0] == 2")
    line = next(n for n, one in enumerate(text.split("\n"), 1) if "if " in one)
    at = SourceLine(FILE, line, "f", text.split("\n")[line - 1].strip())
    assert list(alternatives(COUNTED, Sources({FILE: text}), at)) == []


SHORTCUT = """\
import torch


def f(x, m):
    if m.all():
        return x
    y = torch.where(m, x, x * 1)
    print(y)
    return y
"""


@pytest.mark.parametrize(
    ("early", "test", "is_short"),
    [
        ("x", "m.all()", True),
        ("None", "m.all()", True),
        ("x, None", "m.sum() == 4", True),
        ("x.exp()", "m.all()", True),  # of a mask that is true everywhere it may be what follows gives
        ("x.exp()", "m.sum() == 4", False),
        ("x.exp_()", "m.all()", False),
    ],
)
def test_a_shortcut_is_left_to_eager(early: str, test: str, is_short: bool) -> None:
    text = SHORTCUT.replace("return x\n", f"return {early}\n").replace("m.all()", test)
    at = SourceLine(FILE, 5, "f", f"if {test}:")
    found = [one for one in alternatives(JUMP, Sources({FILE: text}), at) if isinstance(one, OfBothSides)]
    assert bool(found) == is_short
    if found:
        asked = f"({test})" if "=" in test else test
        assert found[0].after[0] == f"if not torch.compiler.is_compiling() and {asked}:"


LONGER = """import torch


def f(x, m):
    y, mask = x * 1, None
    if not m.all():
        mask = m[None]
        mask = mask | ~mask.any(-1, keepdim=True)
    return y if mask is None else torch.where(mask, y, y * 1)
"""


@pytest.mark.parametrize(
    ("old", "new", "written"),
    [
        ("", "", "if torch.compiler.is_compiling() or (not m.all()):"),
        ("not m.all()", "m.any()", "if torch.compiler.is_compiling() or m.any():"),
        ("not m.all()", "m.sum() > 2", ""),  # nothing says that both ways may be the same
        ("mask = m[None]", "mask = m[None]; print(mask)", ""),
        ("mask = m[None]", "mask[0] = m", ""),
        ("    if not m.all():\n        mask = m[None]\n        mask = mask | ~mask.any(-1, keepdim=True)",
         "    if m is not None and m.all():\n        m = None",
         "if not torch.compiler.is_compiling() and m is not None and m.all():"),
        ("    if not m.all():\n        mask = m[None]\n        mask = mask | ~mask.any(-1, keepdim=True)",
         "    if m.sum() > 2:\n        m = None", ""),
    ],
)  # fmt: skip
def test_a_mask_that_is_true_everywhere_may_go_the_longer_way(old: str, new: str, written: str) -> None:
    """A trial has to see both; a tensor and None are no two values to choose from."""
    assert old in LONGER
    text = LONGER.replace(old, new)
    line = next(n for n, one in enumerate(text.split("\n"), 1) if "    if " in one)
    at = SourceLine(FILE, line, "f", text.split("\n")[line - 1].strip())
    found = list(alternatives(JUMP, Sources({FILE: text}), at))
    assert [one.after[0] for one in found if isinstance(one, OfBothSides)] == ([written] if written else [])
    assert not any("torch.where(" in line for one in found for line in one.after)


PICKED = """import torch


def f(x, index, most):
    if x.max() > most:
        keep = x < most
        x, index = x[keep], index[keep]
    return x, index
"""


@pytest.mark.parametrize(
    ("old", "new", "is_picked"),
    [
        ("", "", True),
        ("x[keep], index[keep]", "x[keep], index[: len(x)]", False),
        ("x, index = x[keep], index[keep]", "x = index[keep]", False),
        ("keep = x < most", "keep = choose(x)", False),  # that may be anything
        ("keep = x < most", "x.add_(1); keep = x < most", False),
    ],
)
def test_rows_that_a_mask_may_drop_are_always_picked(old: str, new: str, is_picked: bool) -> None:
    assert old in PICKED
    text = PICKED.replace(old, new)
    at = SourceLine(FILE, 5, "f", "if x.max() > most:")
    found = [one for one in alternatives(JUMP, Sources({FILE: text}), at) if isinstance(one, OfBothSides)]
    assert [one.after[0] for one in found] == ["if torch.compiler.is_compiling() or (x.max() > most):"] * is_picked


@pytest.mark.parametrize("ends", ["break", "continue"])
def test_compiled_code_goes_on_where_nothing_is_left_to_change(ends: str) -> None:
    """That is for a trial to judge that sees both sides."""
    text = PADDED.replace("break", ends)
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "if not" in line)
    found = list(alternatives(JUMP, Sources({FILE: text}), SourceLine(FILE, number, "f", "if not mask[i].any():")))
    assert any(
        isinstance(one, OfBothSides) and one.after[0].startswith("if not torch.compiler.is_compiling() and (not mask")
        for one in found
    )
