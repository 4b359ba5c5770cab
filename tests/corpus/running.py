"""Runs tests in a child process, and again from where it stopped if a test kills it or takes too long."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corpus.child_process import pytest_child, wait

_STARTING = 600  # seconds until the first test runs: imports, on a busy machine

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """A file of tests or one test: how to run it, and where to keep what was observed of it."""

    sources: Path
    wanted: str
    out: Path
    under_a_lens: bool
    seconds: float  # that a test may take
    at_most: int = 0  # so many tests, spread evenly; 0 for all
    until: float = math.inf  # of time.monotonic(): then what runs is ended, and a later call goes on

    def rows(self) -> list[Row]:
        """Return what was observed of each test; a second call goes on where the first one ended."""
        while not self._is_late() and ((left := self._left()) is None or left):
            growth = _Growth(self.out, self.seconds, self.until)
            with pytest_child(self.sources, self._words(left), self.out.with_suffix(".log")) as child:
                status = wait(child, growth.has_stopped)
            if status is None and self._is_late():
                break
            how = f"killed after {self.seconds:.0f} s" if status is None else f"ended with status {status}"
            self._note_unfinished(left, how)
        return [row for row in self._lines() if "test" in row]

    def _is_late(self) -> bool:
        return time.monotonic() > self.until

    def rows_of(self, tests: Sequence[str]) -> list[Row]:
        """Return what was observed of these tests of the file, as `rows` does."""
        if not self._lines() and not self._is_late():
            self._add([{"chosen": list(tests)}])
        return self.rows()

    def _words(self, left: Sequence[str] | None) -> list[str]:
        lens = ["--under-a-lens"] if self.under_a_lens else []
        chosen = ["--at-most", str(self.at_most), self.wanted] if left is None else left
        return ["--observations", str(self.out), *lens, *chosen]

    def _left(self) -> list[str] | None:
        """The tests that have no result yet; None before the child has said which there are."""
        lines = self._lines()
        chosen = next((line["chosen"] for line in lines if "chosen" in line), None)
        done = {line.get("test") for line in lines}
        return None if chosen is None else [test for test in chosen if test not in done]

    def _note_unfinished(self, before: Sequence[str] | None, how: str) -> None:
        lines = self._lines()
        left = self._left()
        if lines and "start" in lines[-1]:
            self._add([{"test": lines[-1]["start"], "outcome": "killed", "error": how}])
        elif left is None:
            self._add([{"chosen": []}, {"test": self.wanted, "outcome": "does not import", "error": how}])
        elif left == before:  # not even the first of them began
            self._add([{"test": test, "outcome": "not found", "error": how} for test in left])

    def _lines(self) -> list[Row]:
        text = self.out.read_text(encoding="utf-8") if self.out.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def _add(self, rows: Sequence[Row]) -> None:
        with self.out.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


class _Growth:
    """Whether a file has not grown for longer than a test may take, or time is up."""

    def __init__(self, path: Path, seconds: float, until: float) -> None:
        self._path, self._seconds, self._until = path, seconds, until
        self._size, self._since, self._limit = self._now(), time.monotonic(), max(seconds, _STARTING)

    def has_stopped(self) -> bool:
        if (size := self._now()) != self._size:
            self._size, self._since, self._limit = size, time.monotonic(), self._seconds
        now = time.monotonic()
        return now - self._since > self._limit or now > self._until

    def _now(self) -> int:
        return self._path.stat().st_size if self._path.exists() else 0
