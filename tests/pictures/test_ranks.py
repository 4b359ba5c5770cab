"""Which boxes stand side by side, and in which order."""

from __future__ import annotations

import random
from itertools import combinations, pairwise

import pytest

from compiler_lens.render.picture.ranks import neighbours, ordered, ranks


def crossings(layers, arcs):
    """By the definition: two arcs between the same layers cross if their ends are in opposite order."""
    place = {node: (level, number) for level, layer in enumerate(layers) for number, node in enumerate(layer)}
    ends = [(place[source], place[target]) for source, target in arcs]
    return sum(
        one[0][0] == other[0][0] and (one[0][1] - other[0][1]) * (one[1][1] - other[1][1]) < 0
        for one, other in combinations(ends, 2)
    )


def some(seed):
    rng = random.Random(seed)
    layers = [list(range(level * 6, level * 6 + 6)) for level in range(6)]
    arcs = {(rng.choice(above), rng.choice(below)) for above, below in pairwise(layers) for _ in range(9)}
    return layers, sorted(arcs)


def test_neighbours_are_told_once_and_in_order():
    assert neighbours(4, [(0, 2), (1, 2), (0, 2), (2, 3)]) == ([[], [], [0, 1], [2]], [[2], [2], [3], []])


def test_a_box_stands_below_all_that_point_to_it():
    arcs = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)]
    assert ranks(5, arcs) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("seed", range(8))
def test_every_arc_goes_down_and_no_rank_is_empty(seed):
    rng = random.Random(seed)
    arcs = [(rng.randrange(node), node) for node in range(1, 30) for _ in range(2)]
    found = ranks(30, arcs)
    assert all(found[source] < found[target] for source, target in arcs)
    assert set(found) == set(range(max(found) + 1))


def test_what_only_serves_one_box_stands_right_above_it():
    # 4 is a weight: it goes into 3 alone, and would else stand at the top with a long line down.
    assert ranks(5, [(0, 1), (1, 2), (2, 3), (4, 3)]) == [0, 1, 2, 3, 2]


def test_a_chain_that_only_serves_goes_down_with_its_end():
    # 4 and 5 make what 3 needs: 5 follows 4.
    assert ranks(6, [(0, 1), (1, 2), (2, 3), (4, 5), (5, 3)]) == [0, 1, 2, 3, 1, 2]


def test_what_gathers_more_than_it_serves_stays_where_its_inputs_are():
    # 2 takes two and gives one: lower down it would make two long lines of one.
    assert ranks(7, [(0, 2), (1, 2), (2, 5), (3, 4), (4, 6), (6, 5)])[2] == 1


def test_what_an_input_goes_into_stays_below_it():
    assert ranks(5, [(0, 1), (1, 4), (0, 2), (2, 3), (3, 4)], first={0}) == [0, 1, 1, 2, 3]


def test_the_first_stand_on_top_alone_also_where_they_serve_what_is_far_below():
    assert ranks(4, [(0, 1), (1, 2), (3, 2)], first={3}) == [1, 2, 3, 0]


def test_the_last_stand_at_the_bottom_alone_also_where_they_could_be_higher():
    assert ranks(4, [(0, 1), (1, 2), (0, 3)], last={3}) == [0, 1, 2, 3]


def test_last_boxes_that_follow_each_other_are_one_row():
    assert ranks(3, [(0, 1), (0, 2)], last={1, 2}) == [0, 1, 1]


def test_boxes_alone_are_one_row():
    assert ranks(3, []) == [0, 0, 0]
    assert ranks(2, [], first={0, 1}) == [0, 0]


def test_arcs_that_need_not_cross_do_not():
    # Two chains, the second written the other way round, and a tree.
    layers = [[0, 1], [3, 2], [4, 5]]
    assert crossings(ordered(layers, [(0, 2), (1, 3), (2, 4), (3, 5)], 6), [(0, 2), (1, 3), (2, 4), (3, 5)]) == 0
    tree = [(0, 1), (0, 2), (1, 4), (1, 6), (2, 3), (2, 5)]
    assert crossings(ordered([[0], [1, 2], [3, 4, 5, 6]], tree, 7), tree) == 0


def test_the_order_may_have_to_turn_from_below():
    # Nothing above tells 0 and 1 apart: only what they point to.
    arcs = [(0, 3), (1, 2)]
    assert crossings(ordered([[0, 1], [2, 3]], arcs, 4), arcs) == 0


@pytest.mark.parametrize("seed", range(8))
def test_an_order_keeps_the_layers_and_crosses_less_than_it_did(seed):
    layers, arcs = some(seed)
    was = crossings(layers, arcs)
    found = ordered([list(layer) for layer in layers], arcs, 36)
    assert [sorted(layer) for layer in found] == layers
    assert crossings(found, arcs) <= 0.6 * was


def test_an_order_without_crossings_is_left_as_it_is():
    assert ordered([[0, 1], [2, 3]], [(0, 2), (1, 3)], 4) == [[0, 1], [2, 3]]
    assert ordered([[1, 0], [3, 2]], [], 4) == [[1, 0], [3, 2]]


def turned(layers, near):
    """Each layer, from the first one given, in the order of the means of its neighbours in the layer before."""
    place = {node: number for layer in layers for number, node in enumerate(layer)}
    made = []
    for layer in layers:
        means = {n: sum(place[o] for o in near[n]) / len(near[n]) if near[n] else place[n] for n in layer}
        made.append(sorted(layer, key=lambda n: (means[n], place[n])))
        place.update({node: number for number, node in enumerate(made[-1])})
    return made


@pytest.mark.parametrize("seed", range(8))
def test_of_twelve_turns_down_and_up_the_one_with_the_fewest_crossings_is_taken(seed):
    layers, arcs = some(seed)
    seen, now = [crossings(layers, arcs)], layers
    for _ in range(6):
        now = turned(now, neighbours(36, arcs)[0])
        seen.append(crossings(now, arcs))
        now = turned(now[::-1], neighbours(36, arcs)[1])[::-1]
        seen.append(crossings(now, arcs))
    assert crossings(ordered([list(layer) for layer in layers], arcs, 36), arcs) == min(seen)
