"""The views behind the summary of a diff: all kernels, graphs, breaks, autotuning, times, settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from shlex import quote
from typing import Protocol

from rich.text import Text

from compiler_lens.facts.compare.model import Case, KernelChange, RecordingDiff, Verdict, sum_times
from compiler_lens.facts.program.select import kernel_name, nearest
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.open_page import page_for
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, Page, command, line, paragraph, render, title
from compiler_lens.views import words
from compiler_lens.views.console import diff_words as told
from compiler_lens.views.console.diff import diff_lines, phase_rows
from compiler_lens.views.console.diff_around_words import break_verdict, choice, frame_line, node_change, node_modules
from compiler_lens.views.console.diff_code import case_code
from compiler_lens.views.console.diff_difference_words import differences
from compiler_lens.views.text import milliseconds, number, plural, seconds, times

_CASES = 12  # of one change, listed
_ARROW = "→"


class Compared(Protocol):
    """Two recordings and what differs between them."""

    @property
    def before(self) -> Recording: ...
    @property
    def after(self) -> Recording: ...
    @property
    def result(self) -> RecordingDiff: ...
    @property
    def names(self) -> tuple[str, str]:
        """What to type for the two, or what the reader knows them by."""


@dataclass(frozen=True, slots=True)
class _Both:
    """What a view is made from."""

    before: Recording
    after: Recording
    diff: RecordingDiff
    page: Page
    name: str


def diff_report(
    compared: Compared, view: str = "summary", name: str = "", *, width: int | None = None, color: bool | None = None
) -> str:
    """One view as text."""
    if view not in _VIEWS:
        meant = nearest(view, _VIEWS)
        raise UsageError(f"no view {view!r}.{f' Did you mean {meant}?' if meant else ''} There are {', '.join(_VIEWS)}")
    page, other = (page_for(r, width=width, color=color) for r in (compared.after, compared.before))
    target = " ".join(given if given in {"BEFORE", "AFTER"} else quote(given) for given in compared.names)
    page = replace(page, target=target, names=other.names.joined(page.names))
    return render(_VIEWS[view](_Both(compared.before, compared.after, compared.result, page, name)), page)


def _summary(both: _Both) -> Iterator[Text]:
    yield from diff_lines(both.diff, both.page)
    d, more = both.diff, []
    if d.kernels:
        more = ["kernels", "code"]
    more += [view for view, found in (("graphs", d.graphs), ("breaks", d.breaks), ("autotune", d.autotunes)) if found]
    if more or not d.is_empty:
        yield command(
            f"more ({', '.join([*more, 'times', 'environment'])}): ", _typed(both.page, more[0] if more else "times"), 0
        )


def _typed(page: Page, rest: str) -> str:
    return f"compiler-lens diff {page.target} {rest}"


# -- kernels


def _kernels(both: _Both) -> Iterator[Text]:
    d, page = both.diff, both.page
    yield from paragraph(told.kernels_line(d), page.width, 0, PLACE)
    for change in d.kernels:
        yield Text()
        yield from _change(change, page)
    if d.retuned:
        yield Text()
        yield from paragraph(told.retuned_line(d), page.width, 0, DIM)
        yield from _cases(d.retuned, page, with_names=True)
    if d.kernels:
        first = d.kernels[0].first
        yield Text()
        yield command("both sources of one: ", _typed(page, f"kernel {(first.before or first.after)[0].kernel}"), 0)


def _change(change: KernelChange, page: Page) -> Iterator[Text]:
    yield from paragraph(told.change_line(change), page.width, 0, PLACE)
    method = f", matched by {told.METHODS[change.method]}" if change.method else ""
    yield line((f"{told.VERDICTS[change.verdict]}{method}", DIM), indent=2)
    yield from _cases(change.cases, page, with_names=len(change.cases) > 1)


def _cases(cases: tuple[Case, ...], page: Page, *, with_names: bool) -> Iterator[Text]:
    for case in cases[:_CASES]:
        parts = [told.names(case) if with_names else "", differences(case.differences, 8)]
        text = (": ".join(filter(None, parts)) + told.microseconds(case.times)).removeprefix("; ")
        if len(cases) == 1 and not text:
            continue
        yield from paragraph(line((f"{told.case_names(case)}  ", DIM), text), page.width, 4)
    if len(cases) > _CASES:
        yield line((f"… {plural(len(cases) - _CASES, 'more')}", DIM), indent=4)


def _kernel(both: _Both) -> Iterator[Text]:
    names = dict.fromkeys(one.kernel for _, case in _all(both.diff) for one in (*case.before, *case.after))
    meant = kernel_name(both.name, names, "on either side")
    for number_, (verdict, case) in enumerate(_named(both.diff, meant)):
        if number_:
            yield Text()
        yield from _code(verdict, case, both)


def _all(d: RecordingDiff) -> Iterator[tuple[Verdict, Case]]:
    yield from ((change.verdict, case) for change in d.kernels for case in change.cases)
    yield from ((Verdict.IDENTICAL, case) for case in d.identical)


def _named(d: RecordingDiff, name: str) -> Iterator[tuple[Verdict, Case]]:
    """The cases that a kernel of this name has a part in, on either side; each pair of kernels once."""
    seen = set()
    for verdict, case in _all(d):
        names = [one.kernel for one in (*case.before, *case.after)]
        if name in names and (verdict, *names) not in seen:
            seen.add((verdict, *names))
            yield verdict, case


def _code(verdict: Verdict, case: Case, both: _Both) -> Iterator[Text]:
    name = line((told.names(case), PLACE))
    name.overflow = "ignore"
    yield name
    values = differences(case.differences, 99)
    told_values = f": {values}" if values else ""
    text = f"{told.case_names(case)}, {told.VERDICTS[verdict]}{told_values}{told.microseconds(case.times)}"
    yield from paragraph(text, both.page.width, 2, DIM)
    yield from case_code(case, both.before, both.after, both.page)


def _codes(both: _Both) -> Iterator[Text]:
    """The code of every change, of its first case; another configuration is not another code."""
    changes = [change for change in both.diff.kernels if not told.is_configuration(change)]
    yield title("Code", plural(len(changes), "change") if changes else "no kernel's code differs")
    for change in changes:
        yield Text()
        yield from _code(change.verdict, change.first, both)


# -- the rest


def _graphs(both: _Both) -> Iterator[Text]:
    d, page = both.diff, both.page
    yield title("Graphs", f"{plural(len(d.graphs), 'graph')} differ" if d.graphs else "no graph differs")
    for change in d.graphs:
        ids = " ".join(dict.fromkeys(f"[{i}]" for i in (change.before, change.after)))
        yield line((change.function, PLACE), f"  {ids} {words.STAGES[change.stage]}", indent=2)
        for node in change.nodes:
            style = GOOD if node.verdict is Verdict.ADDED else BAD if node.verdict is Verdict.REMOVED else ""
            many = f" {times(node.times)}" if node.times > 1 else ""
            at = page.at(node.line) if node.line else ""
            where = "  ".join(part for part in (node_modules(node), at) if part)
            yield from paragraph(
                line((node_change(node) + many, style), (f"  {where}" if where else "", DIM)), page.width, 4
            )


def _breaks(both: _Both) -> Iterator[Text]:
    d, page = both.diff, both.page
    yield title("Graph breaks", "" if d.breaks else "the same on both sides")
    for change in d.breaks:
        style = BAD if change.after > change.before else GOOD
        at = page.at(change.place) if change.place else "an unknown place"
        code = change.place.code.strip() if change.place else ""
        head = line(
            (f"{break_verdict(change):<6}", style),
            (at, PLACE),
            f"  {change.gb_type}  {change.before} {_ARROW} {change.after}",
            indent=2,
        )
        yield head
        if code:
            yield line((code, CODE), indent=8)
    yield from _recompiles(both)


def _recompiles(both: _Both) -> Iterator[Text]:
    changes = both.diff.recompiles
    yield title("Recompiles", "" if changes else "the same on both sides")
    rows = [(r.function, r.subject, number(r.before), number(r.after)) for r in changes]
    columns = (
        Column("function"),
        Column("changed", flexible=True),
        Column("before", right=True),
        Column("after", right=True),
    )
    yield from table(columns, rows, both.page.width) if rows else ()
    for frame in both.diff.frames:
        yield line(frame_line(frame), indent=2)


def _autotune(both: _Both) -> Iterator[Text]:
    changes = both.diff.autotunes
    yield title("Autotuning", "" if changes else "the same winners on both sides")
    for change in changes:
        many = f" {times(change.times)}" if change.times > 1 else ""
        yield line((f"{change.op}{many}", PLACE), f"  {' '.join(change.inputs)}", indent=2)
        sides = (("before", change.before, change.before_runs), ("after", change.after, change.after_runs))
        for side, chosen, runs in sides:
            took = f"{milliseconds(chosen.milliseconds)}  " if chosen else ""
            other = f", {words.runs_otherwise(runs)}" if runs else ""
            yield from paragraph(line((f"{side:<7}", DIM), f"{took}{choice(chosen)}{other}"), both.page.width, 4)


def _times(both: _Both) -> Iterator[Text]:
    d = both.diff
    yield title("Compile time")
    rows = [(words.PHASES[phase], seconds(b), seconds(a)) for phase, (b, a) in phase_rows(d)]
    rows.append(("total", seconds(d.before.phases.total), seconds(d.after.phases.total)))
    columns = (Column(), Column("before", right=True), Column("after", right=True))
    yield from table(columns, rows, both.page.width)
    yield Text()
    if (kernel_time := d.kernel_times) is None:
        yield line(told.NO_TIMES)
        return
    yield title("Kernels in one call", f"{told.spent(kernel_time)} ({told.gain(kernel_time)})")
    timed = [(told.change_line(c), c.times) for c in d.kernels if c.times]
    for text, _ in timed:
        yield from paragraph(text, both.page.width, 2)
    same = sum_times(d.identical)
    if same:
        yield from paragraph(f"identical launches{told.microseconds(same)}", both.page.width, 2)


def _environment(both: _Both) -> Iterator[Text]:
    changes = both.diff.settings
    yield title("Settings", "" if changes else "no difference")
    rows = [(s.name, s.before or "-", s.after or "-") for s in changes]
    columns = (Column(style=PLACE), Column("before", flexible=True), Column("after", flexible=True))
    yield from table(columns, rows, both.page.width) if rows else ()


_VIEWS: Mapping[str, Callable[[_Both], Iterator[Text]]] = {
    "summary": _summary,
    "kernels": _kernels,
    "kernel": _kernel,
    "code": _codes,
    "graphs": _graphs,
    "breaks": _breaks,
    "autotune": _autotune,
    "times": _times,
    "environment": _environment,
}
