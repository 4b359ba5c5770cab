"""The line that computes what a branch asks for: said only where torch's words leave no doubt."""

from __future__ import annotations

import pytest

from compiler_lens.facts.breaks.condition import computed_at
from compiler_lens.recording.model import SourceLine

FILE = "/home/user/app/model.py"
BRANCH = SourceLine(FILE, 93, "forward", "if torch.isnan(loss):")


def explained(*blocks: tuple[int, str], file: str = FILE) -> str:
    """Return what torch says: for each line what is computed there."""
    told = "\n\n".join(
        f'    # File "{file}", line {line}, in forward, code: of line {line}\n    {what}' for line, what in blocks
    )
    return f"Detected.\n\n  The branch condition involves a tensor computed as follows:\n{told}\n    "


@pytest.mark.parametrize(
    ("blocks", "line"),
    [
        # An input stands at the line that first named it, here `B, T = idx.shape`.
        ([(82, "l_idx_: graph input (L_idx_)"), (92, "loss = cross_entropy(a, b)"), (93, "isnan = isnan(loss)")], 92),
        ([(90, "gt = gt(largest, 1.0)")], 90),  # the condition itself is computed elsewhere
        ([(93, "gt = gt(sum_1, 0)")], None),  # of `sum_1` nothing is said: a method
        ([(82, "l_x_: graph input (L_x_)"), (93, "gt = gt(l_x_, 0)")], None),
        ([(90, "a = f(x)"), (91, "b = f(x)"), (93, "lt = lt(a, b)")], None),  # two lines
        ([(91, "a = f(x)"), (91, "b = f(x)"), (93, "lt = lt(a, b)")], 91),
        ([(90, "a = f(x)"), (93, "c = where(a, True, None, 'b c', torch.float32, slice(0, 1, None))")], 90),
        ([(90, "a = f(x)"), (93, "s = sin(a)"), (93, "gt = gt(s, 0)")], 90),
        ([(25, "random_value_0: graph input (random_value_0)"), (93, "gt = gt(random_value_0, 0)")], 25),
        ([], None),
    ],
)
def test_a_line_is_named_where_it_is_sure(blocks: list[tuple[int, str]], line: int | None) -> None:
    found = computed_at(explained(*blocks), BRANCH)
    assert (found and found.line) == line


def test_a_line_of_a_library_is_not_named() -> None:
    told = explained((90, "gt = gt(largest, 1.0)"), file="/venv/lib/python3.11/site-packages/lib/model.py")
    assert computed_at(told, BRANCH) is None
