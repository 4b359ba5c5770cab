"""Functions of Python's library in C, given to torch in Python: the same numbers, errors and no graph break."""

from __future__ import annotations

import bisect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import edited
from compiler_lens.facts.measured.substitutes import substituted
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/home/user/app/user_buckets.py"
TEXT = """\
import bisect
import torch


class Buckets(torch.nn.Module):
    limits = [2, 4, 4, 8]

    def forward(self, x, length):
        return x * bisect.bisect_left(self.limits, length)


if __name__ == "__main__":
    step = torch.compile(Buckets(), dynamic=False)
    for length in (1, 2, 4, 5, 9):
        step(torch.ones(2), length)
"""
RIGHT = TEXT.replace("bisect.bisect_left", "bisect.bisect")
BY_NAME = TEXT.replace("import bisect", "from bisect import bisect_left").replace("bisect.bisect_left", "bisect_left")


def better(text: str, function: str) -> str | None:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if "return" in line)
    at = SourceLine(FILE, number, "forward", text.split("\n")[number - 1].strip())
    context = f"module: _bisect, qualname: {function}, skip reason: cannot determine source file for _bisect"
    cause = BreakCause("Attempted to call function marked as skipped", context=context)
    lines = substituted(at, cause, Sources({FILE: text}))
    made = edited(lines, {FILE: text}, FILE) if lines else None
    return made[FILE] if made else None


@pytest.mark.parametrize(
    "text",
    [TEXT, pytest.param(RIGHT, marks=pytest.mark.long), pytest.param(BY_NAME, marks=pytest.mark.long)],
    ids=("left", "right", "by its own name"),
)
def test_no_break_is_left_and_results_are_the_same(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In processes of their own: torch keeps what it was given."""
    (tmp_path / "buckets.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["fix", "--own-inputs", "--json", "buckets.py"]) == 0
    found = json.loads(capsys.readouterr().out)
    best = found["best"]
    assert best, [(one["offer"][:40], one["results"], one["difference"], one["error"]) for one in found["tried"]]
    assert best["before"]["graph_breaks"] > best["after"]["graph_breaks"] == 0
    assert best["results"] == "equal"
    assert any(one.startswith("@torch.compiler.substitute_in_graph(") for one in best["offers"])


@pytest.mark.parametrize(("text", "name"), [(TEXT, "bisect_left"), (RIGHT, "bisect_right")])
def test_it_is_what_python_has(text: str, name: str) -> None:
    new = better(text, name)
    assert new is not None
    namespace: dict[str, Any] = {}
    # Torch keeps what it is given, for the whole process: not here.
    exec(compile(new.replace("@torch.compiler.substitute_in_graph", "#"), FILE, "exec"), namespace)
    ours: Callable[..., int] = namespace[f"_{name}_in_python"]
    theirs: Callable[..., int] = getattr(bisect, name)
    for items in ([], [1], [1, 1, 2, 3, 3, 3, 7]):
        for x in range(-1, 9):
            for bounds in ({}, {"lo": 1}, {"hi": 0}, {"key": lambda item: item * 2}):
                if bounds.get("lo", 0) <= len(items):
                    assert ours(items, x, **bounds) == theirs(items, x, **bounds)
    for function in (ours, theirs):
        with pytest.raises(ValueError, match="lo must be non-negative"):
            function([1], 1, -1)


NOT_OFFERED = {
    "another function": (TEXT.replace("bisect_left(self.limits", "insort(self.limits"), "insort"),
    "it has another name there": (TEXT.replace("bisect.bisect_left(", "self.search("), "bisect_left"),
    "it is not imported at the top": (TEXT.replace("import bisect\n", ""), "bisect_left"),
}


@pytest.mark.parametrize(("text", "function"), NOT_OFFERED.values(), ids=NOT_OFFERED)
def test_it_is_not_offered_for_another_call(text: str, function: str) -> None:
    assert better(text, function) is None
