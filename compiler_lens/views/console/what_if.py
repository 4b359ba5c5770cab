"""The table of trials, and what to write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence

from rich.text import Text

from compiler_lens.facts.measured.what_if import Counts, Left, NotTried, Trial, WhatIf
from compiler_lens.recording.codec import plain
from compiler_lens.recording.own_files import is_own
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.open_page import terminal_width, wants_color
from compiler_lens.render.console.page import BAD, DIM, GOOD, MIN_WIDTH, PLACE, Page, line, paragraph, render, title
from compiler_lens.render.names import FileNames
from compiler_lens.views.json import FORMAT
from compiler_lens.views.text import number, plural, seconds, short_paths

_LEFT = 3  # places that still break, shown
_LINES = 3  # of the settings that were not tried
_NOT_ASKED_FOR = "no "  # how such a reason begins

_COLUMNS = (
    Column(style=GOOD),
    Column("trial", flexible=True, middle=True),
    Column("eager", right=True),
    Column("breaks", right=True),
    Column("recompiles", right=True),
    Column("graphs", right=True),
    Column("Dynamo", right=True, style=DIM),
)
_FIGURES = (
    ("eager_frames", "frames that run eagerly"),
    ("breaks", "breaks"),
    ("recompiles", "recompiles"),
    ("graphs", "graphs"),
)


def what_if_report(result: WhatIf, *, width: int | None = None, color: bool | None = None) -> str:
    """The trials as a table that ends with what to do."""
    page = Page(
        width=max(width, MIN_WIDTH) if width else terminal_width(),
        color=wants_color() if color is None else color,
        names=FileNames(short_paths(_files(result))),
    )
    return render(_lines(result, page), page)


def what_if_json(result: WhatIf) -> str:
    """The trials for programs: every field of them, and the name of the best."""
    best = result.best.name if result.best else None
    trials = [plain(trial) | {"helps": trial.helps} for trial in result.trials]
    data = {"calls": result.calls, "best": best, "trials": trials, "not_tried": plain(result.not_tried)}
    return json.dumps({"format": FORMAT, "view": "what_if"} | data, indent=1, allow_nan=False)


def _files(result: WhatIf) -> Iterator[str]:
    lines = [left.line for trial in result.trials for left in trial.left]
    for at in (*lines, *(trial.error_line for trial in result.trials)):
        if at is not None and is_own(at.file):
            yield at.file


def _lines(result: WhatIf, page: Page) -> Iterator[Text]:
    if result.is_clean:
        yield line(("Nothing to try: ", GOOD), _clean(result.baseline.after))
        yield from _problems(result, page)
        return
    yield title("What if", f"{plural(result.calls, 'call')} in each trial; graphs as Dynamo captures them")
    yield from _table(result, page)
    yield Text()
    yield from _left(result, page)
    yield from _not_tried(result.not_tried, page)
    yield from _problems(result, page)
    yield from _to_do(result, page)


def _clean(counts: Counts | None) -> str:
    if counts is None or not counts.graphs:
        return "nothing was compiled, there are no tensor ops"
    benign = counts.benign_recompiles
    recompiles = f"{plural(benign, 'recompile')}, as expected" if benign else "no recompiles"
    return f"{plural(counts.graphs, 'graph')}, no breaks, {recompiles}"


def _problems(result: WhatIf, page: Page) -> Iterator[Text]:
    """Figures that cannot be trusted must not look as if they could."""
    found = [problem for trial in result.trials for problem in trial.problems]
    if found:
        told = f"{plural(len(found), 'thing')} could not be recorded, figures may be too low: {found[0].message}"
        yield from paragraph(told, page.width, 0, BAD, limit=2)


def _table(result: WhatIf, page: Page) -> Iterator[Text]:
    best = result.best
    header, *rows = table(_COLUMNS, [_row(trial, is_best=trial is best) for trial in result.trials], page.width)
    yield header
    for trial, row in zip(result.trials, rows, strict=True):
        yield row
        if trial.error:
            at = f"{page.at(trial.error_line)}: " if trial.error_line else ""
            yield from paragraph(f"{at}{trial.error}", page.width, 6, BAD, limit=2)


def _row(trial: Trial, *, is_best: bool) -> list[str | Text]:
    after = trial.after
    figures = [number(getattr(after, name)) if after else number(None) for name, _ in _FIGURES]
    name = Text(trial.name, style=PLACE if is_best else "")
    return ["*" if is_best else " ", name, *figures, seconds(after.seconds if after else None)]


def _left(result: WhatIf, page: Page) -> Iterator[Text]:
    """Where graphs break even in the best trial; if none helps, also what would break next."""
    if result.best:
        yield from _places(f"Still breaks, {result.best.name}:", result.best.left, page)
        return
    known = set(result.baseline.left)
    yield from _places("Breaks at:", result.baseline.left, page)
    for trial in result.trials[1:]:
        if new := tuple(left for left in trial.left if left not in known):
            yield from _places(f"{trial.name} only leads to:", new, page)
            known |= set(new)


def _places(told: str, places: Sequence[Left], page: Page) -> Iterator[Text]:
    if places:
        yield line((told, DIM))
    for left in places[:_LEFT]:
        yield line((page.at(left.line) if left.line else "an unknown place", PLACE), f"  {left.gb_type}", indent=2)
    if len(places) > _LEFT:
        yield line((f"… {plural(len(places) - _LEFT, 'more place')}", DIM), indent=2)


def _not_tried(not_tried: Iterable[NotTried], page: Page) -> Iterator[Text]:
    reasons: dict[str, list[str]] = {}
    for one in not_tried:
        reason = "nothing here asks for them" if one.reason.startswith(_NOT_ASKED_FOR) else one.reason
        reasons.setdefault(reason, []).append(one.name)
    told = "; ".join(f"{', '.join(names)} ({reason})" for reason, names in reasons.items())
    if told:
        yield from paragraph(f"Not tried: {told}", page.width, 0, DIM, limit=_LINES)


def _to_do(result: WhatIf, page: Page) -> Iterator[Text]:
    best = result.best
    if best is None:
        yield from paragraph(_no_help(result), page.width, 0)
        return
    yield from paragraph(f"Price of {best.name}: {best.price}", page.width, 0, DIM)
    yield from paragraph(f"{_gain(best)}, with", page.width, 0, GOOD)
    for code in best.code:
        made = line((code, PLACE), indent=4)
        made.overflow = "ignore"
        yield made


def _gain(trial: Trial) -> str:
    before, after = trial.before, trial.after
    if after is None or before is None:
        return "It compiles"
    figures = [(told, getattr(before, name), getattr(after, name)) for name, told in _FIGURES]
    told = ", ".join(f"{told} {number(was)} → {number(now)}" for told, was, now in figures if was != now)
    return told[:1].upper() + told[1:]


def _no_help(result: WhatIf) -> str:
    counts = result.baseline.after
    if counts is None:
        return "Nothing that was tried here makes it compile."
    what = "the breaks need" if counts.breaks else "this needs"
    head = "Nothing tried here helps" if len(result.trials) > 1 else "No setting could help"
    return f"{head}: {what} a change in the code. To see what: compile with backend=lens, then lens.report()"
