"""Rows that are left over and filled up: an index of tuples of tensors, and copies of a row, so many as are missing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.breaks.rewrites import rewrite
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/app/padded.py"
TEXT = """\
import torch


def pad(rows, length, fill):
    missing = length - rows.shape[0]
    if missing > 0:
        rows = torch.cat([rows, torch.stack([fill] * missing).to(rows)], dim=0)
    return rows[:length]


def f(x, places):
    left = torch.ones(x.shape[:2], dtype=torch.bool)
    rows, columns = zip(*places)
    left[rows, columns] = False
    return torch.stack([pad(x[i][left[i]], 8, torch.zeros_like(x[0, 0])) for i in range(len(left))])


if __name__ == "__main__":
    step = torch.compile(f)
    for n in (1, 2):
        step(torch.ones(2, 6, 3) * n, torch.tensor([[0, 1], [1, 2], [1, n]]))
"""
ONE = "FakeTensor(..., size=(), dtype=torch.int64)"
INDEX = BreakCause(
    "RuntimeError when making fake tensor call",
    explanation="Dynamo failed to run FX node with fake tensors: call_function <built-in function setitem>"
    f"(*(FakeTensor(..., size=(2, 6), dtype=torch.bool), (({ONE}, {ONE}), ({ONE}, {ONE})), False), **{{}})",
)
SIZE = BreakCause(
    "UserError: Consider annotating your code using torch._check*(). Could not extract specialized integer from"
    " data-dependent expression u0 (unhinted: u0)"
)


def suggested(text: str, cause: BreakCause, containing: str) -> str:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if containing in line)
    at = SourceLine(FILE, number, "f", text.split("\n")[number - 1].strip())
    found = rewrite(cause, Sources({FILE: text}), at)
    return found.after[0] if found else ""


def test_tuples_of_tensors_become_tensors() -> None:
    assert suggested(TEXT, INDEX, "= False") == "left[torch.stack(rows), torch.stack(columns)] = False"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("zip(*places)", "places"),
        ("zip(*places)", "zip(*places, strict=True)"),
        ("    left[rows", "    rows = columns = 1\n    left[rows"),
        ("left[rows, columns] = False", "left[rows, columns] = left[columns, rows]"),
    ],
)
def test_any_other_index_is_left_alone(old: str, new: str) -> None:
    assert not suggested(TEXT.replace(old, new), INDEX, "left[rows")


def test_elements_with_dimensions_are_left_alone() -> None:
    several = BreakCause(INDEX.gb_type, explanation=INDEX.explanation.replace("size=()", "size=(3,)"))
    assert not suggested(TEXT, several, "= False")


def test_copies_are_made_by_repeat() -> None:
    assert "fill.repeat(missing, *[1] * fill.dim()).to(rows)" in suggested(TEXT, SIZE, "stack([fill]")
    assert not suggested(TEXT.replace("[fill] * missing", "[fill, fill] * missing"), SIZE, "torch.stack([fill")
    assert not suggested(TEXT.replace("[fill] * missing", "[fill] * missing, 1"), SIZE, "torch.stack([fill")


@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_the_copies_are_the_same_and_so_are_gradients(shape: tuple[int, ...]) -> None:
    results = []
    for line in ("torch.stack([x] * 4)", "x.repeat(4, *[1] * x.dim())"):
        x = torch.arange(1.0, 1.0 + torch.Size(shape).numel()).reshape(shape).requires_grad_()
        y = eval(line)
        y.cumsum(0).square().sum().backward()
        results.append((y, x.grad))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


@pytest.mark.long
def test_no_break_is_left_and_results_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "padded.py").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--own-inputs", "--json", "padded.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    after = best["after"]
    assert (best["results"], *(after[n] for n in ("graph_breaks", "recompiles", "eager_functions"))) == (
        "equal",
        0,
        0,
        0,
    )
