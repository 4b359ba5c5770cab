"""A pytest plugin that writes a line of JSON before each test and one after it: what happened, seen from outside.

`--observations FILE` says where to; `--at-most N` takes that many tests of those collected, spread evenly; with
`--under-a-lens` a strict lens is open round each test.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from older_names import supply_missing_names
from watching import Watch, normal


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--observations", required=True)
    parser.addoption("--under-a-lens", action="store_true")
    parser.addoption("--at-most", type=int, default=0)


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Observer(config.getoption("--observations"), config.getoption("--under-a-lens")))


def pytest_pycollect_makemodule(module_path: Path) -> None:
    supply_missing_names(module_path, set())


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    most = config.getoption("--at-most")
    if 0 < most < len(items):
        items[:] = [items[number * len(items) // most] for number in range(most)]


class _Observer:
    def __init__(self, path: str, under_a_lens: bool) -> None:
        self._file = Path(path).open("a", encoding="utf-8")  # noqa: SIM115 -- for the life of the process
        self._under_a_lens = under_a_lens
        self._watch = Watch()
        self._outcomes: list[tuple[str, str]] = []

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        if not session.testsfailed:
            self._write({"chosen": [item.nodeid for item in session.items]})

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        self._write({"start": item.nodeid})
        self._outcomes = []
        seen, begun, recorded = self._watch.begin(), time.monotonic(), {}
        with _lens(recorded) if self._under_a_lens else contextlib.nullcontext():
            result = yield
        failed = [error for outcome, error in self._outcomes if outcome == "failed"]
        skipped = [error for outcome, error in self._outcomes if outcome == "skipped"]
        outcome = "failed" if failed else "skipped" if skipped else "passed"
        self._write(
            {
                "test": item.nodeid,
                "outcome": outcome,
                "error": "\n".join(failed or skipped),
                "graphs": seen.graphs,
                "codes": seen.codes,
                "breaks": seen.breaks,
                "counters": self._watch.counters.taken(),
                "seconds": round(time.monotonic() - begun, 2),
                **recorded,
            }
        )
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[Any]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        error = call.excinfo.value if call.excinfo is not None else None
        self._outcomes.append((report.outcome, "" if error is None else normal(f"{type(error).__name__}: {error}")))
        return report

    def _write(self, line: dict[str, Any]) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()


@contextlib.contextmanager
def _lens(recorded: dict[str, Any]) -> Iterator[None]:
    """Open a strict lens; note afterwards what it says of the test, and that saying so raised nothing."""
    import compiler_lens

    with compiler_lens.Lens(strict=True, progress=False) as lens:
        yield
    try:
        recording = lens.recording
        recorded["recorded_breaks"] = len(recording.graph_breaks)
        recorded["problems"] = [normal(f"{problem.where}: {problem.message}") for problem in recording.problems]
        lens.report()
    except Exception as error:  # noqa: BLE001 -- to be shown beside the test
        recorded["problems"] = [normal(f"{type(error).__name__}: {error}")]
