"""Positions: nothing on top of anything else, lines from box to box, long chains in columns."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from compiler_lens.render.picture.layout import Link, place


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
