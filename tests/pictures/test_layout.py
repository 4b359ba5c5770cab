"""Positions: nothing on top of anything else, lines from box to box, long chains in columns."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from compiler_lens.render.picture.layout import GAP_X, GAP_Y, Link, place


def boxes(placement, sizes):
    return [(x, y, x + w, y + h) for (x, y), (w, h) in zip(placement.places, sizes, strict=True)]


def overlap(one, other):
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def some(seed, count=40):
    rng = random.Random(seed)
    sizes = [(rng.randint(40, 260), rng.choice([28, 42, 57, 120])) for _ in range(count)]
    links = {(rng.randrange(max(0, k - 9), k), k) for k in range(1, count) for _ in range(rng.randint(0, 3))}
    return sizes, [Link(*pair) for pair in sorted(links)]


@pytest.mark.parametrize("seed", range(12))
def test_no_two_boxes_overlap_and_all_are_on_the_page(seed):
    sizes, links = some(seed)
    placed = place(sizes, links)
    found = boxes(placed, sizes)
    for number, one in enumerate(found):
        assert -0.01 <= one[0] <= one[2] <= placed.width + 0.01
        assert -0.01 <= one[1] <= one[3] <= placed.height + 0.01
        assert not any(overlap(one, other) for other in found[:number])


@pytest.mark.parametrize("seed", range(12))
def test_a_line_goes_from_the_foot_of_one_box_to_the_head_of_the_other(seed):
    sizes, links = some(seed)
    placed = place(sizes, links)
    found = boxes(placed, sizes)
    for link, route in zip(links, placed.routes, strict=True):
        (x1, y1), (x2, y2) = route[0], route[-1]
        assert found[link.source][0] <= x1 <= found[link.source][2]
        assert y1 == pytest.approx(found[link.source][3])
        assert found[link.target][0] <= x2 <= found[link.target][2]
        assert y2 == pytest.approx(found[link.target][1])


@pytest.mark.parametrize("seed", range(12))
def test_upright_stretches_of_lines_pass_no_box(seed):
    sizes, links = some(seed)
    placed = place(sizes, links, tallest=1e9)
    found = boxes(placed, sizes)
    for link, route in zip(links, placed.routes, strict=True):
        for (x1, y1), (x2, y2) in pairwise(route):
            if x1 == x2:
                line = (x1 - 0.01, min(y1, y2) + 0.1, x1 + 0.01, max(y1, y2) - 0.1)
                others = [box for number, box in enumerate(found) if number not in {link.source, link.target}]
                assert not any(overlap(line, box) for box in others)


@pytest.mark.parametrize("seed", range(12))
def test_a_line_goes_down_and_boxes_side_by_side_keep_their_distance(seed):
    sizes, links = some(seed)
    placed = place(sizes, links, tallest=1e9)
    found = boxes(placed, sizes)
    for link in links:
        assert found[link.target][1] - found[link.source][3] >= GAP_Y - 0.01
    for number, one in enumerate(found):
        for other in found[:number]:
            if one[1] == other[1]:
                assert max(one[0] - other[2], other[0] - one[2]) >= GAP_X - 0.01


def test_a_box_stands_in_the_middle_of_those_it_points_to():
    placed = place([(80, 40), (80, 40), (80, 40)], [Link(0, 1), Link(0, 2)])
    (top, _), (left, _), (right, _) = placed.places
    assert top == pytest.approx((left + right) / 2, abs=1)
    assert right - left == pytest.approx(80 + GAP_X)


def test_a_box_stands_below_the_one_that_points_to_it_also_at_the_end_of_a_row():
    placed = place([(80, 40)] * 7, [*(Link(0, k) for k in range(1, 6)), Link(5, 6)])
    assert placed.places[6][0] == pytest.approx(placed.places[5][0], abs=1)
    assert placed.places[1][0] < placed.places[0][0] < placed.places[5][0]


def test_boxes_stand_in_an_order_in_which_lines_do_not_cross():
    links = [Link(0, 3), Link(1, 2), Link(3, 4), Link(2, 5)]
    (x0, _), (x1, _), (x2, _), (x3, _), (x4, _), (x5, _) = place([(80, 40)] * 6, links).places
    assert (x0 < x1) == (x3 < x2) == (x4 < x5)


def test_a_line_that_passes_other_boxes_is_straight_where_it_passes():
    # 0 → 4 passes the layers of 1, 2 and 3.
    placed = place([(80, 40)] * 5, [Link(0, 1), Link(1, 2), Link(2, 3), Link(3, 4), Link(0, 4)])
    inner = placed.routes[4][1:-1]
    assert len(inner) == 6  # into and out of each layer that it passes
    assert max(x for x, _ in inner) - min(x for x, _ in inner) < 3
    assert [y for _, y in placed.routes[4]] == sorted(y for _, y in placed.routes[4])


def test_lines_from_one_place_go_together_as_far_as_they_can():
    links = [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 2), Link(0, 3)]
    placed = place([(80, 40)] * 4, links)
    assert placed.routes[3][:3] == placed.routes[4][:3]
    apart = [Link(0, 1), Link(1, 2), Link(2, 3), Link(0, 2, leaves=10.0), Link(0, 3, leaves=70.0)]
    placed = place([(80, 40)] * 4, apart)
    assert placed.routes[3][1] != placed.routes[4][1]


def test_lines_leave_a_box_in_the_order_of_where_they_go_and_stay_on_it():
    placed = place([(60, 40)] + [(120, 40)] * 5, [Link(0, k) for k in (5, 3, 1, 2, 4)])
    starts = [route[0][0] for route in placed.routes]
    by_target = sorted(range(5), key=lambda k: placed.routes[k][-1][0])
    assert [starts[k] for k in by_target] == sorted(starts)
    steps = [b - a for a, b in pairwise(sorted(starts))]
    assert steps == pytest.approx([60 * 0.8 / 5] * 4)
    wide = place([(600, 40)] + [(80, 40)] * 2, [Link(0, 1), Link(0, 2)])
    assert abs(wide.routes[1][0][0] - wide.routes[0][0][0]) == pytest.approx(26.0)


def test_what_comes_first_and_last_is_at_the_edges_and_takes_no_room():
    sizes = [(0, 0), (100, 40), (100, 40), (0, 0)]
    placed = place(sizes, [Link(0, 1), Link(1, 2), Link(2, 3)], first={0}, last={3})
    assert placed.places[0][1] == 0.0
    assert placed.places[3][1] == placed.height == placed.places[2][1] + 40 + 20
    assert placed.routes[0][0][1] == 0.0
    assert placed.routes[2][-1][1] == placed.height
    assert placed.routes[1] == ((50.0, placed.places[1][1] + 40), (50.0, placed.places[2][1]))


def test_lines_to_the_next_column_turn_around_each_other():
    """They go down, aside and up again, each outside of the one to its right."""
    links = [*(Link(k, k + 2) for k in range(78)), Link(0, 3)]
    sizes = [(140, 42)] * 80
    placed = place(sizes, links)
    found = boxes(placed, sizes)
    turns = []
    for route in placed.routes:
        ups = [(low, high) for low, high in pairwise(route) if low[0] == high[0] and high[1] < low[1]]
        for (gutter, bottom), (_, top) in ups:
            assert not any(left < gutter < right for left, _, right, _ in found)
            assert 0 <= top < bottom <= placed.height
            turns.append((gutter, bottom, top))
    assert len(turns) >= 2
    for one, other in pairwise(sorted(set(turns))):
        if other[0] - one[0] < 20:  # to the same column: the outer one turns lower, and comes in lower
            assert one[1] < other[1]
            assert one[2] < other[2]


@pytest.mark.parametrize("count", [13, 60, 200])
def test_columns_are_about_equally_tall_and_side_by_side(count):
    sizes = [(140, 42)] * count
    placed = place(sizes, [Link(k, k + 1) for k in range(count - 1)])
    lefts = sorted({x for x, _ in placed.places})
    tallest = [max(y for x, y in placed.places if x == left) for left in lefts]
    assert (len(lefts) == 1) == (count == 13)
    assert len(lefts) <= 7
    assert max(tallest) - min(tallest) < 42 * 4
    assert all(b - a > 140 for a, b in pairwise(lefts))


def test_a_column_ends_where_few_lines_would_have_to_go_over():
    # Within each five boxes lines pass one; from five to five there is only one line.
    links = [*(Link(k, k + 1) for k in range(59)), *(Link(k, k + 2) for k in range(58) if k % 5 < 3)]
    placed = place([(140, 42)] * 60, links)
    gutters = sorted(a[0] for r in placed.routes for a, b in pairwise(r) if a[0] == b[0] and b[1] < a[1])
    assert gutters
    assert all(right - left > 140 for left, right in pairwise(gutters)), "one line from each column to the next"


def test_a_long_chain_wraps_and_fits_a_screen():
    sizes = [(140, 42)] * 60
    placed = place(sizes, [Link(k, k + 1) for k in range(59)])
    assert placed.height < 1600
    assert 0.5 < placed.width / placed.height < 3


def test_a_short_chain_is_straight():
    placed = place([(100, 40), (60, 40), (140, 40)], [Link(0, 1), Link(1, 2)])
    centres = [x + w / 2 for (x, _), w in zip(placed.places, (100, 60, 140), strict=True)]
    assert centres == pytest.approx([centres[0]] * 3)
    assert all(route[0][0] == pytest.approx(route[-1][0]) for route in placed.routes)


def test_two_lines_into_one_box_enter_apart():
    placed = place([(80, 40), (80, 40), (80, 40)], [Link(0, 2), Link(1, 2)])
    assert placed.routes[0][-1][0] < placed.routes[1][-1][0]


def test_given_places_on_the_edge_are_kept():
    placed = place([(80, 40), (300, 40)], [Link(0, 1, enters=17.0), Link(0, 1, enters=250.0)])
    left = placed.places[1][0]
    assert [route[-1][0] - left for route in placed.routes] == pytest.approx([17.0, 250.0])


def test_the_same_every_time():
    assert place(*some(3)) == place(*some(3))


def test_nothing_at_all():
    assert place([], []).places == ()
