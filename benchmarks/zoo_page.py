"""The tables of docs/zoo.md, of what zoo.py left in its folder."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[1] / "docs" / "zoo.md"
BEGIN, END = "<!-- made by benchmarks/zoo.py --write -->\n", "<!-- end -->\n"
MEDIA = ("text", "vision", "audio", "multimodal", "other")
REASONS = {
    "no_edit": "no edit is known",
    "sketch": "a part of the rewrite is left to a person",
    "not_own": "the line is in torch",
    "not_there": "the line is not there as Dynamo names it",
    "limit": "40 runs were not enough",
}

TRACED_LATER = {"copy.deepcopy()": "no edit is known; torch 2.13 traces it"}  # these models were run with it, too
LONGEST = 90  # characters of a kind

Row = dict[str, Any]


def write(zoo: Mapping[str, Row], fixes: Mapping[str, Row]) -> None:
    """Put the tables into their page."""
    text = PAGE.read_text()
    before, after = text[: text.index(BEGIN) + len(BEGIN)], text[text.index(END) :]
    PAGE.write_text(f"{before}\n{chr(10).join(made(zoo, fixes))}\n{after}")


def made(zoo: Mapping[str, Row], fixes: Mapping[str, Row]) -> Iterator[str]:
    """Return the tables, line by line."""
    versions, found = zoo[""], [row for name, row in sorted(zoo.items()) if name]
    ran = [row for row in found if row["status"] == "ran"]
    bad = [row for row in ran if troubled(row)]
    yield f"torch {versions['torch']}, transformers {versions['transformers']}, Python {versions['python']}.\n"
    yield from table(("", "models", "compiled whole", "break", "recompile", "eager in part", "raise"), totals(ran))
    others = Counter(row["status"] for row in found if row["status"] != "ran")
    yield f"\nNot run: {not_run(others)}.\n"
    yield "## Why\n"
    yield from table(("cause", "models", "graph breaks"), causes(ran))
    if fixes:
        yield "\n## What `fix --include transformers` makes of them\n"
        breaking = [row["model"] for row in ran if row["breaks"]]
        yield from fixed([fixes[name] for name in breaking if name in fixes])
        if untried := [name for name in breaking if name not in fixes]:
            yield f"\nNot tried, for want of time: {', '.join(untried)}."
    yield "\n## Who\n"
    head = ("model", "", "breaks", "recompiles", "eager", "first at", "why", "after `fix`", "results")
    yield from table(head, (of_model(row, fixes.get(row["model"])) for row in bad))
    rest = [fixes[row["model"]] for row in bad if left(fixes.get(row["model"]))]
    if rest:
        yield "\n## What is left, and why\n"
        yield from table(("model", "line", "kind", "why it is left"), (line for row in rest for line in left(row)))


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in row)} |"


def troubled(row: Row) -> bool:
    return bool(row["breaks"] or row["recompiles"] or row["eager"] or row["raised"])


def totals(ran: Sequence[Row]) -> Iterator[Sequence[object]]:
    groups = [(name, [row for row in ran if row["medium"] == name]) for name in MEDIA]
    for name, rows in [*groups, ("**all**", list(ran))]:
        if rows:
            some = [[row for row in rows if row[what]] for what in ("breaks", "recompiles", "eager", "raised")]
            whole = [row for row in rows if not troubled(row)]
            yield name, len(rows), share(whole, rows), *(share(one, rows) for one in some)


def share(some: Sequence[Row], of: Sequence[Row]) -> str:
    return f"{len(some)} ({len(some) / len(of):.1%})" if some else "0"


def not_run(counts: Mapping[str, int]) -> str:
    words = {
        "not_made": "of which no small configuration or no inputs were found",
        "late": "not done in time",
        "failed": "failed",
    }
    return ", ".join(f"{count} {words.get(status, status)}" for status, count in sorted(counts.items()))


def causes(ran: Sequence[Row]) -> Iterator[Sequence[object]]:
    models: dict[str, set[str]] = defaultdict(set)
    breaks: Counter[str] = Counter()
    for row in ran:
        for cause in row["causes"]:
            models[cause["kind"]].add(row["model"])
            breaks[cause["kind"]] += cause["breaks"]
        for cause in row["failures"]:
            models[cause["kind"]].add(row["model"])
    for kind in sorted(models, key=lambda kind: (-len(models[kind]), kind)):
        yield kind, len(models[kind]), breaks[kind] or "(fails)"


def of_model(row: Row, fix: Row | None) -> Sequence[object]:
    every = [*row["causes"], *row["failures"]] or row["recompiled"]
    first = every[0] if every else {}
    others = f" and {len(every) - 1} more" if len(every) > 1 else ""
    why = first.get("kind") or row["raised"][:80] or ", ".join(one["as"] for one in row["eagerly"][:1])
    name = (first.get("file") or "").removeprefix("transformers/").removeprefix("models/")
    at = f"`{name}:{first['line']}`{others}" if name else ""
    figures = [row[what] or "" for what in ("breaks", "recompiles", "eager")]
    return row["model"], row["medium"], *figures, at, why, *after(fix)


def after(fix: Row | None) -> Sequence[str]:
    if fix is None:
        return "", ""
    if fix["status"] != "ran":
        return "(late)" if fix["status"] == "late" else "(failed)", ""
    if not fix["results"]:
        return "as before", ""
    seen = fix["after"]
    parts = (("breaks", "breaks"), ("recompiles", "recompiles"), ("eager", "eager"))
    said = ", ".join(f"{seen[name]} {words}" for name, words in parts if seen[name])
    return said or "compiled whole", fix["results"]


# -- fixes


def outcome(fix: Row) -> str:
    """What became of a model that breaks."""
    if fix["status"] != "ran":
        return "could not be tried"
    if not fix["results"]:
        return "nothing helps"
    return "no breaks left" if not fix["after"]["breaks"] else "fewer breaks, or more of it compiled"


def fixed(tried: Sequence[Row]) -> Iterator[str]:
    equal = [row for row in tried if row.get("results") == "equal"]
    groups = ("no breaks left", "fewer breaks, or more of it compiled", "nothing helps", "could not be tried")
    yield from table(
        (f"of {len(tried)} that break", "models", "with equal results", "results not comparable"),
        (
            (
                name,
                share([row for row in tried if outcome(row) == name], tried),
                sum(outcome(row) == name for row in equal),
                sum(outcome(row) == name and row.get("results") == "unknown" for row in tried),
            )
            for name in groups
        ),
    )


def left(fix: Row | None) -> list[Sequence[str]]:
    """Return the lines of a model that still break, and why."""
    if fix is None or (fix["status"] == "ran" and fix["results"] and not any(fix["after"].values())):
        return []
    if fix["status"] != "ran":
        return [(fix["model"], "", "", f"not tried: {fix['why'][:160]}")]
    rows = [
        (fix["model"], place(one), one["kind"][:LONGEST], TRACED_LATER.get(one["kind"]) or REASONS[one["reason"]])
        for one in fix["left"][:4]
    ]
    failed = dict.fromkeys((place(one), failure(one)) for one in fix["failed"] if failure(one) or not fix["left"])
    rows += [(fix["model"], at, "", said or "what was tried makes no more compile") for at, said in list(failed)[:4]]
    return rows or [(fix["model"], "", "", "nothing is offered")]


def failure(one: Row) -> str:
    if one["error"]:
        return f"a change raises {one['error'].split(':')[0]}"
    return "a change alters the results" if one["results"] == "differ" else ""


def place(one: Row) -> str:
    name = (one["file"] or "").split("/site-packages/")[-1].split("/dist-packages/")[-1]
    return f"`{name.removeprefix('transformers/').removeprefix('models/')}:{one['line']}`" if name else ""
