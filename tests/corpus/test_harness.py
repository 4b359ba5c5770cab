"""The harness sees what a lens changes, tells it from what varies by itself, and lives through tests that do not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from corpus.__main__ import main
from corpus.comparing import compared, differences
from corpus.sources import nearest

# What a lens could do to a program, and what tests do by themselves.
_TESTS = """
import os, sys, time, unittest
import torch
from torch.testing import no_such_decorator

has_lens = lambda: "compiler_lens" in sys.modules

class Tests(unittest.TestCase):
    def test_same(self):
        torch._dynamo.reset()
        torch._dynamo.utils.counters.clear()
        def f(x):
            print("a break")
            return x.sin()
        torch.compile(f, backend="eager")(torch.ones(3))
        torch._dynamo.utils.counters.clear()

    def test_planted(self):
        torch._dynamo.utils.counters["planted"]["count"] += 1 + has_lens()
        torch._dynamo.utils.counters.clear()
        extra = has_lens()
        torch.compile(lambda x: x.sin() + 1 if extra else x.sin(), backend="eager")(torch.ones(3))
        self.assertFalse(has_lens(), f"at {id(self):#x}")

    def test_varies(self):
        self.fail(str(time.time_ns() % 1000000))

    def test_kills(self):
        os._exit(7)

    @no_such_decorator
    def test_of_another_torch(self):
        self.fail("torch has it")
"""


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, dict[str, dict[str, Any]]]:
    """What the harness prints of these tests, and the differences that it finds."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "test_made.py").write_text(_TESTS)
    (folder / "test_broken.py").write_text("import no_such_module\n")
    work = folder / "work"
    words = ["--sources", str(folder), "--work", str(work), "--seconds", "20", "--jobs", "2"]
    with pytest.MonkeyPatch.context() as patch:
        said: list[str] = []
        patch.setattr("builtins.print", lambda *words, **_named: said.append(" ".join(map(str, words))))
        assert main(words) == 1
    entries = json.loads((work / "differences.json").read_text())
    return "\n".join(said), {entry["test"].rpartition("::")[2]: entry for entry in entries}


@pytest.mark.long
def test_planted_differences_are_found_and_no_others(ran: tuple[str, dict[str, dict[str, Any]]]) -> None:
    _, entries = ran
    (found,) = entries.values()
    differs = found["differs"]
    assert list(entries) == ["test_planted"]
    assert sorted(differs) == ["counters", "error", "graphs", "outcome"]
    assert differs["outcome"] == ["passed", "failed"]
    assert differs["counters"]["planted: count"] == [1, 2]
    assert found["differs when run alone"] == differs


@pytest.mark.long
def test_table_counts_each_kind(ran: tuple[str, dict[str, dict[str, Any]]]) -> None:
    counted = dict(line.rsplit(maxsplit=1) for line in ran[0].splitlines() if line[-1:].isdigit())
    counted = {name.strip(): int(number) for name, number in counted.items()}
    assert counted["test files"] == 2
    assert counted["plain: does not import"] == 1
    assert counted["tests chosen"] == 5
    assert counted["plain: killed"] == 1
    assert counted["plain: skipped"] == 1
    assert counted["plain: passed"] == 2
    assert counted["plain: failed"] == 1
    assert counted["ran, and compared plain and under a lens"] == 3
    assert counted["differ, and so do two plain runs"] == 1
    assert counted["differ under a lens alone"] == 1
    assert counted["graph breaks"] == 1


def test_a_break_that_the_recording_lacks_is_a_difference() -> None:
    row = {"test": "t", "outcome": "passed", "breaks": ["print", "print"]}
    (one,) = compared([row], [row], [{**row, "recorded_breaks": 1, "problems": ["trace: odd"]}])
    assert differences(one) == {"recorded breaks": [["print", "print"], 1], "problems": ["trace: odd"]}


def test_nearest_version_comes_first() -> None:
    offered = ["2.6.0+dfsg-7", "1.13.1+dfsg-4", "2.14.1+dfsg-1"]
    assert nearest(offered, "2.13.0+cpu") == ["2.14.1+dfsg-1", "2.6.0+dfsg-7", "1.13.1+dfsg-4"]
