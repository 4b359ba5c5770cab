"""What may be concluded from measured rows: spreads, noise, break-even, the choice."""

import math

import pytest
from msgspec.structs import replace

from compiler_lens.facts.measured.modes import (
    Comparison,
    Compiled,
    Deviation,
    NoVerdict,
    Row,
    Timing,
    Why,
    above_noise,
    break_even,
    choose,
    is_doubtful,
    is_unsteady,
    largest_drift,
    no_verdict,
    speedup,
)


def row(name: str, *seconds: float, cold: float | None = None, **more: object) -> Row:
    return Row(name, timings=(Timing("call", (seconds,)),), cold_seconds=cold, **more)


def compared(*rows: Row, **more: object) -> Comparison:
    return Comparison(rows, ("call",), **{"reference": "fp64", **more})


EAGER = row("eager", 9.9, 10.0, 10.1)


def test_quartiles_are_between_the_values() -> None:
    assert Timing("call", ((3.0,),)).quartiles == (3.0, 3.0, 3.0)
    assert Timing("call", ((1.0, 2.0, 3.0, 4.0),)).quartiles == pytest.approx((1.5, 2.5, 3.5))
    assert Timing("call", ((4.0, 1.0, 3.0, 2.0),)).quartiles == pytest.approx((1.5, 2.5, 3.5))
    assert Timing("call", ((1.0, 2.0), (3.0, 4.0))).median == pytest.approx(2.5)


def test_each_pass_counts_alike_however_many_calls_it_had() -> None:
    uneven = Timing("call", ((1.0,) * 500, (9.0,) * 5))
    low, _, high = uneven.quartiles
    assert (low, high) == (1.0, 9.0), "500 calls of one pass hide the other pass"
    assert uneven.drift == 9.0
    assert is_unsteady(Row("default", timings=(uneven,)))
    assert not is_unsteady(row("default", 1.0, 2.0))


def test_tokens_per_second_come_from_the_median() -> None:
    assert Timing("decode", ((0.5, 0.5, 4.0),), tokens=64).tokens_per_second == pytest.approx(128)
    assert Timing("decode", ((0.5,),)).tokens_per_second is None


def test_noise_is_where_the_middle_halves_overlap() -> None:
    wide, narrow = row("a", 1.0, 2.0, 3.0), row("b", 3.3, 3.3, 3.3)
    assert wide.quartiles == pytest.approx((1.25, 2.0, 2.75))
    for near in (2.7, 1.3):
        assert not above_noise(row("b", near, near, near), wide)
        assert not above_noise(wide, row("b", near, near, near))
    assert above_noise(wide, row("b", 2.8, 2.8, 2.8))
    assert above_noise(row("b", 1.2, 1.2, 1.2), wide), "a wide spread hides nothing that lies outside of it"
    assert not above_noise(narrow, narrow)
    assert not above_noise(narrow, Row("failed", failure="RuntimeError: no"))


def test_break_even_is_in_whole_calls() -> None:
    assert break_even(row("default", 4.0), EAGER, 60.0) == 10
    assert break_even(row("default", 4.0), EAGER, 61.0) == 11
    assert break_even(row("default", 4.0), EAGER, 0.0) == 0
    assert break_even(row("slow", 11.0), EAGER, 60.0) is None
    assert break_even(row("default", 9.95), EAGER, 60.0) is None, "what is saved is noise"
    assert break_even(row("default", 4.0), None, 60.0) is None
    assert break_even(row("default", 4.0), EAGER, None) is None


def test_phases_are_told_apart_and_added_up() -> None:
    before = Row("eager", timings=(Timing("prefill", ((1.0,),)), Timing("decode", ((9.0,),))))
    after = Row("default", timings=(Timing("prefill", ((2.0,),)), Timing("decode", ((3.0,),))))
    assert speedup(after, before, "prefill") == 0.5
    assert speedup(after, before, "decode") == 3.0
    assert speedup(after, before) == 2.0
    assert break_even(after, before, 50.0) == 10


def test_the_fastest_is_used() -> None:
    best = choose(compared(EAGER, row("default", 5.0, cold=1.0), row("max-autotune", 2.0, cold=99.0)))
    assert best is not None
    assert (best.row.name, best.why, best.equals, best.speedup) == ("max-autotune", Why.FASTEST, (), 5.0)


