"""A power of a number that changes with each call: compiled once with an operator, each time with Python's `math`."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.edits import edited
from compiler_lens.facts.measured.powers import by_operator, pinned_at
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.source_text import Sources

TEXT = """\
import math

import torch

class Average:
    def __init__(self):
        self.state = {"step": 0, "mean": torch.zeros(3)}

    def update(self, x):
        state = self.state
        state["step"] += 1
        decay = 1.0 - math.pow(state["step"], -0.8)
        state["mean"].mul_(decay).add_(x * (1.0 - decay))
        return state["mean"] * 2


update = torch.compile(Average().update, backend="aot_eager")
"""
POWER = 'math.pow(state["step"], -0.8)'


def ran(text: str, folder: Path) -> tuple[Lens, list[torch.Tensor]]:
    file = folder / "powers.py"
    file.write_text(text)
    linecache.checkcache(str(file))
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = ModuleType("powers")
    exec(compile(text, str(file), "exec"), module.__dict__)
    update: Any = module.__dict__["update"]
    with Lens(strict=True) as lens:
        return lens, [update(torch.randn(3)).clone() for _ in range(6)]


def changed(text: str, folder: Path) -> str | None:
    """The text with what is offered for the recompiles that it has."""
    recording = ran(text, folder)[0].recording
    file = str(folder / "powers.py")
    known, own = Sources({file: text}), Ownership((str(folder),))
    causes = [cause for report in explain(recording).recompiles for cause in report.causes]
    assert causes, "nothing was compiled again: the test proves nothing"
    found = [lines for cause in causes for lines in by_operator(cause, pinned_at(recording), known, own)]
    texts = edited(found[0], {file: text}, file) if found else None
    return texts[file] if texts else None


@pytest.mark.parametrize(
    ("power", "new"),
    [
        (POWER, 'state["step"] ** (-0.8)'),
        ('2 * math.pow(state["step"] + 1, -0.8)', '2 * ((state["step"] + 1) ** (-0.8))'),
        ('math.exp(-state["step"] / 5)', 'math.e ** (-state["step"] / 5)'),
    ],
)
def test_an_operator_compiles_once_for_all_numbers(power: str, new: str, tmp_path: Path) -> None:
    text = TEXT.replace(POWER, power)
    better = changed(text, tmp_path)
    assert better is not None
    assert new in better
    before, results = ran(text, tmp_path)
    after, others = ran(better, tmp_path)
    torch.testing.assert_close(others, results)
    assert len(after.recording.recompiles) <= 1 < len(before.recording.recompiles)


def test_a_number_that_another_line_needs_has_no_such_power(tmp_path: Path) -> None:
    text = TEXT.replace(POWER, '1.0 / len("x" * state["step"])')
    assert changed(text, tmp_path) is None
