"""Which items of two sequences are each other: common ends, then what is unique on both sides, then what is left."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TypeVar

_T = TypeVar("_T")

Pair = tuple[int, int]
Keys = Sequence[Hashable]

_DEPTH = 12  # of anchors within gaps between anchors: beyond that, equal keys are taken in their order


def align(before: Keys, after: Keys) -> list[Pair]:
    """Return pairs of positions with equal keys, in order, none crossing another. Swapped sides give swapped pairs."""
    start = next((i for i, (b, a) in enumerate(zip(before, after, strict=False)) if b != a), None)
    if start is not None and repr(after[start]) < repr(before[start]):
        # Of several longest runs the sides would choose different ones: so one side always is the first.
        return sorted((b, a) for a, b in _align(after, before))
    return _align(before, after)


def moved(before: Keys, after: Keys, pairs: Sequence[Pair]) -> list[Pair]:
    """Return, of what `align` left, the k-th of each key with the k-th: the same thing at another place."""
    left = sorted(set(range(len(before))) - {b for b, _ in pairs})
    right = sorted(set(range(len(after))) - {a for _, a in pairs})
    return kth(left, right, before.__getitem__, after.__getitem__)[0]


def kth(
    before: Iterable[_T], after: Iterable[_T], key: Callable[[_T], Hashable], other: Callable[[_T], Hashable]
) -> tuple[list[tuple[_T, _T]], list[_T], list[_T]]:
    """Pair the k-th item of each key with the k-th, in the order of `before`; what has the key None is left.

    Args:
        before: the items of one side.
        after: those of the other.
        key: the key of an item before.
        other: the key of an item after.

    Returns:
        The pairs, and what is left of either side.

    """
    places: defaultdict[Hashable, list[tuple[int, _T]]] = defaultdict(list)
    for number, item in enumerate(after := list(after)):
        places[other(item)].append((number, item))
    unmet = {own: iter(items) for own, items in places.items() if own is not None}
    pairs: list[tuple[_T, _T]] = []
    left: list[_T] = []
    taken: set[int] = set()
    for item in before:
        found = next(unmet.get(key(item), iter(())), None)
        if found is None:
            left.append(item)
        else:
            taken.add(found[0])
            pairs.append((item, found[1]))
    return pairs, left, [item for number, item in enumerate(after) if number not in taken]


def gaps(pairs: Sequence[Pair], before: int, after: int) -> Iterator[tuple[range, range]]:
    """Yield the stretches between neighbouring pairs where both sides have something."""
    for left, right in pairwise([(-1, -1), *pairs, (before, after)]):
        found = range(left[0] + 1, right[0]), range(left[1] + 1, right[1])
        if found[0] and found[1]:
            yield found


def _align(before: Keys, after: Keys) -> list[Pair]:
    pairs: list[Pair] = []
    work = [(range(len(before)), range(len(after)), 0)]
    while work:
        b, a, depth = work.pop()
        while b and a and before[b[0]] == after[a[0]]:
            pairs.append((b[0], a[0]))
            b, a = b[1:], a[1:]
        while b and a and before[b[-1]] == after[a[-1]]:
            pairs.append((b[-1], a[-1]))
            b, a = b[:-1], a[:-1]
        if not (b and a):
            continue
        anchors: list[Pair] = []
        if depth < _DEPTH:
            anchors = kth(_unique(b, before), _unique(a, after), before.__getitem__, after.__getitem__)[0]
            anchors = _longest(anchors)
        if not anchors:
            pairs += _longest(kth(b, a, before.__getitem__, after.__getitem__)[0])
            continue
        pairs += anchors
        ends = [(b[0] - 1, a[0] - 1), *anchors, (b[-1] + 1, a[-1] + 1)]
        work += [(range(x[0] + 1, y[0]), range(x[1] + 1, y[1]), depth + 1) for x, y in pairwise(ends)]
    return sorted(pairs)


def _unique(places: Iterable[int], keys: Keys) -> list[int]:
    counts = Counter(keys[i] for i in places)
    return [i for i in places if counts[keys[i]] == 1]


def _longest(pairs: Sequence[Pair]) -> list[Pair]:
    """Return a longest run of pairs, given in the order of their first side, of which none crosses another."""
    ends: list[int] = []  # the smallest second side that a run of each length ends with
    last: list[int] = []  # the pair that it ends with
    previous: list[int] = []
    for i, (_, a) in enumerate(pairs):
        at = bisect_left(ends, a)
        previous.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [a], [i]
    run, i = [], last[-1] if last else -1
    while i >= 0:
        run.append(pairs[i])
        i = previous[i]
    return run[::-1]
