"""Words for recompiles: what changed, from which value to which."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rich.text import Text

from compiler_lens.analysis.coverage import FunctionName
from compiler_lens.analysis.places import own_stack
from compiler_lens.analysis.recompiles import RecompileCause, deciding_failure, recompile_causes
from compiler_lens.analysis.select import Selection
from compiler_lens.model import GuardFailure, Recording
from compiler_lens.render.console.page import CODE, DIM, PLACE, WARN, Page, line, paragraph, title
from compiler_lens.render.text import one_line, plural, times

_SERIES = 5
_WHOLE = 2_000
_VALUE = 32


def short_failure(failure: GuardFailure | None, limit: int = 200) -> str:
    """The guard that failed, without the values: those are told as a series."""
    if failure is None:
        return "torch gave no reason"
    text = one_line(failure.text, limit)
    head, expected, _ = text.partition(". expected ")
    return head if expected and (failure.old or failure.new) else text


def change_series(changes: Sequence[tuple[str, str]]) -> str:
    """`8 → 4 → 1`, or `8 → 4, 8 → 2` where each began from the same value; cut after a few."""
    if not changes:
        return ""
    changes = [(one_line(old, _VALUE), one_line(new, _VALUE)) for old, new in changes]
    if not any(new for _, new in changes):  # torch tells what a value was, and not always what it became
        olds = list(dict.fromkeys(old for old, _ in changes))
        return "was " + ", ".join(olds[:_SERIES]) + (", …" if len(olds) > _SERIES else "")
    told = [changes[0][0], changes[0][1]]
    chained = all(after[0] == before[1] for before, after in pairwise(changes))
    if chained:
        told += [new for _, new in changes[1:]]
        return " → ".join(told[: _SERIES + 1]) + (" → …" if len(told) > _SERIES + 1 else "")
    pairs = list(dict.fromkeys(f"{old} → {new}" for old, new in changes))
    return ", ".join(pairs[:_SERIES]) + (", …" if len(pairs) > _SERIES else "")


def recompile_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC recompiles [ID]` shows: every cause with its series of values, and every recompile of it."""
    causes = [c for c in recompile_causes(recording) if any(selection.has(r) for r in c.recompiles)]
    if not causes:
        return [line("No recompiles.")]
    total = sum(len(cause.recompiles) for cause in causes)
    lines = [title("Recompiles", f"{plural(total, 'recompile')} for {plural(len(causes), 'cause')}")]
    for cause in causes:
        lines += [Text(), *_cause(cause, page)]
    return lines


def named(function: FunctionName, page: Page) -> Text:
    """A function with its place."""
    place = f"  {page.at(function)}" if function.file else ""
    return line((function.name, PLACE), (place, DIM))


def _cause(cause: RecompileCause, page: Page) -> list[Text]:
    lines = [line(named(cause.function, page), (f"  {times(len(cause.recompiles))}", WARN), indent=2)]
    lines += paragraph(short_failure(cause.failure, _WHOLE), page.width, 4)
    if cause.changes:
        lines.append(line(("old → new: ", DIM), (change_series(cause.changes), CODE), indent=4))
    if cause.failure and cause.failure.hint:
        lines += paragraph(cause.failure.hint, page.width, 4, CODE)
    if cause.failure and cause.failure.user_stack:
        for at in own_stack(cause.failure.user_stack):
            lines.append(line((page.at(at), PLACE), (f"  {at.code.strip()}", CODE), indent=4))
    for recompile in cause.recompiles:
        failure = deciding_failure(recompile)
        others = len(recompile.failures) - 1
        more = f" (and {plural(others, 'older entry', 'older entries')} did not fit)" if others > 0 else ""
        text = one_line(failure.text, 160) if failure else ""
        lines.append(line((f"[{recompile.compile_id}] ", DIM), text, (more, DIM), indent=6))
    return lines
