"""Which breaks only follow from others, by recordings made by hand; what is not sure keeps a card of its own."""

from __future__ import annotations

import pytest
import sample_recordings as samples
from msgspec.structs import replace

from compiler_lens.facts.breaks.cards import break_cards
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    CompileId,
    Outcome,
    Recording,
    SourceFile,
    SourceLine,
)

ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
ROWS = BreakCause("Dynamic shape operator")
LOST = BreakCause("Missing tp_iternext")
UNREBUILT = BreakCause("Reconstruction failure")
SKIPPED, SPLIT, REST = BreakOutcome.SKIPPED_FRAME, BreakOutcome.SPLIT, BreakOutcome.SKIPPED_REST
FILE = samples.MODEL

TEXT = """\
def outer(x, flag):
    x = inner(x)
    if flag:
        x = inner(x)
    x = flag and inner(x)
    x = middle(x, flag)
    for i in range(3):
        x = inner(x)
        if x.sum() > 0:
            x = x * 2
    return x
def middle(x, flag):
    if flag:
        x = inner(x)
    return inner(x)
def inner(x):
    a = next(x)
    return a + 1
def rows_of(x, y):
    rows = x.nonzero()
    for row in rows:
        number = row[0]
        if number == 3:
            continue
        if y[row].sum() > 0:
            print(row)
        number = y.sum()
        if number > 0:
            break
    for i, (row, part) in enumerate(zip(rows, y)):
        if row > 0:
            pass
    for row, part in zip(rows, y):
        if row.item() > 3:
            pass
        if part > 3:
            pass
    kept = x[x > 0]
    for value in kept:
        if value > 3:
            pass
"""
LINES = {"outer": 1, "middle": 12, "inner": 16, "rows_of": 19}
CODES = TEXT.splitlines()


def at(function: str, line: int) -> SourceLine:
    return SourceLine(FILE, line, function, CODES[line - 1].strip())


def stack(*calls: tuple[str, int]) -> tuple[SourceLine, ...]:
    return samples.CALLED, *(at(*call) for call in calls)


def broke(
    frame: int,
    cause: BreakCause,
    *calls: tuple[str, int],
    outcome: BreakOutcome = SPLIT,
    recompile: int = 0,
    attempt: int = 0,
):
    way = stack(*calls)
    return replace(
        samples.graph_break(frame, cause, 1, "", outcome),
        compile_id=CompileId(frame, recompile), user_stack=way, location=way[-1], attempt=attempt,
    )  # fmt: skip


def compiled(frame: int, *calls: tuple[str, int], function: str = "", recompile: int = 0):
    """The compiling of a frame that stands innermost on a way; its own line there is its first."""
    name = function or calls[-1][0]
    line = LINES.get(name, calls[-1][1])
    way = (*stack(*calls[:-1]), SourceLine(FILE, line, name))
    return samples.compilation(frame, recompile, name, Outcome.COMPILED, stack=way, line=line)


def cards(*breaks, frames, text: str = TEXT):
    files = (SourceFile(FILE, text),) if text else ()
    found = break_cards(Recording(compilations=tuple(frames), graph_breaks=tuple(breaks), sources=files))
    assert sorted(id(e) for card in found for e in card.events) == sorted(map(id, breaks))
    return {card.place.line: (card.direct, len(card.events)) for card in found}


OUTER, BRANCH = compiled(0, ("outer", 1)), samples.BRANCHING
GAVE_UP = broke(0, BRANCH, ("outer", 9), outcome=SKIPPED)


# -- one call, traced past this point until something else broke it


def test_a_function_that_broke_only_because_its_caller_was_given_up_follows_from_what_broke_the_caller():
    below = broke(1, LOST, ("outer", 2), ("inner", 17))
    frames = [OUTER, compiled(1, ("outer", 2), ("inner", 16))]
    assert cards(GAVE_UP, below, frames=frames) == {9: (1, 2)}


def test_through_a_function_between_that_always_calls_it():
    way = ("outer", 6), ("middle", 15)
    below = broke(1, LOST, *way, ("inner", 17))
    assert cards(GAVE_UP, below, frames=[OUTER, compiled(1, *way, ("inner", 16))]) == {9: (1, 2)}


