"""A function round others whose own frame Dynamo cannot trace: marked so that what it calls is compiled by itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compiler_lens import load
from compiler_lens.cli import main
from compiler_lens.facts.measured.wrappers import computed_lines, kept_out
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

ROOT = Path(__file__).parents[2]
MARK = "@torch.compiler.disable(recursive=False)"
PROGRAM = """
    import functools

    import torch
    from torch import nn

    NAMES = []


    def logged(function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with open(__file__) as file:
                result = function(*args, **kwargs)
                NAMES.append(file.name)
            return result

        return wrapper


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        @logged
        def inner(self, x):
            return self.layer(x).relu() * 2

        def forward(self, x):
            x = x + 1
            return self.inner(x).sum()


    net = torch.compile(Net(), backend="eager")
    for _ in range(3):
        net(torch.randn(5, 4)).backward()
    assert len(NAMES) == 3
"""


def written(folder: Path, text: str = PROGRAM) -> Path:
    file = folder / "train.py"
    file.write_text(dedent(text).lstrip())
    return file


def fixed(capsys: pytest.CaptureFixture[str], *args: str) -> Any:
    assert main(["fix", "--own-inputs", "--json", *args]) == 0
    return json.loads(capsys.readouterr().out)


def lines_in_graphs(folder: Path) -> frozenset[str]:
    """What a run of the program computes in graphs, with the backend that it has."""
    recording = folder / "run.clens"
    recording.unlink(missing_ok=True)
    command = [sys.executable, "-m", "compiler_lens", "run", "-o", str(recording), "train.py"]
    subprocess.run(command, check=True, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=folder, capture_output=True)
    return frozenset(line.code.strip() for line in computed_lines(load(recording), Ownership()))


@pytest.mark.long
def test_a_wrapper_is_kept_out_and_what_it_wraps_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(tmp_path)
    monkeypatch.chdir(tmp_path)
    before = lines_in_graphs(tmp_path)
    assert "return self.layer(x).relu() * 2" in before
    capsys.readouterr()
    best = fixed(capsys, "--apply", "train.py")["best"]
    assert best["results"] == "equal"
    assert best["offers"] == [f"{MARK}\ndef wrapper(*args, **kwargs):"]
    assert (best["before"]["graph_breaks"], best["after"]["graph_breaks"]) == (3, 1)
    assert f"    @functools.wraps(function)\n    {MARK}\n    def wrapper" in file.read_text()
    assert lines_in_graphs(tmp_path) == before
    # Kept out with all that it calls, as without the word, the layer would run eagerly.
    file.write_text(file.read_text().replace("(recursive=False)", ""))
    assert "return self.layer(x).relu() * 2" not in lines_in_graphs(tmp_path)


def test_a_wrapper_that_computes_in_a_graph_is_not_kept_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its breaks split it, so what stands between and after them is in graphs, and would not be any more."""
    text = PROGRAM.replace("with open(__file__) as file:", "if file := open(__file__):")
    written(tmp_path, text.replace("            return result", "            return result * 3"))
    monkeypatch.chdir(tmp_path)
    found = fixed(capsys, "train.py")
    assert any(one["kind"] == "graph-break" for one in found["findings"])
    assert MARK not in str(found)


TEXT = """\
import contextlib
import functools

import torch


def given(function):
    @functools.wraps(function)
    def wrapper(x):
        open("a")
        return function(x)
    return wrapper


def named(x):
    open("a")
    return inner(x)


def alone(x):
    open("a")
    return len(x)


@contextlib.contextmanager
def managed(x):
    open("a")
    yield inner(x)


def steps(x):
    open("a")
    yield inner(x)


@torch.no_grad()
def marked(x):
    open("a")
    return inner(x)
"""


@pytest.mark.parametrize(
    ("name", "is_offered"),
    [("wrapper", True), ("named", True), ("alone", False), ("managed", False), ("steps", False), ("marked", False)],
)
def test_only_what_leads_to_a_graph_is_kept_out_and_no_generator(name: str, is_offered: bool) -> None:
    lines = TEXT.split("\n")
    line = next(number for number, text in enumerate(lines, 1) if f"def {name}(" in text) + 1
    at, inner = SourceLine("user.py", line, name, lines[line - 1].strip()), SourceLine("other.py", 3, "inner", "x * 2")
    found = kept_out(at, Sources({"user.py": TEXT}), frozenset((inner,)))
    assert (found is not None) is is_offered
    itself = SourceLine("user.py", line + 1, name, "x * 2")
    assert kept_out(at, Sources({"user.py": TEXT}), frozenset((inner, itself))) is None
    assert kept_out(at, Sources({"user.py": TEXT}), frozenset()) is None
