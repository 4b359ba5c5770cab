"""The command: gets torch's tests where no folder is given, chooses, runs, compares; each step goes on where it stopped."""

from __future__ import annotations

import argparse
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from corpus import choosing, comparing
from corpus.running import Row, Run
from corpus.sources import NotHereError, fetched

T = TypeVar("T")
R = TypeVar("R")


def main(words: Sequence[str] | None = None) -> int:
    """Run what is asked for; 1 if a test differs under a lens and not between two plain runs."""
    asked = _parser().parse_args(words)
    work = asked.work.expanduser().absolute()
    try:
        sources = (asked.sources or fetched(work)).absolute()
    except NotHereError as error:
        print(f"PyTorch's tests cannot be had: {error}")
        return 2
    files = choosing.files_of_tests(sources, asked.files)
    until = time.monotonic() + 60 * asked.minutes
    steps = _Steps(sources, work, asked.seconds, asked.per_file, until)
    rows = _side_by_side(asked.jobs, steps.compared_runs, files)
    plain, again, lens = ([row for kinds in rows for row in kinds[kind]] for kind in _KINDS)
    results = comparing.compared(plain, again, lens)
    differing = [one.test for one in results if one.differing]
    alone = dict(zip(differing, _side_by_side(asked.jobs, steps.alone, differing), strict=True))
    return _said(comparing.table(plain, results, len(files)), results, alone, work / "differences.json")


_KINDS = ("plain", "again", "lens")


@dataclass(frozen=True)
class _Steps:
    sources: Path
    work: Path
    seconds: float
    at_most: int
    until: float

    def compared_runs(self, wanted: str) -> dict[str, list[Row]]:
        """Run a file's tests, or one test, plain and under a lens, and plain again where the two differ."""
        self.work.mkdir(parents=True, exist_ok=True)
        plain = self._rows(wanted, "plain")
        # What ends a process or never ends itself is not tried again.
        survived = [row["test"] for row in plain if comparing.has_run(row) or row["outcome"] == "skipped"]
        lens = self._rows(wanted, "lens", survived)
        differing = [one for one in comparing.compared(plain, plain, lens) if one.differing]
        again = self._rows(wanted, "again", survived) if differing else plain
        left = [one for one in comparing.compared(plain, again, lens) if one.differing]
        print(f"{len(plain):4} tests, {len(differing):3} differ, {len(left):3} not flaky: {wanted}", flush=True)
        return {"plain": plain, "again": again, "lens": lens}

    def alone(self, test: str) -> comparing.Compared | None:
        """Run a test in processes of its own; None where it cannot be run so."""
        rows = self.compared_runs(test)
        return next(iter(comparing.compared(*(rows[kind] for kind in _KINDS))), None)

    def _rows(self, wanted: str, kind: str, tests: Sequence[str] | None = None) -> list[Row]:
        name = re.sub(r"[^A-Za-z0-9]+", "-", wanted)[-150:]
        out = self.work / f"{name}.{self.at_most}.{kind}.jsonl"
        asked = Run(self.sources, wanted, out, kind == "lens", self.seconds, self.at_most, self.until)
        return asked.rows() if tests is None else asked.rows_of(tests)


def _said(
    table: str, results: Sequence[comparing.Compared], alone: dict[str, comparing.Compared | None], path: Path
) -> int:
    differing = [one for one in results if one.differing]
    entries: list[dict[str, Any]] = []
    print(table)
    for one in differing:
        by_itself = alone[one.test]
        entries.append(
            {
                "test": one.test,
                "differs": comparing.differences(one),
                "differs when run alone": by_itself and comparing.differences(by_itself),
            }
        )
        print(f"  {one.test}: {', '.join(one.differing)}{'; alone, too' if by_itself and by_itself.differing else ''}")
    path.write_text(json.dumps(entries, indent=1))
    print(f"all differences: {path}")
    return int(bool(differing))


def _side_by_side(jobs: int, step: Callable[[T], R], items: Iterable[T]) -> list[R]:
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(step, items))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m corpus", description=__doc__)
    parser.add_argument("--sources", type=Path, help="PyTorch's folder test/, or any folder of tests; else fetched")
    parser.add_argument(
        "--work", type=Path, default=Path("~/.cache/compiler-lens-torch-tests"), help="kept between runs"
    )
    parser.add_argument("--files", default="", help="only files whose name matches this regular expression")
    parser.add_argument("--per-file", type=int, default=60, help="at most so many tests of a file (60)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (1)")
    parser.add_argument("--seconds", type=float, default=60, help="how long a test may take (60)")
    parser.add_argument(
        "--minutes", type=float, default=math.inf, help="then print what there is; a later call goes on"
    )
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
