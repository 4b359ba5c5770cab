"""Sequences aligned: by hand, and against what must hold of any."""

import random
from itertools import pairwise

import pytest
from two_recordings import cpu, edited

from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.align import align, gaps, kth, moved


def test_an_insertion_leaves_all_else_in_place() -> None:
    assert align("abcdef", "abcXdef") == [(0, 0), (1, 1), (2, 2), (3, 4), (4, 5), (5, 6)]


def test_what_is_unique_holds_what_repeats() -> None:
    """A layer less: the others keep their partners."""
    before, after = "a1xxb2xxc3xxd", "a1xxc3xxd"
    pairs = align(before, after)

    assert len(pairs) == len(after)
    assert (before.index("c"), after.index("c")) in pairs


def test_a_layer_less_where_nothing_tells_layers_apart() -> None:
    assert len(align("xyz" * 12, "xyz" * 11)) == 33


def test_what_moved_is_found_behind_what_stayed() -> None:
    before, after = "abcdefg", "bcdefga"
    pairs = align(before, after)

    assert [before[b] for b, _ in pairs] == list("bcdefg")
    assert moved(before, after, pairs) == [(0, 6)]


def test_gaps_are_where_both_sides_have_something() -> None:
    assert list(gaps([(0, 0), (3, 2)], 5, 3)) == [(range(1, 3), range(1, 2))]


@pytest.mark.parametrize("seed", range(60))
def test_pairs_are_equal_in_order_and_the_same_from_both_sides(seed: int) -> None:
    chance = random.Random(seed)
    letters = "ab" if seed % 3 == 0 else "abcdefghijklmnop"
    before = [chance.choice(letters) for _ in range(chance.randrange(40))]
    after = list(before)
    for _ in range(chance.randrange(12)):
        at = chance.randrange(len(after) + 1)
        after[at : at + chance.randrange(3)] = chance.choices(letters, k=chance.randrange(3))
    pairs = align(before, after)

    assert all(before[b] == after[a] for b, a in pairs)
    assert all(x[0] < y[0] and x[1] < y[1] for x, y in pairwise(pairs))
    assert align(after, before) == [(a, b) for b, a in pairs]
    if len(letters) > 2:
        kept = len(set(before) & set(after))
        assert len(pairs) >= min(kept, 1)


def test_it_grows_with_n_log_n(calls_of) -> None:
    def step(n: int):
        before = [i % 997 for i in range(n)]
        after = [x for i, x in enumerate(before) if i % 50]
        return lambda: align(before, after)

    small, large = calls_of(step(4_000)), calls_of(step(16_000))
    assert large < 5 * small


def test_lines_and_files_that_move_leave_a_graph_as_it_is() -> None:
    from msgspec.structs import replace

    one = cpu("base")
    moved_lines = edited(
        one, lambda n: replace(n, source=tuple(replace(at, line=at.line + 7, file="/b" + at.file) for at in n.source))
    )
    assert diff(one, moved_lines).is_empty


def test_a_module_that_was_renamed_leaves_a_graph_as_it_is() -> None:
    from msgspec.structs import replace

    one = cpu("base")
    renamed = edited(one, lambda n: replace(n, module=n.module.replace("layers", "blocks")))
    d = diff(one, renamed)

    assert d.is_empty
    assert len(d.identical) == d.before.launches


def test_the_kth_of_each_key_is_paired_with_the_kth_and_the_rest_is_left_in_order() -> None:
    pairs, left, right = kth("abacx", "aabbz", str, str)
    assert pairs == [("a", "a"), ("b", "b"), ("a", "a")]
    assert (left, right) == (["c", "x"], ["b", "z"])


def test_what_has_no_key_is_paired_with_nothing() -> None:
    def key(item: int) -> int | None:
        return item or None

    assert kth([0, 1, 0], [0, 1], key, key) == ([(1, 1)], [0, 0], [0])


def test_each_side_has_a_key_of_its_own() -> None:
    pairs, left, right = kth([1, 2, 3], [10, 30, 50], lambda item: item * 10, lambda item: item)
    assert (pairs, left, right) == ([(1, 10), (3, 30)], [2], [50])
