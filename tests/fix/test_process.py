"""Runs of a program, side by side where they may: each in a process of its own, and none before it is wanted."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

import compiler_lens
from compiler_lens.measure.fix.plan import Outcome, Plan, Program
from compiler_lens.measure.fix.process import Limits, OutOfTime, Processes

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


GROUP = """\
    import torch.distributed as dist

    dist.init_process_group("gloo", rank=0, world_size=1, store=dist.HashStore())
    dist.destroy_process_group()
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


def test_a_run_that_is_late_beside_others_is_made_once_more_alone(runs: Runs) -> None:
    """It waits for the other one to have ended, which goes on until it is ended."""
    runs.write("""\
        import sys, time
        from pathlib import Path

        if Path(sys.argv[1]).exists() or sys.argv[1] == "endless":
            time.sleep(600)
        Path(sys.argv[1]).touch() if sys.argv[1] == "slow" else None
        """)
    (runs.folder / "slow").touch()
    processes = runs.processes
    processes.expect([runs.plan("endless")], 60)
    found: list[bool] = []
    plan = runs.plan("slow")

    def stop() -> None:
        (runs.folder / "slow").unlink()

    original = processes.expect

    def expect(plans: list[Plan], longest: float) -> None:
        found.append(not plans)
        stop()
        original(plans, longest)

    processes.expect = expect  # type: ignore[method-assign, assignment]
    try:
        ended = processes.run(plan, 5)
    finally:
        processes.expect = original  # type: ignore[method-assign]
    assert (ended.outcome.error, ended.is_late, found) == ("", False, [True])


def test_what_runs_have_started_ends_with_them(tmp_path: Path) -> None:
    """Also of a run that has begun before its turn, and that nobody came to."""
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, os.environ, Limits(120, jobs=2)) as opened:
        runs = Runs(tmp_path, opened)
        assert not runs.run("import torch").error
        runs.write("""\
            import subprocess, sys, time
            from pathlib import Path

            if sys.argv[1] == "first":
                while not Path("number").exists():
                    time.sleep(0.1)
            else:
                process = subprocess.Popen(["sleep", "600"])
                Path("new").write_text(str(process.pid))
                Path("new").rename("number")
                time.sleep(600)
            """)
        opened.expect([runs.plan("first"), runs.plan("second")], 60)
        assert not opened.run(runs.plan("first")).outcome.error
        number = int((tmp_path / "number").read_text())
        os.kill(number, 0)
    for _ in range(100):
        status = Path(f"/proc/{number}/stat")
        if not status.exists() or status.read_text().split()[2] == "Z":
            return
        time.sleep(0.1)
    pytest.fail(f"process {number} goes on")


@pytest.mark.parametrize(
    ("text", "is_met"),
    [
        ("import torch\ntorch.save([1], 'a.pt')\ntorch.load('a.pt')", True),
        ("open('a.json', 'w').write('1')\nopen('a.json').read()", True),
        ("open('a.json', 'w').write('1')\nimport os\nos.replace('a.json', 'b.json')", True),
        ("import socket\nsocket.socket().bind(('127.0.0.1', 0))", True),
        ("import torch\nopen('a.json', 'w').write('1')\nimport numpy\nnumpy.memmap('a.dat', mode='w+', shape=9)", True),
        ("import os\nos.mkdir('lock')\nos.rmdir('lock')", True),
        ("import subprocess\nsubprocess.run(['true'])", True),
        ("from multiprocessing.shared_memory import SharedMemory", True),
        (GROUP, True),
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


def test_what_is_half_done_when_most_of_the_time_is_over_goes_on_in_the_last_stretch(tmp_path: Path) -> None:
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, os.environ, Limits(120, within=900, jobs=2)) as processes:
        runs = Runs(tmp_path, processes)
        runs.write("""\
            import time
            from pathlib import Path

            with open("began", "a") as file:
                file.write("1")
            while not Path("go").exists():
                time.sleep(0.1)
            """)
        processes._end = time.monotonic() + 8  # of the first stretch
        with pytest.raises(OutOfTime):
            processes.run(runs.plan())
        assert (tmp_path / "began").read_text() == "1"
        processes.begin_last_stretch()
        (tmp_path / "go").touch()
        assert not processes.run(runs.plan()).outcome.error
        assert (tmp_path / "began").read_text() == "1"  # it was not begun once more
