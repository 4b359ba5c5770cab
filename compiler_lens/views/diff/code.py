"""The code of what stands for what in two recordings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from compiler_lens.facts.compare.model import Case, LaunchRef, RecordingDiff, Verdict
from compiler_lens.facts.compare.source import call, readable
from compiler_lens.facts.program.select import kernel_name
from compiler_lens.recording.model import Kernel, Recording
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.difference_words import differences
from compiler_lens.views.diff.views import Asked, Compared
from compiler_lens.views.document import Block, Comparison, Listing, Section, line, paragraph
from compiler_lens.views.parts import Tone, quiet, strong
from compiler_lens.views.text import clean, plural

SAME_CODE = "the same code, names and numbers aside"


def codes(asked: Asked) -> tuple[Block, ...]:
    """Return the code of every change, of its first case; another configuration is not another code."""
    changes = [change for change in asked.diff.kernels if not told.is_configuration(change)]
    counted = plural(len(changes), "change") if changes else "no kernel's code differs"
    cases = (Section("", _case(change.verdict, change.first, asked.compared)) for change in changes)
    return (Section("Code", tuple(cases), counted),)


def kernel(asked: Asked) -> tuple[Block, ...]:
    """Return both sources of a kernel of either side.

    Raises `UsageError` where neither side has a kernel of that name.
    """
    cases = [*_cases(asked.diff)]
    names = dict.fromkeys(one.kernel for _, case in cases for one in (*case.before, *case.after))
    meant = kernel_name(asked.name, names, "on either side")
    found: dict[tuple[Verdict, tuple[str, ...]], Block] = {}
    for verdict, case in cases:
        own = tuple(one.kernel for one in (*case.before, *case.after))
        if meant in own and (verdict, own) not in found:  # each pair of kernels once
            found[verdict, own] = Section("", _case(verdict, case, asked.compared))
    return tuple(found.values())


def _cases(d: RecordingDiff) -> Iterator[tuple[Verdict, Case]]:
    yield from ((change.verdict, case) for change in d.kernels for case in change.cases)
    yield from ((Verdict.IDENTICAL, case) for case in d.identical)


def _case(verdict: Verdict, case: Case, both: Compared) -> tuple[Block, ...]:
    values = differences(case.differences, 99)
    in_what = f": {values}" if values else ""
    text = f"{told.case_names(case)}, {told.VERDICTS[verdict]}{in_what}{told.microseconds(case.times)}"
    name = line(strong(told.names(case)), whole=True)
    left = side_code(case.before, lambda one: _kernel(one, both.before))
    right = side_code(case.after, lambda one: _kernel(one, both.after))
    head: tuple[Block, ...] = (name, paragraph(text, indent=2, tone=Tone.QUIET))
    if left == right:
        return *head, line(quiet(SAME_CODE), indent=2), Listing("\n".join(left), language="")
    return *head, Comparison(tuple(left), tuple(right))


def side_code(side: Sequence[LaunchRef], kernel_of: Callable[[LaunchRef], Kernel | None]) -> list[str]:
    """Return the lines of the code of all that one side of a case has; of a library's kernel, its call."""
    lines: list[str] = []
    for one in side:
        if kernel := kernel_of(one):
            text = readable(kernel) or f"{kernel.name}({call(kernel, kernel.launches[one.launch])})"
            lines += [*([""] if lines else []), *clean(text).splitlines()]
    return lines


def _kernel(one: LaunchRef, recording: Recording) -> Kernel | None:
    return next((kernel for kernel in recording.kernels if kernel.id == one.kernel_id), None)