def test_of_equals_the_one_that_compiles_soonest_is_used() -> None:
    near, dear = row("reduce-overhead", 2.0, 2.1, 2.2, cold=3.0), row("max-autotune", 1.9, 2.0, 2.1, cold=99.0)
    best = choose(compared(EAGER, near, dear, row("default", 5.0, cold=1.0)))
    assert best is not None
    assert (best.row, best.why, best.equals) == (near, Why.CHEAPEST, (dear,))


def test_eager_is_used_where_nothing_is_faster_but_for_noise() -> None:
    best = choose(compared(EAGER, row("default", 9.95, cold=1.0), row("max-autotune", 12.0, cold=9.0)))
    assert best is not None
    assert (best.row.name, best.why) == ("eager", Why.NO_GAIN)


def test_a_fastest_row_of_wide_spread_makes_no_equals_of_slow_ones() -> None:
    steady, unsteady = row("default", 5.0, 5.0, 5.0, cold=1.0), row("max-autotune", 1.0, 4.8, 9.0, cold=9.0)
    slow = row("slow", 7.0, cold=0.5)
    best = choose(compared(row("eager", 8.0, 8.0, 8.0), steady, unsteady, slow))
    assert best is not None
    assert (best.row, best.why, best.equals) == (steady, Why.CHEAPEST, (unsteady,))


def test_rows_that_run_the_kernels_of_default_are_default() -> None:
    same = Compiled(1, 0, 2, 2, same_as_default=True)
    default = row("default", 5.0, 5.1, cold=9.0)
    luck = row("max-autotune", 1.0, 1.1, cold=1.0, compiled=same)
    best = choose(compared(EAGER, default, luck))
    assert best is not None
    assert (best.row, best.why, best.equals, best.same) == (default, Why.FASTEST, (), (luck,))
    other = replace(luck, compiled=replace(same, same_as_default=False))
    assert choose(compared(EAGER, default, other)).row is other
    alone = choose(compared(EAGER, luck))
    assert alone is not None
    assert alone.row is luck, "without a row of default there is nothing to use in its place"


def test_passes_that_disagree_give_no_verdict() -> None:
    wild = Row("max-autotune", timings=(Timing("call", ((0.1, 0.1), (60.0, 60.0))),), cold_seconds=1.0)
    found = compared(EAGER, wild)
    assert choose(found) is None
    assert no_verdict(found) is NoVerdict.UNSTEADY
    assert largest_drift(found.measured) == pytest.approx(600.0)
    steady = Row("max-autotune", timings=(Timing("call", ((2.0, 2.0), (3.0, 3.0))),), cold_seconds=1.0)
    assert no_verdict(compared(EAGER, steady)) is None
    assert no_verdict(compared(wild)) is None, "of one row there is no verdict to be had"
    assert no_verdict(compared(EAGER, replace(wild, failure="it failed"))) is None
    assert no_verdict(compared()) is NoVerdict.NOTHING


def test_failed_rows_are_never_used() -> None:
    failed = replace(row("default", 1.0), failure="OutOfMemoryError: no room")
    best = choose(compared(EAGER, failed))
    assert best is not None
    assert (best.row.name, best.why) == ("eager", Why.ALONE)
    assert choose(compared(failed)) is None


@pytest.mark.parametrize(
    ("eager", "relative", "reference", "doubtful"),
    [
        (5e-3, 6e-3, "fp64", False),
        (5e-3, 6e-2, "fp64", True),
        (0.0, 6e-8, "fp64", False),
        (5e-3, math.inf, "fp64", True),
        (math.inf, math.inf, "fp64", False),
        (0.0, 0.4, "eager", False),
    ],
)
def test_results_far_from_the_reference_are_doubtful(
    eager: float, relative: float, reference: str, doubtful: bool
) -> None:
    before = replace(EAGER, deviation=Deviation(eager, eager))
    wrong = row("default", 1.0, cold=1.0, deviation=Deviation(relative, relative))
    result = compared(before, wrong, reference=reference)
    assert is_doubtful(wrong, result) is doubtful
    best = choose(result)
    assert best is not None
    assert (best.row is wrong) is not doubtful, "a row with wrong results is recommended"
