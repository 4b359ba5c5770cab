"""Runs of a program, side by side where they may: each in a process of its own, and none before it is wanted."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import compiler_lens
from compiler_lens.measure.fix.plan import Outcome, Plan, Program
from compiler_lens.measure.fix.process import Limits, Processes

# Each waits for the other: one after the other they would never end.
WAITING = """\
    import sys, time
    from pathlib import Path

    own, other = sys.argv[1:]
    Path(own).touch()
    for _ in range(600):
        if Path(other).exists():
            break
        time.sleep(0.1)
    else:
        raise TimeoutError(other)
    """


@pytest.fixture(scope="module")
def side_by_side() -> Iterator[Processes]:
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, os.environ, Limits(120, jobs=2)) as opened:
        yield opened


class Runs:
    """Makes plans of a script, and runs them."""

    def __init__(self, folder: Path, processes: Processes) -> None:
        self.folder, self.processes, self.number = folder, processes, 0

    def plan(self, *args: str) -> Plan:
        self.number += 1
        return Plan(Program(str(self.folder / "program.py"), args), str(self.folder / f"run-{self.number}"))

    def write(self, text: str) -> None:
        text = f"import os\nos.chdir({str(self.folder)!r})\n{dedent(text)}"
        (self.folder / "program.py").write_text(text)

    def run(self, text: str) -> Outcome:
        self.write(text)
        return self.processes.run(self.plan()).outcome


@pytest.fixture
def runs(tmp_path: Path, side_by_side: Processes) -> Runs:
    made = Runs(tmp_path, side_by_side)
    assert not made.run("import torch").error  # by which is known what memory a run takes
    return made


def test_runs_that_are_expected_begin_before_their_turn(runs: Runs) -> None:
    runs.write(WAITING)
    processes = runs.processes
    processes.expect([runs.plan("a", "b"), runs.plan("b", "a")], 60)
    assert [processes.run(runs.plan(*names)).outcome.error for names in ("ab", "ba")] == ["", ""]


def test_a_run_that_nobody_wants_any_more_is_ended(runs: Runs) -> None:
    runs.write(WAITING)
    (runs.folder / "b").touch()
    processes = runs.processes
    processes.expect([runs.plan("a", "b"), runs.plan("c", "never")], 60)
    assert not processes.run(runs.plan("a", "b")).outcome.error
    (begun,) = processes._begun
    os.kill(begun.process, 0)  # it runs
    processes.expect([], 60)
    with pytest.raises(ProcessLookupError):
        os.kill(begun.process, 0)
    assert not runs.run("import torch").error


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("import torch\ntorch.save([1], 'a.pt')\ntorch.load('a.pt')", True),
        ("open('a.json', 'w').write('1')\nopen('a.json').read()", True),
        ("open('a.json', 'w').write('1')\nimport os\nos.replace('a.json', 'b.json')", True),
        ("import socket\nsocket.socket().bind(('127.0.0.1', 0))", True),
        ("import torch\ntorch.save([1], 'a.pt')\nopen('a.json', 'w').write('1')", False),
        ("from pathlib import Path\nPath('program.py').read_text()\nprint(1)", False),
    ],
)
def test_what_another_run_would_meet_is_noticed(runs: Runs, text: str, is_met: bool) -> None:
    found = runs.run(text)
    assert (found.error, found.is_met) == ("", is_met)


def test_one_at_a_time_nothing_begins_before_its_turn() -> None:
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, os.environ, Limits(120, jobs=2)) as processes:
        processes.one_at_a_time()
        processes.expect([Plan(Program("program.py"), "nowhere")], 60)
        assert not processes._expected
