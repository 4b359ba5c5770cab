"""Processes that a program starts are not recorded, and the first screen says so."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from compiler_lens import Lens
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


WORDS = {
    _fork: "processes that this one started have compiled, too, and are not recorded: test_children.py:",
    _spawn: "processes that this one started are not recorded, and may compile, too: test_children.py:",
}


@pytest.mark.parametrize("start", WORDS)
def test_processes_that_are_not_recorded_are_said_to_be(start: Callable[[], None]) -> None:
    shown = " ".join(_recorded(start).report(color=False, width=120).split())
    assert WORDS[start] in shown
    assert "Nothing to fix" not in shown
    assert "there is: processes that are not recorded (test_children.py:" in shown


@pytest.mark.parametrize("start", [_load, None])
def test_forks_that_compile_nothing_are_no_matter(start: Callable[[], None] | None) -> None:
    lens = _recorded(start)
    assert [child.compiled for child in lens.recording.children] == ([False] if start else [])
    shown = " ".join(lens.report(color=False, width=120).split())
    assert "processes" not in shown
    assert "Nothing to fix: no graph breaks, no recompiles." in shown


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
