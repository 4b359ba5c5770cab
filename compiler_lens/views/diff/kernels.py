"""Kernels of two recordings: every change and how it was matched, and the code of what stands for what."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from compiler_lens.facts.compare.model import Case, MatchMethod, Times, Verdict
from compiler_lens.facts.program.select import kernel_name
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.pairs import Lines, Pair, side_code
from compiler_lens.views.diff.views import Asked
from compiler_lens.views.document import Block, Column, Section, Table, line, paragraph
from compiler_lens.views.parts import Cell, KernelName, Kind, Part, Tone, ToView, quiet, strong
from compiler_lens.views.text import plural

SAME_CODE = "the same code, names and numbers aside"
LISTED = 99  # differences of one pair, told
TIMES = (
    Column("before", Kind.MICROSECONDS),
    Column("after", Kind.MICROSECONDS),
    Column("difference", Kind.GAIN),
)
_CASES = 12  # of one change, listed


def kernels(asked: Asked) -> Iterator[Block]:
    """Yield every change of a kernel; then what was only timed anew; what is identical, where there is room."""
    d = asked.diff
    if asked.halves:
        yield Section("Kernels", tuple(_tables(asked)), told.kernels_line(d))
        return
    yield paragraph(told.kernels_line(d), tone=Tone.STRONG)
    for change in d.kernels:
        text = paragraph(told.change_line(change), tone=Tone.STRONG)
        became = line(quiet(_became(told.VERDICTS[change.verdict], change.method)), indent=2)
        yield Section("", (text, became, *_cases(change.cases, with_names=len(change.cases) > 1)))
    if d.retuned:
        retuned = paragraph(told.retuned_line(d), tone=Tone.QUIET)
        yield Section("", (retuned, *_cases(d.retuned, with_names=True)))
    if d.kernels:
        first = (d.kernels[0].first.before or d.kernels[0].first.after)[0]
        yield Section("", (doc.Command("both sources of one: ", f"kernel {first.kernel}", indent=0),))


def _became(verdict: str, method: MatchMethod | None) -> str:
    return f"{verdict}, matched by {told.METHODS[method]}" if method else verdict


def _cases(cases: tuple[Case, ...], *, with_names: bool) -> Iterator[Block]:
    for case in cases[:_CASES]:
        parts = [told.names(case) if with_names else "", told.differences(case.differences, 8)]
        text = (": ".join(filter(None, parts)) + told.microseconds(case.times)).removeprefix("; ")
        if len(cases) > 1 or text:
            yield paragraph(quiet(f"{told.case_names(case)}  "), text, indent=4)
    if len(cases) > _CASES:
        yield line(quiet(f"… {plural(len(cases) - _CASES, 'more')}"), indent=4)


# -- as tables


def _tables(asked: Asked) -> Iterator[Block]:
    """What differs, what was timed anew, and what does not differ, which is folded."""
    d, pairs = asked.diff, list(enumerate(asked.pairs))
    differing = [n for n, pair in pairs if pair.change is not None]
    retuned = [n for n, pair in pairs if pair.change is None and pair.first.differences]
    same = [n for n, pair in pairs if pair.change is None and not pair.first.differences]
    if len(differing) > len(d.kernels):
        columns = (
            Column("change"), Column("verdict", choice=True), Column("match", choice=True),
            Column("launches", Kind.COUNT), *TIMES,
        )  # fmt: skip
        rows = tuple(
            (
                change_link(asked, number, told.change_words(change)), told.verdict(change),
                told.METHODS[change.method], _launches(change.cases), *time_cells(change.times),
            )
            for number, change in enumerate(d.kernels)
        )  # fmt: skip
        yield Section("Changes", (Table(columns, rows, title="Changes"),), plural(len(rows), "change"))
    if differing:
        name = "Kernels that differ"
        yield Section(name, (_pair_table(asked, differing, name),), plural(len(differing), "pair"))
    if retuned:
        yield doc.Aside(told.retuned_line(d), (_pair_table(asked, retuned, "Autotuned differently"),))
    if same:
        many = f"{plural(sum(len(asked.pairs[n].cases) for n in same), 'launch', 'launches')} identical"
        table = _pair_table(asked, same, "Identical")
        yield doc.Aside(many, (table,)) if differing or retuned else Section(many, (table,))


def change_link(asked: Asked, number: int, words: str) -> Part:
    """Return what leads to a change: that of one pair is told by the pair itself."""
    own = _of_change(asked, number)
    return KernelName(words, own[0], Tone.PLAIN) if len(own) == 1 else ToView(words, "change", number + 1)


def change_blocks(asked: Asked, number: int) -> tuple[Block, ...]:
    """Return what is to be said of a change, from 0, below its name."""
    change = asked.diff.kernels[number]
    times = told.microseconds(change.times).removeprefix("; ")
    figures = doc.KeyFigures(tuple(filter(None, (_became(told.verdict(change), change.method), times))))
    return figures, _pair_table(asked, _of_change(asked, number), "Kernels")


def _of_change(asked: Asked, number: int) -> range:
    """The places of its pairs: they are in the order of changes, those of none at the end."""
    last = len(asked.diff.kernels)

    def change(pair: Pair) -> int:
        return last if pair.change is None else pair.change

    return range(*(bisect_left(asked.pairs, n, key=change) for n in (number, number + 1)))


def _pair_table(asked: Asked, numbers: Sequence[int], title: str) -> Table:
    """Pairs, as they are matched, with how each differs."""
    columns = (
        Column("kernel"), Column("how it differs", Kind.CODE), *TIMES, Column("verdict", choice=True),
        Column("match", choice=True), Column("launches", Kind.COUNT), Column("id", choice=True),
        Column("pass", choice=True),
    )  # fmt: skip
    firsts = [asked.pairs[number].first for number in numbers]
    with_id = len({one.compile_id for case in firsts for one in (*case.before, *case.after)}) > 1
    rows: list[tuple[Cell, ...]] = []
    for number, case in zip(numbers, firsts, strict=True):
        pair, one = asked.pairs[number], (case.after or case.before)[0]
        rows.append((
            KernelName(told.names(case), number), told.differences(case.differences, LISTED) or told.grouping(case),
            *time_cells(pair.times), pair.verdict, told.METHODS[pair.method], _launches(pair.cases),
            f"[{one.compile_id}]" if with_id else None, words.PASSES[one.direction],
        ))  # fmt: skip
    return Table(columns, tuple(rows), title=title)


def pair_became(pair: Pair) -> str:
    """Return what became of a pair, and how that is known."""
    return _became(pair.verdict, pair.method if pair.change is not None else None)


def _launches(cases: Sequence[Case]) -> Cell:
    before, after = sum(len(case.before) for case in cases), sum(len(case.after) for case in cases)
    return before if before == after else f"{before:,} → {after:,}"


def time_cells(times: Times | None) -> tuple[Cell, Cell, Cell]:
    """Return what was taken before and after, microseconds, and the difference; 0 where it is not above noise."""
    if times is None:
        return None, None, None
    return times.before, times.after, -times.gain if times.above_noise else 0.0


# -- code


def codes(asked: Asked) -> tuple[Block, ...]:
    """Return the code of every change, of its first case; another configuration is not another code."""
    changes = [change for change in asked.diff.kernels if not told.is_configuration(change)]
    counted = plural(len(changes), "change") if changes else "no kernel's code differs"
    return (Section("Code", tuple(_case(asked, change.verdict, change.first) for change in changes), counted),)


def kernel(asked: Asked) -> tuple[Block, ...]:
    """Return both sources of a kernel of either side.

    Raises `UsageError` where neither side has a kernel of that name.
    """
    cases = [(change.verdict, case) for change in asked.diff.kernels for case in change.cases]
    cases += [(Verdict.IDENTICAL, case) for case in asked.diff.identical]
    names = dict.fromkeys(one.kernel for _, case in cases for one in (*case.before, *case.after))
    meant = kernel_name(asked.name, names, "on either side")
    found: dict[tuple[Verdict, Lines], Block] = {}
    for verdict, case in cases:
        own = tuple(one.kernel for one in (*case.before, *case.after))
        if meant in own and (verdict, own) not in found:  # each pair of kernels once
            found[verdict, own] = _case(asked, verdict, case)
    return tuple(found.values())


def _case(asked: Asked, verdict: Verdict, case: Case) -> Section:
    values = told.differences(case.differences, LISTED)
    in_what = f": {values}" if values else ""
    text = f"{told.case_names(case)}, {told.VERDICTS[verdict]}{in_what}{told.microseconds(case.times)}"
    known = [{kernel.id: kernel for kernel in reversed(side.kernels)} for side in (asked.before, asked.after)]
    left = side_code(case.before, lambda one: known[0].get(one.kernel_id))
    right = side_code(case.after, lambda one: known[1].get(one.kernel_id))
    head = line(strong(told.names(case)), whole=True), paragraph(text, indent=2, tone=Tone.QUIET)
    return Section("", (*head, *code_blocks(left, right, "")))


def code_blocks(left: Lines, right: Lines, language: str) -> tuple[Block, ...]:
    """Return both sides of some code; where they are the same, once."""
    if left == right:
        return line(quiet(SAME_CODE), indent=2), doc.Listing("\n".join(left), language)
    return (doc.Comparison(left, right, language),)