@pytest.mark.parametrize(
    "way",
    [(("outer", 4),), (("outer", 5),), (("outer", 6), ("middle", 14))],
    ids=["in a branch", "behind an and", "in a branch of a function between"],
)
def test_what_the_traced_call_need_not_have_passed_is_a_root_of_its_own(way):
    below = broke(1, LOST, *way, ("inner", 17))
    assert cards(GAVE_UP, below, frames=[OUTER, compiled(1, *way, ("inner", 16))]) == {9: (1, 1), 17: (1, 1)}


def test_a_call_in_the_loop_that_broke_may_be_of_another_round_with_other_objects():
    below = broke(1, LOST, ("outer", 8), ("inner", 17))
    frames = [OUTER, compiled(1, ("outer", 8), ("inner", 16))]
    assert cards(GAVE_UP, below, frames=frames) == {9: (1, 1), 17: (1, 1)}


def test_a_recompile_is_for_a_call_that_nobody_traced():
    below = broke(1, LOST, ("outer", 2), ("inner", 17), recompile=1)
    frames = [OUTER, compiled(1, ("outer", 2), ("inner", 16)), compiled(1, ("outer", 2), ("inner", 16), recompile=1)]
    assert cards(GAVE_UP, below, frames=frames) == {9: (1, 1), 17: (1, 1)}


def test_but_where_the_first_compilation_followed_so_does_a_later_one():
    first, later = (broke(1, LOST, ("outer", 2), ("inner", 17), recompile=i) for i in range(2))
    frames = [OUTER, *(compiled(1, ("outer", 2), ("inner", 16), recompile=i) for i in range(2))]
    assert cards(GAVE_UP, first, later, frames=frames) == {9: (1, 3)}


def test_a_recompilation_that_breaks_at_an_earlier_line_is_a_root():
    earlier = broke(0, LOST, ("outer", 2), ("inner", 17), recompile=1)
    frames = [OUTER, compiled(0, ("outer", 1), recompile=1)]
    assert cards(GAVE_UP, earlier, frames=frames) == {9: (1, 1), 17: (1, 1)}


def test_what_breaks_behind_the_break_is_a_root():
    late = broke(0, BRANCH, ("outer", 4), outcome=SKIPPED)
    below = broke(1, LOST, ("outer", 8), ("inner", 17))
    assert cards(late, below, frames=[OUTER, compiled(1, ("outer", 8), ("inner", 16))]) == {4: (1, 1), 17: (1, 1)}


def test_what_a_split_frame_did_before_the_break_stays_compiled_so_nothing_there_follows():
    split = broke(0, BRANCH, ("outer", 9))
    below = broke(1, LOST, ("outer", 2), ("inner", 17))
    assert cards(split, below, frames=[OUTER, compiled(1, ("outer", 2), ("inner", 16))]) == {9: (1, 1), 17: (1, 1)}


def test_but_a_call_that_a_break_was_inside_of_runs_by_itself_and_what_breaks_before_follows():
    inside = broke(0, ITEM, ("outer", 2), ("inner", 18))
    below = broke(1, LOST, ("outer", 2), ("inner", 17))
    assert cards(inside, below, frames=[OUTER, compiled(1, ("outer", 2), ("inner", 16))]) == {18: (1, 2)}


def test_one_function_called_twice_is_told_apart_by_where_it_is_called():
    inside = broke(0, ITEM, ("outer", 2), ("inner", 18))
    below = broke(1, LOST, ("outer", 8), ("inner", 17))
    assert cards(inside, below, frames=[OUTER, compiled(1, ("outer", 8), ("inner", 16))]) == {18: (1, 1), 17: (1, 1)}


def test_one_function_called_twice_from_one_line_may_break_twice():
    inside = broke(0, ITEM, ("outer", 2), ("inner", 18))
    own = broke(1, ITEM, ("outer", 2), ("inner", 18))
    second = broke(2, LOST, ("outer", 2), ("inner", 17))
    frames = [
        OUTER,
        compiled(1, ("outer", 2), ("inner", 16)),
        compiled(2, ("outer", 2), function="torch_dynamo_resume_in_outer_at_2"),
    ]
    assert cards(inside, own, second, frames=frames) == {18: (2, 2), 17: (1, 1)}


def test_what_a_resume_function_passed_does_not_begin_at_the_functions_start():
    rest = compiled(1, ("outer", 5), function="torch_dynamo_resume_in_outer_at_5")
    gave_up = broke(1, BRANCH, ("outer", 9), outcome=SKIPPED)
    below = broke(2, LOST, ("outer", 2), ("inner", 17))
    assert cards(gave_up, below, frames=[OUTER, rest, compiled(2, ("outer", 2), ("inner", 16))]) == {
        9: (1, 1),
        17: (1, 1),
    }


