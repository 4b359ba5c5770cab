"""What is left to Python has a price: of patches that end as much, the one with less of it is the best."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from compiler_lens.facts.measured.edits import Apart, Edit, EndApart, Lines, Split, Texts
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target
from compiler_lens.facts.measured.in_python import left_to_python, price, runs_less
from compiler_lens.facts.measured.marked_inside import Inside
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.measure.fix.choices import outermost_marks
from compiler_lens.measure.fix.search import Search
from compiler_lens.recording.model import Figures, Results, SourceLine

TEXT = """import torch

def loss(x):
    check(x)
    y = x * 2
    print(y)
    return post(y) * 3

def post(y):
    z = y + 1
    print(z)
    return pick(z)

def pick(z):
    print(z)
    return z
"""
FILE = "train.py"


def lines(before: str, after: str) -> Lines:
    at = [line.strip() for line in TEXT.splitlines()].index(before) + 1
    return Lines(FILE, at, (before,), tuple(after.splitlines()))


def offer(edit: Edit, code: str, *, is_last: bool = True) -> Offer:
    target = Target(SourceLine(FILE, 1, "loss", code), "break")
    return Offer(target, edit, is_last_resort=is_last, keeps_computed=is_last, is_final=is_last)


def mark(name: str, of: str) -> Offer:
    head = f"def {name}({of}):"
    return offer(lines(head, f"@torch.compiler.disable\n{head}"), "print(z)")


def apart(name: str, *codes: str) -> Offer:
    return offer(Apart(FILE, name, codes), codes[0])


REWRITE = offer(lines("check(x)", "torch._assert_async(x.isfinite().all())"), "check(x)", is_last=False)
POST, PICK = mark("post", "y"), mark("pick", "z")
LOSS_APART, POST_APART = apart("loss", "check(x)", "print(y)"), apart("post", "print(z)")
COUNTS = Counts(1, 0, 0, 1, 0, 0.0)
Key = frozenset[Edit]


def seen(breaks: int, *offers: Offer, ops: int = 100, launches: int = 1, kept: int = 0, eager: int = 0) -> Observed:
    return Observed(
        Figures(breaks, 0, eager), Counts(1, breaks, eager, 1, 0, 0.0), offers, (), tuple(one.target for one in offers),
        results=Results.EQUAL, calls=1, operators=ops, launches=launches, kept_out=("post",) * kept,
    )  # fmt: skip


def searched(first: Observed, outcomes: Mapping[Key, Observed]) -> Fix:
    def attempt(_texts: Texts, offers: tuple[Offer, ...]) -> Observed:
        return outcomes.get(frozenset(one.edit for one in offers), replace(seen(9), results=Results.DIFFER))

    first = replace(first, results=Results.UNKNOWN)  # there is nothing to compare it with
    return Search(first, {FILE: TEXT}, FILE, attempt, lambda one: one).result()


def made(found: Fix) -> list[Offer]:
    return list(found.best.offers) if found.best else []


def test_a_function_that_is_python_is_counted_once_however_it_is_divided() -> None:
    split, ending = (
        Split(FILE, "loss"),
        EndApart(FILE, "loss_computed", "return post(y) * 3", lines("def post(y):", "")),
    )
    offers = [offer(split, "a"), offer(ending, "b"), apart("loss_computed_2", "c"), POST, REWRITE]
    near = TEXT.splitlines().index("def post(y):") + 1
    assert left_to_python(offers) == {(FILE, "loss"), (FILE, near)}
    assert left_to_python([REWRITE]) == frozenset()


def test_a_break_at_the_call_of_what_a_mark_keeps_out_costs_less_than_one_that_nobody_asked_for() -> None:
    assert price([POST], seen(2, kept=2)) < price([], seen(1))
    assert price([POST], seen(2, kept=2)) > price([], seen(0))


@pytest.mark.parametrize(
    ("ops", "launches", "is_less"), [(4_000, 100, True), (2_900, 100, False), (109, 1, False), (2_900, 1, True)]
)
def test_graphs_that_do_little_are_no_loss(ops: int, launches: int, is_less: bool) -> None:
    """Of 100 launches with 40 operators each something is lost, and nothing with 29."""
    assert runs_less((), seen(1, ops=100), seen(1, ops=ops, launches=launches)) is is_less


def test_what_runs_nothing_in_graphs_or_loses_most_lines_runs_less() -> None:
    assert runs_less((), seen(1, ops=0, launches=0), seen(1, ops=10, launches=10))
    known = frozenset((FILE, str(number)) for number in range(5))
    many = replace(seen(1, ops=2_900, launches=100), computed=known)
    assert runs_less((), replace(seen(1), computed=frozenset(list(known)[:1])), many)
    assert not runs_less((), replace(seen(1), computed=frozenset(list(known)[:2])), many)


@pytest.mark.parametrize(("ops", "is_less"), [(60, False), (49, True)])
def test_a_function_in_parts_keeps_half_of_the_operators(ops: int, *, is_less: bool) -> None:
    """However often graphs were launched: what runs between parts may be a loop with large ones."""
    made = (apart("loss", "y = post(x)"),)
    assert runs_less(made, seen(1, ops=ops, launches=1), seen(1, ops=100, launches=90)) is is_less
    assert not runs_less((), seen(1, ops=ops, launches=1), seen(1, ops=100, launches=90))


@pytest.mark.parametrize(("launches", "is_less"), [(3, False), (2, True)])
def test_what_is_compiled_by_itself_runs_in_each_call(launches: int, *, is_less: bool) -> None:
    made = (offer(Inside(FILE, "step", ((FILE, "net"),), "", FILE, "torch.compile(step)"), "print(z)"),)
    now, before = (replace(seen(1, ops=60, launches=n), calls=3) for n in (launches, 30))
    assert runs_less(made, now, before) is is_less


def test_one_mark_is_better_than_functions_in_parts_that_launch_graphs_of_little() -> None:
    first = replace(seen(6, POST, ops=2_900, launches=101), parts=(LOSS_APART, POST_APART))
    marked = seen(1, kept=1)
    parts = seen(0, ops=2_900, launches=101)
    known = {frozenset({POST.edit}): marked, frozenset({LOSS_APART.edit, POST_APART.edit}): parts}
    assert made(searched(first, known)) == [POST]
    worth = replace(first, operators=29_000), replace(parts, operators=29_000)
    known[frozenset({LOSS_APART.edit, POST_APART.edit})] = worth[1]
    assert made(searched(worth[0], known)) == [LOSS_APART, POST_APART]


def test_what_cannot_be_mended_gets_marks_together_where_each_alone_ends_too_little() -> None:
    others = replace(PICK, target=replace(PICK.target, kind="other"))
    first = seen(6, POST, others)
    known = {
        frozenset({POST.edit}): seen(4, others), frozenset({others.edit}): seen(4, POST),
        frozenset({POST.edit, others.edit}): seen(2, kept=2),
    }  # fmt: skip
    assert set(made(searched(first, known))) == {POST, others}


def test_a_rewrite_that_helped_is_made_before_its_function_is_divided() -> None:
    """On top of it nothing is divided, as it happens: without it the function was, at its line as well."""
    first = replace(seen(6, REWRITE, eager=1), parts=(LOSS_APART, POST_APART))
    known = {
        frozenset({REWRITE.edit}): seen(5, eager=1),
        frozenset({LOSS_APART.edit, POST_APART.edit}): seen(0),
        frozenset({REWRITE.edit, LOSS_APART.edit, POST_APART.edit}): seen(0, ops=110),
    }
    found = searched(first, known)
    assert made(found) == [REWRITE, LOSS_APART, POST_APART]
    assert found.best is not None
    assert "    torch._assert_async" in found.best.texts[FILE]


def test_a_function_that_need_not_be_divided_is_not() -> None:
    first = replace(seen(6), parts=(LOSS_APART, POST_APART))
    known = {frozenset({LOSS_APART.edit, POST_APART.edit}): seen(0), frozenset({POST_APART.edit}): seen(0)}
    assert made(searched(first, known)) == [POST_APART]


def test_of_patches_that_leave_as_much_to_python_the_one_that_launches_less_is_better() -> None:
    first = seen(6, POST, PICK, ops=120, launches=30)
    known = {frozenset({POST.edit}): seen(1, kept=1, launches=20), frozenset({PICK.edit}): seen(1, kept=1, launches=2)}
    assert made(searched(first, known)) == [PICK]


@pytest.mark.parametrize(
    ("recompiles", "ops", "launches", "is_divided"),
    [(1, 100, 5, False), (4, 100, 5, True), (1, 90, 5, True), (1, 100, 9, True)],
)
def test_functions_are_not_divided_to_compile_as_much_more_often(
    recompiles: int, ops: int, launches: int, *, is_divided: bool
) -> None:
    plain = seen(3, ops=ops, launches=launches)
    plain = replace(plain, figures=Figures(3, recompiles, 0), counts=replace(COUNTS, breaks=3, recompiles=recompiles))
    apart = replace(seen(0, launches=5), figures=Figures(0, 2, 0), counts=replace(COUNTS, recompiles=2))
    first = replace(seen(9, REWRITE, launches=9), parts=(LOSS_APART,), figures=Figures(9, 9, 0))
    first = replace(first, counts=replace(COUNTS, breaks=9, recompiles=9))
    both = frozenset({REWRITE.edit, LOSS_APART.edit})
    found = searched(first, {frozenset({REWRITE.edit}): plain, frozenset({LOSS_APART.edit}): apart, both: apart})
    assert (LOSS_APART in made(found)) is is_divided


def test_what_says_less_is_not_made_again() -> None:
    """Nor is what is for a line that the best mends in another way."""
    silent = offer(lines("print(y)", "if not torch.compiler.is_compiling():\n    print(y)"), "print(y)", is_last=False)
    first = replace(seen(6, silent), parts=(LOSS_APART,))
    known = {frozenset({silent.edit}): seen(5), frozenset({LOSS_APART.edit}): seen(0)}
    known[frozenset({silent.edit, LOSS_APART.edit})] = seen(0, ops=110)
    assert made(searched(first, known)) == [LOSS_APART]


def test_breaks_at_the_calls_of_what_a_mark_keeps_out_speak_against_no_mark() -> None:
    """In a function that ran eagerly one break was counted; compiled, its calls are cut each time that it is."""
    known = {frozenset({POST.edit}): seen(3, kept=3)}
    assert made(searched(seen(2, POST, eager=1), known)) == [POST]
    assert made(searched(seen(2, POST, eager=1), {frozenset({POST.edit}): seen(3, kept=0)})) == []


def test_of_marks_for_one_thing_the_outermost_may_keep_out_what_those_within_it_may() -> None:
    inner, outer = (replace(one, may_lose=frozenset({(FILE, name)})) for one, name in ((PICK, "z"), (POST, "y")))
    other = replace(mark("loss", "x"), target=replace(PICK.target, kind="other"))
    found = outermost_marks([inner, outer, other, REWRITE])
    assert [one.edit for one in found] == [POST.edit, other.edit]
    assert found[0].may_lose == {(FILE, "y"), (FILE, "z")}


def test_what_by_all_counts_leaves_more_than_half_is_not_the_best_where_functions_are_python() -> None:
    """AOTAutograd may count more than Dynamo, which a closer look shows."""
    first = replace(seen(9, POST), results=Results.UNKNOWN)
    more = Figures(7, 0, 0)

    def attempt(_texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        return seen(2, kept=1)

    def confirm(one: Observed, _texts: Texts, _offers: tuple[Offer, ...]) -> Observed:
        return replace(one, figures=more, counts=Counts(1, 7, 0, 1, 0, 0.0))

    assert Search(first, {FILE: TEXT}, FILE, attempt, lambda one: one).result().best is not None
    assert Search(first, {FILE: TEXT}, FILE, attempt, lambda one: one, confirm).result().best is None
