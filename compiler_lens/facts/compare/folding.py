"""Changes that are alike, made one: what happened to twelve layers is said once."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from compiler_lens.facts.compare.kernels import MatchResult
from compiler_lens.facts.compare.model import Aspect, Case, Difference, KernelChange, LaunchRef, Verdict

_CONFIG = frozenset((Aspect.TILING, Aspect.WARPS))
_SIZED = _CONFIG | {Aspect.SIZES, Aspect.ACCESS}  # each kernel has its own sizes


def folded(found: Iterable[MatchResult]) -> tuple[KernelChange, ...]:
    """Return what differs in the same way, in one, its cases in the order given; what weighs most first."""
    groups: dict[Hashable, list[MatchResult]] = {}
    for one in found:
        groups.setdefault(_manner(one), []).append(one)
    changes = [
        KernelChange(group[0].verdict, group[0].method, _common(group), tuple(one.case for one in group))
        for group in groups.values()
    ]
    return tuple(sorted(changes, key=_weight))


def _manner(found: MatchResult) -> Hashable:
    """What two changes must have in common to be one."""
    case = found.case
    aspects = {difference.aspect for difference in case.differences}
    told: Hashable = case.differences
    if found.verdict is Verdict.REGROUPED:  # by what moved, between whatever kernels
        told = frozenset(difference.name for difference in case.differences)
    elif aspects <= _CONFIG:
        told = bool(aspects)
    elif Aspect.SIZES in aspects <= _SIZED:
        told = Aspect.SIZES
    elif Aspect.KIND in aspects:  # sizes and tiles of another kind of kernel are not those of this one
        told = frozenset(d for d in case.differences if d.aspect is Aspect.KIND)
    return found.verdict, _kinds(case.before), _kinds(case.after), told


def _kinds(side: Iterable[LaunchRef]) -> Hashable:
    return tuple(sorted((one.kind.value, one.shape, one.kernel if "." in one.kernel else "") for one in side))


def _common(group: Sequence[MatchResult]) -> tuple[Difference, ...]:
    shared = set(group[0].case.differences).intersection(*(one.case.differences for one in group))
    return tuple(d for d in group[0].case.differences if d in shared)


def _weight(change: KernelChange) -> tuple[object, ...]:
    """Microseconds; without them, other code before other configurations, then launches: the same from both sides."""
    times = change.times
    counts = [sum(map(len, side)) for side in zip(*((c.before, c.after) for c in change.cases), strict=True)]
    tuned = change.verdict is Verdict.CHANGED and set(change.aspects) <= _CONFIG
    return -abs(times.gain) if times else 0.0, tuned, -max(counts), where(change.first)


def where(case: Case) -> list[tuple[object, ...]]:
    """Return the place in the program, the same from both sides."""
    return sorted(_place(side) for side in (case.before, case.after))


def _place(side: Sequence[LaunchRef]) -> tuple[object, ...]:
    return (0, side[0].direction.value, side[0].position, side[0].kernel) if side else (1, "", 0, "")
