"""Two ways to compute the same, of which compiled code takes one."""

from __future__ import annotations

import pytest
import torch

from compiler_lens.facts.breaks.remedies import OfBothSides
from compiler_lens.facts.breaks.rewrites import alternatives
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources
from tests.alike import applied
from tests.fix.rewritten import FILE, JUMP, assert_alike

TEXT = """\
import torch

def f(x, weight):
    out = torch.zeros(2, 3)
    if is_large(x, 3):
        parts = torch.bmm(x[:, None], weight[None].expand(len(x), 3, 3))
        out = out + parts.squeeze(1)
    else:
        for i in range(3):
            row = weight[i].reshape(1, 3).clone()
            out = out + x[:, i].unsqueeze(1) @ row
    return out.relu()

def is_large(x, most):
    return bool(x.sum() > most)
"""


def ways(text: str) -> list[str]:
    number, line = next((n, one) for n, one in enumerate(text.split("\n"), 1) if "if is_large(" in one)
    found = alternatives(JUMP, Sources({FILE: text}), SourceLine(FILE, number, "f", line.strip()))
    return [applied(text, one) for one in found if isinstance(one, OfBothSides) and "takes the" in one.needs]


def test_compiled_code_takes_one_of_two_ways_and_a_trial_has_to_see_both() -> None:
    first, second = ways(TEXT)
    assert "if torch.compiler.is_compiling() or is_large(x, 3):" in first
    assert "if not torch.compiler.is_compiling() and is_large(x, 3):" in second
    for text in (first, second):
        for scale in (-1.0, 9.0):
            assert_alike(TEXT, text, torch.ones(2, 3) * scale, torch.randn(3, 3))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        out = out + parts.squeeze(1)\n", "        out = out + parts.squeeze(1)\n        print(out)\n"),
        ("        out = out + parts.squeeze(1)\n", "        return out + parts.squeeze(1)\n"),
        ("        out = out + parts.squeeze(1)\n", "        out.add_(parts.squeeze(1))\n"),
        ("        out = out + parts.squeeze(1)\n", "        out[0] = parts.squeeze(1)\n"),
        ("return out.relu()", "return out.relu() + row"),
        ("            out = out + x[:, i]", "            other = x[:, i]"),
        ("    else:", "    elif x is not None:"),
        ("    else:\n", "    out = out + 1\n    if x is None:\n"),
    ],
)
def test_what_may_do_something_else_is_left(old: str, new: str) -> None:
    assert old in TEXT
    assert not ways(TEXT.replace(old, new))
