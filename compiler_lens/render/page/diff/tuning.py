"""What autotuning chose on either side, and all that it tried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from compiler_lens.facts.compare.model import AutotuneChange
from compiler_lens.facts.kernels.tuned import Otherwise
from compiler_lens.recording.model import AutotuneChoice, AutotuneResult, Recording
from compiler_lens.render.page.diff.context import Both
from compiler_lens.render.page.links import Cell
from compiler_lens.render.page.tables import Block, figure, table
from compiler_lens.views import words
from compiler_lens.views.diff import around_words as told
from compiler_lens.views.text import milliseconds, plural

_SIDES = ("before", "after")

_Tried = Mapping[tuple[str, tuple[str, ...]], list[AutotuneResult]]


def autotune_blocks(both: Both) -> list[Block]:
    """Where another choice won, or only one side chose at all; then all that was tried there."""
    changes = both.diff.autotunes
    columns = ("`op", "`inputs", "#times", "before", "#took before", "after", "#took after")
    rows = [
        (
            change.op, " ".join(change.inputs), figure(f"{change.times:,}", change.times) if change.times > 1 else "",
            _won(change.before, change.before_runs), _took(change.before),
            _won(change.after, change.after_runs), _took(change.after),
        )
        for change in changes
    ]  # fmt: skip
    tried = [_results(half.recording) for half in both.halves]
    note = told.autotune_line(changes).partition(": ")[2]
    return [table("Autotuning", columns, rows, note=note), *(_of_change(change, tried) for change in changes)]


def _won(choice: AutotuneChoice | None, runs: Otherwise | None) -> str:
    return told.choice(choice) + (f", {words.runs_otherwise(runs)}" if runs else "")


def _took(choice: AutotuneChoice | None) -> Cell:
    return figure(milliseconds(choice.milliseconds), choice.milliseconds) if choice else ""


def _results(recording: Recording) -> _Tried:
    found: dict[tuple[str, tuple[str, ...]], list[AutotuneResult]] = {}
    for result in recording.autotunes:
        found.setdefault((result.op, result.inputs), []).append(result)
    return found


def _of_change(change: AutotuneChange, tried: Sequence[_Tried]) -> Block:
    winners = (change.before, change.after)
    results = [
        next((one for one in known.get((change.op, change.inputs), ()) if one.winner == won), None)
        for known, won in zip(tried, winners, strict=True)
    ]
    return tried_table(*results)


def tried_table(before: AutotuneResult | None, after: AutotuneResult | None) -> Block:
    """The candidates of both sides, each once."""
    sides = [_choices(result) for result in (before, after)]
    rows = [
        (
            choice, *(_candidate(side.get((choice, detail))) for side in sides),
            ", ".join(name for name, side, result in zip(_SIDES, sides, (before, after), strict=True)
                      if result and result.winner and side.get((choice, detail)) == result.winner), detail,
        )
        for choice, detail in dict.fromkeys((*sides[1], *sides[0]))
    ]  # fmt: skip
    one = after or before
    heading = f"{one.op}({', '.join(one.inputs)})" if one else "nothing was tried"
    return table(heading, ("`choice", "#before", "#after", "won", "`detail"), rows, note=plural(len(rows), "choice"))


def _choices(result: AutotuneResult | None) -> dict[tuple[str, str], AutotuneChoice]:
    """By what they are, the fastest first: a template's name has a number that says nothing."""
    found: dict[tuple[str, str], AutotuneChoice] = {}
    for one in result.choices if result else ():
        found.setdefault((told.choice(one), one.detail), one)
    return found


def _candidate(choice: AutotuneChoice | None) -> Cell:
    if choice is None:
        return ""
    return ("failed", 1e9) if choice.milliseconds is None else _took(choice)
