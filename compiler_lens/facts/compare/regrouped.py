"""Which ops went from one kernel into another, where several launches became several others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from compiler_lens.facts.compare.model import Aspect, Difference

Launches = Sequence[tuple[str, Collection[int]]]  # kernels' names and nodes; nodes that are each other have one number


def moved_ops(before: Launches, after: Launches, ops: Mapping[int, str]) -> tuple[Difference, ...]:
    """The ops that did not go where most of their kernel went: which, from which kernel, into which."""
    homes = [
        {node: at for at, (_, nodes) in enumerate(side) for node in nodes if node in ops} for side in (before, after)
    ]
    routes = {node: (homes[0][node], homes[1][node]) for node in sorted(homes[0].keys() & homes[1].keys())}
    partners = _partners(Counter(routes.values()))
    found = [
        Difference(Aspect.MOVED, ops[node], before[b][0], after[a][0])
        for node, (b, a) in routes.items()
        if partners.get(b) != a
    ]
    return tuple(dict.fromkeys(sorted(found, key=lambda d: (d.name, sorted((d.before, d.after))))))


def _partners(shared: Mapping[tuple[int, int], int]) -> dict[int, int]:
    """The launches that have most in common, each once; the same ones from both sides."""
    partners: dict[int, int] = {}
    taken: set[int] = set()
    # Of equal weight are only pairs that are each other's mirror image, and these do not exclude each other.
    for b, a in sorted(shared, key=lambda pair: (-shared[pair], min(pair), max(pair))):
        if b not in partners and a not in taken:
            partners[b] = a
            taken.add(a)
    return partners