def test_a_call_on_the_line_where_a_resume_function_begins_was_passed_too():
    # The rest of a line is the resume function's: what it calls there was traced before it broke further down.
    rest = compiled(1, ("outer", 6), function="torch_dynamo_resume_in_outer_at_6")
    gave_up = broke(1, BRANCH, ("outer", 9), outcome=SKIPPED)
    way = ("outer", 6), ("middle", 15)
    below = broke(2, LOST, *way, ("inner", 17))
    assert cards(gave_up, below, frames=[OUTER, rest, compiled(2, *way, ("inner", 16))]) == {9: (1, 2)}


def test_what_is_called_on_the_very_line_that_broke_need_not_have_been_reached():
    gave_up = broke(0, BRANCH, ("outer", 2), outcome=SKIPPED)
    below = broke(1, LOST, ("outer", 2), ("inner", 17))
    assert cards(gave_up, below, frames=[OUTER, compiled(1, ("outer", 2), ("inner", 16))]) == {2: (1, 1), 17: (1, 1)}


def test_two_breaks_of_one_function_are_two():
    first, second = broke(0, ITEM, ("inner", 17)), broke(1, LOST, ("inner", 18))
    frames = [compiled(0, ("inner", 16)), compiled(1, ("inner", 17), function="torch_dynamo_resume_in_inner_at_17")]
    assert cards(first, second, frames=frames) == {17: (1, 1), 18: (1, 1)}


def test_a_recursion_is_no_call_of_itself_that_was_traced_before():
    calls = [("inner", 17)] * 3
    outermost = broke(0, ITEM, *calls, ("inner", 18))
    deeper = broke(1, LOST, *calls[:1], ("inner", 17))
    frames = [compiled(0, ("inner", 16)), compiled(1, ("inner", 17), ("inner", 16))]
    assert len(cards(outermost, deeper, frames=frames)) == 2


def test_a_break_before_and_after_another_is_its_own():
    before = broke(0, ITEM, ("outer", 2), ("inner", 18))
    between = broke(1, LOST, ("outer", 6))
    after = broke(2, ITEM, ("outer", 8), ("inner", 18))
    frames = [OUTER, *(compiled(i, ("outer", 2), function="torch_dynamo_resume_in_outer_at_2") for i in (1, 2))]
    assert cards(before, between, after, frames=frames) == {18: (2, 2), 6: (1, 1)}


def test_without_the_source_nothing_is_sure():
    below = broke(1, LOST, ("outer", 2), ("inner", 17))
    frames = [OUTER, compiled(1, ("outer", 2), ("inner", 16))]
    assert cards(GAVE_UP, below, frames=frames, text="") == {9: (1, 1), 17: (1, 1)}


def test_a_group_of_which_one_break_is_its_own_is_a_root():
    below = broke(1, LOST, ("outer", 2), ("inner", 17))
    alone = broke(2, LOST, ("inner", 17))
    frames = [OUTER, compiled(1, ("outer", 2), ("inner", 16)), compiled(2, ("inner", 16))]
    assert cards(GAVE_UP, below, alone, frames=frames) == {9: (1, 1), 17: (2, 2)}


# -- torch was still at work on another


def test_a_frame_given_up_while_it_was_being_split_follows_from_the_break():
    split = broke(0, ITEM, ("outer", 2), ("inner", 18))
    failed = broke(0, UNREBUILT, ("outer", 2), outcome=SKIPPED, attempt=1)
    assert cards(split, failed, frames=[OUTER]) == {18: (1, 2)}


def test_also_where_only_torchs_own_code_is_on_the_stack():
    polyfill = SourceLine(samples.TORCH + "_dynamo/polyfills/itertools.py", 107, "cycle", "saved.append(element)")
    split = broke(0, ITEM, ("outer", 2))
    failed = broke(0, UNREBUILT, ("outer", 2), outcome=SKIPPED, attempt=1)
    failed = replace(failed, user_stack=(samples.CALLED, polyfill), location=polyfill)
    assert cards(split, failed, frames=[OUTER]) == {2: (1, 2)}
    assert cards(failed, frames=[OUTER]) == {1: (1, 1)}, "in the function, not where it is called"


