"""What depends on how many rows a condition picks is not hidden in an operator's fake, nor left to a single row."""

import ast

import pytest

from compiler_lens.facts.breaks.rewrites import allows, effects

ROWS = "torch._dynamo.config.capture_dynamic_output_shape_ops"


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("kept = x[mask].squeeze()\n", False),
        ("kept = torch.squeeze(x[mask])\n", False),
        ("kept = x[mask].squeeze(-1)\n", True),
        ("kept = torch.squeeze(x[mask], 0)\n", True),
    ],
)
def test_rows_of_an_unknown_number_are_not_left_to_a_squeeze_of_all(text: str, *, is_allowed: bool) -> None:
    assert allows(text, ROWS) is is_allowed
    assert allows(text, "torch._dynamo.config.capture_scalar_outputs")


@pytest.mark.parametrize(
    ("body", "selects"),
    [
        ("good = x > 0\n    return x[good]", True),
        ("good = x.isfinite() & (x > 0)\n    return x[~good]", True),
        ("return x[x > 0]", True),
        ("return x[k]", False),
        ("x[x < 0] = 0\n    return x", False),
    ],
)
def test_a_function_that_picks_rows_by_a_condition_has_sizes_of_values(body: str, *, selects: bool) -> None:
    (function,) = ast.parse(f"def pick(x, k):\n    {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert effects.selects(function) is selects


@pytest.mark.parametrize(
    ("body", "depends"),
    [
        (
            "keep = []\n    for i in k:\n        if x[i]:\n            continue\n        keep.append(i)\n    return keep",
            True,
        ),
        ("keep = []\n    while len(keep) < k:\n        keep.append(x)\n    return keep", True),
        ("rows = []\n    for row in x:\n        rows.append(row * 2)\n    return rows", False),
        ("for row in x:\n        if row:\n            k += 1\n    return k", False),
    ],
)
def test_a_list_that_a_test_passes_over_is_as_long_as_values_say(body: str, *, depends: bool) -> None:
    (function,) = ast.parse(f"def pick(x, k):\n    {body}\n").body
    assert isinstance(function, ast.FunctionDef)
    assert effects.collects_some(function) is depends
