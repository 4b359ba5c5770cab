"""What differs between a test's plain runs and its run under a lens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
_BROKEN = "does not import"
ASPECTS = ("outcome", "error", "graphs", "codes", "breaks", "counters")


@dataclass(frozen=True)
class Compared:
    """One test: in which aspects two plain runs differ, and in which others the run under a lens."""

    test: str
    plain: Row
    lens: Row
    flaky: tuple[str, ...]
    differing: tuple[str, ...]  # aspects that are not flaky; and "recorded breaks", "problems" of the recording


def compared(plain: Iterable[Row], again: Iterable[Row], lens: Iterable[Row]) -> list[Compared]:
    """Return the comparison of each test that all three runs have, and that ran in the first."""
    others, recorded = ({row["test"]: row for row in rows} for rows in (again, lens))
    return [
        _one(row, others[row["test"]], recorded[row["test"]])
        for row in plain
        if has_run(row) and row["test"] in others and row["test"] in recorded
    ]


def has_run(row: Row) -> bool:
    """Return whether a test came to an end of its own: it passed or failed."""
    return row["outcome"] in {"passed", "failed"}


def _one(plain: Row, again: Row, lens: Row) -> Compared:
    flaky = tuple(aspect for aspect in ASPECTS if plain.get(aspect) != again.get(aspect))
    differing = [aspect for aspect in ASPECTS if aspect not in flaky and plain.get(aspect) != lens.get(aspect)]
    if "recorded_breaks" in lens and lens["recorded_breaks"] != len(lens["breaks"]):
        differing.append("recorded breaks")
    if lens.get("problems"):
        differing.append("problems")
    return Compared(plain["test"], plain, lens, flaky, tuple(differing))


def differences(one: Compared) -> dict[str, Any]:
    """Return what differs, as plain values: the two sides of each aspect, of counters those that differ."""
    found: dict[str, Any] = {}
    for aspect in one.differing:
        if aspect == "problems":
            found[aspect] = list(one.lens["problems"])
        elif aspect == "recorded breaks":
            found[aspect] = [one.lens["breaks"], one.lens["recorded_breaks"]]
        elif aspect == "counters":
            sides = [one.plain[aspect], one.lens[aspect]]
            names = sorted(set(sides[0]) | set(sides[1]))
            found[aspect] = {n: [s.get(n, 0) for s in sides] for n in names if sides[0].get(n) != sides[1].get(n)}
        else:
            found[aspect] = [one.plain.get(aspect), one.lens.get(aspect)]
    return found


def table(plain: Sequence[Row], results: Sequence[Compared], files: int) -> str:
    """Return the summary as lines of text: how many tests of which kind, and what differed how often."""
    outcomes = Counter(row["outcome"] for row in plain)
    flaky = Counter(aspect for one in results for aspect in one.flaky)
    differing = Counter(aspect for one in results for aspect in one.differing)
    rows: list[tuple[str, object]] = [
        ("test files", files),
        ("tests chosen", sum(row["outcome"] != _BROKEN for row in plain)),
        *((f"  plain: {name}", count) for name, count in outcomes.most_common()),
        ("ran, and compared plain and under a lens", len(results)),
        ("  graphs of Dynamo", sum(len(one.plain["graphs"]) for one in results)),
        ("  output codes", sum(len(one.plain["codes"]) for one in results)),
        ("  graph breaks", sum(len(one.plain["breaks"]) for one in results)),
        ("differ, and so do two plain runs", sum(bool(one.flaky) for one in results)),
        *((f"  {name}", count) for name, count in flaky.most_common()),
        ("differ under a lens alone", sum(bool(one.differing) for one in results)),
        *((f"  {name}", count) for name, count in differing.most_common()),
    ]
    return "\n".join(f"{name:<46} {count:>6}" for name, count in rows)