@pytest.mark.parametrize(
    "other",
    [
        broke(0, UNREBUILT, ("outer", 2), outcome=SKIPPED, recompile=1, attempt=1),
        broke(1, UNREBUILT, ("outer", 6), outcome=SKIPPED, attempt=1),
        broke(0, UNREBUILT, ("outer", 6), outcome=SKIPPED),
        broke(0, UNREBUILT, ("outer", 6), attempt=1),
    ],
    ids=["another compilation", "another frame", "the same attempt", "it was split"],
)
def test_a_break_that_torch_was_done_with_has_nothing_to_do_with_it(other):
    split = broke(0, ITEM, ("outer", 4))
    frames = [
        OUTER,
        compiled(0, ("outer", 1), recompile=1),
        compiled(1, ("outer", 4), function="torch_dynamo_resume_in_outer_at_4"),
    ]
    assert len(cards(split, other, frames=frames)) == 2


def test_a_later_attempt_that_breaks_at_an_earlier_line_is_another_break():
    split = broke(0, ITEM, ("outer", 6))
    earlier = broke(0, LOST, ("outer", 2), outcome=SKIPPED, attempt=1)
    assert cards(split, earlier, frames=[OUTER]) == {6: (1, 1), 2: (1, 1)}


# -- a number that the other brought out

ROWS_FRAME = compiled(0, ("rows_of", 19))


@pytest.mark.parametrize(("line", "cause"), [(23, BRANCH), (31, BRANCH), (34, ITEM)])
def test_asking_for_a_row_number_follows_from_what_made_it(line, cause):
    assert cards(
        broke(0, ROWS, ("rows_of", 20)), broke(0, cause, ("rows_of", line), recompile=1), frames=[ROWS_FRAME]
    ) == {20: (1, 2)}


@pytest.mark.parametrize(
    ("made", "line", "cause"),
    [
        (20, 25, BRANCH), (20, 26, samples.PRINTING), (20, 28, BRANCH), (20, 36, BRANCH), (38, 40, BRANCH), (20, 23, LOST),
    ],
    ids=["a value at the row", "a print", "the name has another value", "the other of a zip", "values, no numbers", "not a value"],
)  # fmt: skip
def test_what_would_break_without_the_row_numbers_too_is_a_root(made, line, cause):
    found = cards(
        broke(0, ROWS, ("rows_of", made)), broke(0, cause, ("rows_of", line), recompile=1), frames=[ROWS_FRAME]
    )
    assert found == {made: (1, 1), line: (1, 1)}


def test_rows_that_something_else_brought_out_are_no_root():
    found = cards(broke(0, ITEM, ("rows_of", 20)), broke(0, BRANCH, ("rows_of", 23), recompile=1), frames=[ROWS_FRAME])
    assert found == {20: (1, 1), 23: (1, 1)}


# -- many


def many(count: int) -> Recording:
    """Half of the breaks give up on a caller, half follow from that; each in functions and on lines of their own."""
    lines, frames, breaks = [], [], []
    for i in range(0, count, 2):
        top = len(lines) + 1
        lines += [f"def outer_{i}(x):", f"    x = inner_{i}(x)", "    if x.sum() > 0:", "        x = 2", "    return x"]
        lines += [f"def inner_{i}(x):", "    return next(x)"]
        outer, inner = SourceLine(FILE, top, f"outer_{i}"), SourceLine(FILE, top + 5, f"inner_{i}")
        call, broken = replace(outer, line=top + 1), replace(inner, line=top + 6)
        frames.append(samples.compilation(i, 0, outer.function, line=top, stack=(samples.CALLED, outer)))
        frames.append(samples.compilation(i + 1, 0, inner.function, line=top + 5, stack=(samples.CALLED, call, inner)))
        gave_up = samples.graph_break(i, BRANCH, top + 2, "if x.sum() > 0:", SKIPPED, function=outer.function)
        follows = replace(samples.graph_break(i + 1, LOST, 1, ""), user_stack=(samples.CALLED, call, broken))
        breaks += [gave_up, follows]
    text = SourceFile(FILE, "\n".join(lines) + "\n")
    return Recording(compilations=tuple(frames), graph_breaks=tuple(breaks), sources=(text,))


def test_twice_the_breaks_are_twice_the_work(calls_of):
    small, large = many(500), many(1000)
    first, second = calls_of(lambda: break_cards(small)), calls_of(lambda: break_cards(large))
    assert second < 2.2 * first
    assert [len(card.events) for card in break_cards(small)] == [2] * 250
