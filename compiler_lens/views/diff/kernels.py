"""Every change of a kernel between two recordings, and how it was matched."""

from __future__ import annotations

from compiler_lens.facts.compare.model import Case, KernelChange
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.difference_words import differences
from compiler_lens.views.diff.views import Asked
from compiler_lens.views.document import Block, Command, Section, line, paragraph
from compiler_lens.views.parts import Tone, quiet
from compiler_lens.views.text import plural

_CASES = 12  # of one change, listed


def kernels(asked: Asked) -> tuple[Block, ...]:
    """Return every change of a kernel; then what was only timed anew."""
    d = asked.diff
    blocks: list[Block] = [paragraph(told.kernels_line(d), tone=Tone.STRONG)]
    blocks += [Section("", _change(change)) for change in d.kernels]
    if d.retuned:
        retuned = paragraph(told.retuned_line(d), tone=Tone.QUIET)
        blocks.append(Section("", (retuned, *_cases(d.retuned, with_names=True))))
    if d.kernels:
        first = (d.kernels[0].first.before or d.kernels[0].first.after)[0]
        blocks.append(Section("", (Command("both sources of one: ", f"kernel {first.kernel}", indent=0),)))
    return tuple(blocks)


def _change(change: KernelChange) -> tuple[Block, ...]:
    method = f", matched by {told.METHODS[change.method]}" if change.method else ""
    return (
        paragraph(told.change_line(change), tone=Tone.STRONG),
        line(quiet(f"{told.VERDICTS[change.verdict]}{method}"), indent=2),
        *_cases(change.cases, with_names=len(change.cases) > 1),
    )


def _cases(cases: tuple[Case, ...], *, with_names: bool) -> list[Block]:
    blocks: list[Block] = []
    for case in cases[:_CASES]:
        parts = [told.names(case) if with_names else "", differences(case.differences, 8)]
        text = (": ".join(filter(None, parts)) + told.microseconds(case.times)).removeprefix("; ")
        if len(cases) > 1 or text:
            blocks.append(paragraph(quiet(f"{told.case_names(case)}  "), text, indent=4))
    if len(cases) > _CASES:
        blocks.append(line(quiet(f"… {plural(len(cases) - _CASES, 'more')}"), indent=4))
    return blocks
