"""Which items of two sequences are each other: common ends, then what is unique on both sides, then what is left."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import pairwise

Pair = tuple[int, int]
Keys = Sequence[Hashable]

_DEPTH = 12  # of anchors within gaps between anchors: beyond that, equal keys are taken in their order


def align(before: Keys, after: Keys) -> list[Pair]:
    """Pairs of positions with equal keys, in order, none crossing another. Swapped sides give swapped pairs."""
    start = next((i for i, (b, a) in enumerate(zip(before, after, strict=False)) if b != a), None)
    if start is not None and repr(after[start]) < repr(before[start]):
        # Of several longest runs the sides would choose different ones: so one side always is the first.
        return sorted((b, a) for a, b in _align(after, before))
    return _align(before, after)


def moved(before: Keys, after: Keys, pairs: Sequence[Pair]) -> list[Pair]:
    """Of what `align` left, the k-th of each key with the k-th: the same thing at another place."""
    taken_before, taken_after = {b for b, _ in pairs}, {a for _, a in pairs}
    left = [(key, i) for i, key in enumerate(before) if i not in taken_before]
    return _kth(left, [(key, i) for i, key in enumerate(after) if i not in taken_after])


def gaps(pairs: Sequence[Pair], before: int, after: int) -> Iterator[tuple[range, range]]:
    """The stretches between neighbouring pairs where both sides have something."""
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
        left, right = [(before[i], i) for i in b], [(after[i], i) for i in a]
        anchors = _longest(_kth(_unique(left), _unique(right))) if depth < _DEPTH else []
        if not anchors:
            pairs += _longest(_kth(left, right))
            continue
        pairs += anchors
        ends = [(b[0] - 1, a[0] - 1), *anchors, (b[-1] + 1, a[-1] + 1)]
        work += [(range(x[0] + 1, y[0]), range(x[1] + 1, y[1]), depth + 1) for x, y in pairwise(ends)]
    return sorted(pairs)


def _unique(items: Sequence[tuple[Hashable, int]]) -> list[tuple[Hashable, int]]:
    counts = Counter(key for key, _ in items)
    return [(key, i) for key, i in items if counts[key] == 1]


def _kth(left: Sequence[tuple[Hashable, int]], right: Sequence[tuple[Hashable, int]]) -> list[Pair]:
    """The k-th of each key with the k-th."""
    places: defaultdict[Hashable, list[int]] = defaultdict(list)
    for key, i in right:
        places[key].append(i)
    met: Counter[Hashable] = Counter()
    pairs = []
    for key, i in left:
        if met[key] < len(places.get(key, ())):
            pairs.append((i, places[key][met[key]]))
            met[key] += 1
    return pairs


def _longest(pairs: Sequence[Pair]) -> list[Pair]:
    """A longest run of pairs, given in the order of their first side, of which none crosses another."""
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
