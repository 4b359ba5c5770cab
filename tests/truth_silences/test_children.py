"""Processes that a program starts are not recorded, and the first screen says so."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from compiler_lens import Lens, load
from compiler_lens.capture.session import Session
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal_reader import parse_journal


def double(x: Tensor) -> Tensor:
    return x * 2


def triple(x: Tensor) -> Tensor:
    return x * 3


def child() -> None:
    torch.compile(triple, backend="eager")(torch.ones(3))


class Doubled(Dataset[Tensor]):
    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> Tensor:
        return torch.ones(3) * index


def _fork() -> None:
    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join()
    assert process.exitcode == 0


def _bare_fork() -> None:
    """As a program does that knows no multiprocessing; what the fork raised is its exit status."""
    if (process := os.fork()) == 0:
        status = 1
        try:
            child()
            status = 0
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def _fork_that_compiles_in_a_thread() -> None:
    if (process := os.fork()) == 0:
        thread = threading.Thread(target=child)
        thread.start()
        thread.join(60)
        os._exit(thread.is_alive())
    assert os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) == 0


def _fork_of_a_thread() -> None:
    thread = threading.Thread(target=_bare_fork)
    thread.start()
    thread.join()


def _fork_that_forks() -> None:
    process = multiprocessing.get_context("fork").Process(target=_fork)
    process.start()
    process.join()
    assert process.exitcode == 0


def _load() -> None:
    assert len(list(DataLoader(Doubled(), num_workers=1, batch_size=1))) == 2


def _spawn() -> None:
    process = multiprocessing.get_context("spawn").Process(target=int)
    process.start()
    process.join()


def _recorded(start: Callable[[], None] | None) -> Lens:
    with Lens(strict=True) as lens:
        torch.compile(double, backend="eager")(torch.ones(3))
        if start:
            start()
    return lens


def _of_a_process(start: Callable[[], None]) -> str:
    """Return what a process of its own shows: this one has threads, and locks of torch's, that a fork inherits."""
    code = f"import test_children as t; print(t._recorded(t.{start.__name__}).report(color=False, width=120))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    ran = subprocess.run(
        [sys.executable, "-c", code],
        env=environment, capture_output=True, encoding="utf-8", check=False, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return " ".join(ran.stdout.split())


WORDS = {
    _fork: "processes that this one started have compiled, too, and are not recorded: test_children.py:",
    _bare_fork: "processes that this one started have compiled, too, and are not recorded: test_children.py:",
    _fork_that_compiles_in_a_thread: "processes that this one started have compiled, too",
    _fork_of_a_thread: "processes that this one started have compiled, too",
    _spawn: "processes that this one started are not recorded, and may compile, too: test_children.py:",
}
RARER = (_bare_fork, _fork_that_compiles_in_a_thread, _fork_of_a_thread)


@pytest.mark.parametrize("start", [_fork, *(pytest.param(one, marks=pytest.mark.long) for one in (_spawn, *RARER))])
def test_processes_that_are_not_recorded_are_said_to_be(start: Callable[[], None]) -> None:
    shown = _of_a_process(start)
    assert WORDS[start] in shown
    assert "Nothing to fix" not in shown
    assert "there is: processes that are not recorded (test_children.py:" in shown


@pytest.mark.parametrize("start", [_load, None])
def test_forks_that_compile_nothing_are_no_matter(start: Callable[[], None] | None) -> None:
    lens = _recorded(start)
    assert [child.compiled for child in lens.recording.children] == ([False] if start else [])
    shown = " ".join(lens.report(color=False, width=120).split())
    assert "processes" not in shown
    assert "Nothing to fix: no graph breaks, no recompiles in what came to the compiler." in shown


def test_of_two_lines_that_fork_each_has_its_own() -> None:
    def both() -> None:
        _load()
        _fork()

    first, second = _recorded(both).recording.children
    assert (first.compiled, second.compiled) == (False, True)


def test_what_a_fork_forks_is_of_the_line_that_forked_it() -> None:
    def both() -> None:
        _fork_that_forks()
        _load()

    first, second = _recorded(both).recording.children
    assert (first.compiled, second.compiled) == (True, False)


def test_asking_for_the_recording_tells_a_line_that_forks_no_more_often() -> None:
    with Lens(strict=True) as lens:
        _load()
        for _ in range(3):
            assert len(lens.recording.children) == 1
    events, _ = parse_journal(lens._session.journal.contents(), "r")
    told = [event.meta.get("compiled") for event in events if event.name == "lens.child"]
    assert told == [None, False]


def test_two_threads_that_fork_at_once_have_a_place_each() -> None:
    """The second says where it forks between what the first says and its fork."""
    session = Session(None, strict=True, overwrite=False, listener=None)
    session.begin_fork(("a.py", 1))
    thread = threading.Thread(target=session.begin_fork, args=(("b.py", 2),))
    thread.start()
    thread.join()
    if (process := os.fork()) == 0:
        session.take(Event("lens.frame_start", time.time()))
        os._exit(0)
    os.waitpid(process, 0)
    session.tell_forks()
    events, _ = parse_journal(session.journal.contents(), "r")
    session.close()
    told = {event.meta["file"]: event.meta["compiled"] for event in events if event.name == "lens.child"}
    assert told == {"a.py": True, "b.py": False}


@pytest.mark.long
def test_a_fork_without_a_lens_is_no_matter_of_ours() -> None:
    """The function that hears of forks stays when the last lens is closed; one is there however many there were."""
    whole = """
import os
found = []
register = os.register_at_fork
os.register_at_fork = lambda **given: (found.append(given.get("before")), register(**given))[1]
import torch
from compiler_lens import Lens, load
before = len(found)
for _ in range(3):
    with Lens(strict=True) as lens:
        torch.compile(torch.sin, backend="eager")(torch.ones(3))
ours = [one for one in found if str(getattr(one, "__module__", "")).startswith("compiler_lens")]
assert len(ours) == 1, found
assert ours[0]() is None
if os.fork() == 0:
    torch.compile(torch.cos, backend="eager")(torch.ones(3))
    print("child")
    raise SystemExit(0)
os.wait()
assert lens.recording.children == ()
print("parent")
"""
    ran = subprocess.run([sys.executable, "-c", whole], capture_output=True, encoding="utf-8", check=False, timeout=300)
    assert (ran.returncode, ran.stdout.split(), ran.stderr) == (0, ["child", "parent"], "")


def test_a_fork_that_ends_as_python_does_leaves_the_recording_to_its_parent(tmp_path: Path) -> None:
    program = """
import os, sys, torch
from compiler_lens import Lens, load
with Lens(sys.argv[1], progress=False, strict=True) as lens:
    compiled = torch.compile(torch.sin, backend="eager")
    compiled(torch.ones(3))
    if os.fork() == 0:
        torch.compile(torch.cos, backend="eager")(torch.ones(3))
        sys.exit(7)
    _, status = os.wait()
    assert os.waitstatus_to_exitcode(status) == 7
"""
    path = tmp_path / "run.clens"
    ran = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, check=False, timeout=300)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, b"", b"")
    found = load(path)
    assert not found.problems
    assert [child.compiled for child in found.children] == [True]


def test_what_only_a_child_calls_is_not_told_to_be_called() -> None:
    with Lens(strict=True) as lens:
        compiled = torch.compile(triple, backend="eager")
        _spawn()
    shown = " ".join(lens.report(color=False, width=200).split())
    assert "no call of what that made entered the compiler in this process. Processes that it started (" in shown
    assert "may have called it, and are not recorded. Record in the process that calls it" in shown
    assert "Call what torch.compile returned" not in shown
    assert compiled is not triple
