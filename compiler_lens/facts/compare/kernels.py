"""Launches of two programs, matched by what they compute; in what they differ; and what is alike, made one."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.compare.align import kth
from compiler_lens.facts.compare.aspects import Matched, Texts, configurations, differences, is_compute, pointers
from compiler_lens.facts.compare.graphs import Aligner
from compiler_lens.facts.compare.model import (
    Aspect,
    Case,
    Difference,
    KernelChange,
    LaunchRef,
    MatchMethod,
    Times,
    Verdict,
)  # fmt: skip
from compiler_lens.facts.compare.programs import Called, Program
from compiler_lens.facts.compare.source import call
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import LaunchId
from compiler_lens.recording.model import KernelKind, LaunchTime, Node, Recording

Timed = Mapping[LaunchId, LaunchTime]
Group = tuple[tuple[int, ...], tuple[int, ...]]  # positions of launches that are each other
_Key = Callable[[int, int], Hashable]  # of side and position of a launch; None: it has no key
_CONFIG = frozenset((Aspect.TILING, Aspect.WARPS))
_SIZED = _CONFIG | {Aspect.SIZES, Aspect.ACCESS}  # each kernel has its own sizes


class DiffCache(Struct, frozen=True):
    """What is worked out once for a whole diff."""

    aligned: Aligner = field(default_factory=Aligner)
    texts: Texts = field(default_factory=Texts)


class ProgramPair(Struct, frozen=True):
    """Two programs that are each other, with all that their launches are compared by. Pairs are before and after."""

    launches: tuple[tuple[Called, ...], ...]
    nodes: tuple[Mapping[str, Node], ...]
    names: Mapping[str, str]  # of nodes before, to nodes after
    ids: tuple[Mapping[str, int], ...]  # a number for each node; the same for nodes that are each other
    origins: tuple[tuple[frozenset[int], ...], ...]  # the nodes of each launch
    several: tuple[frozenset[int], ...]  # nodes that several launches of a side compute
    timed: tuple[Timed, Timed]
    texts: Texts

    @classmethod
    def of(
        cls, programs: tuple[Program | None, Program | None], timed: tuple[Timed, Timed], known: DiffCache
    ) -> ProgramPair:
        """Make one of two programs, or of one and None."""
        lowered = [p.graph if p else None for p in programs]
        graphs = [graph.nodes if graph else () for graph in lowered]
        launches = tuple(p.launches if p else () for p in programs)
        aligned = known.aligned(lowered[0], lowered[1])
        ids: tuple[dict[str, int], ...] = {}, {}
        for number, (b, a) in enumerate((*aligned.pairs, *aligned.moved)):
            ids[0][graphs[0][b].name] = ids[1][graphs[1][a].name] = number
        for side, graph in enumerate(graphs):
            for number, node in enumerate(graph):
                ids[side].setdefault(node.name, -1 - 2 * number - side)
        origins = tuple(
            tuple(frozenset(own[name] for name in one.launch.nodes if name in own) for one in side)
            for side, own in zip(launches, ids, strict=True)
        )
        counts = [Counter(node for one in side for node in one) for side in origins]
        return cls(
            launches=launches,
            nodes=tuple({node.name: node for node in graph} for graph in graphs),
            names=aligned.names,
            ids=ids,
            origins=origins,
            several=tuple(frozenset(node for node, n in count.items() if n > 1) for count in counts),
            timed=timed,
            texts=known.texts,
        )

    def code(self, side: int, at: int) -> str:
        """Return the code of a launch, comparable; of a library's, the call."""
        one = self.launches[side][at]
        return self.texts.of(one.kernel) or f"{one.kernel.name}({call(one.kernel, one.launch)})"

    def ops(self, side: int, at: int) -> Hashable:
        """Return the ops and shapes of what a launch computes; without nodes, the ops that its code names."""
        nodes = [self.nodes[side][n] for n in self.launches[side][at].launch.nodes if n in self.nodes[side]]
        told = tuple(sorted(f"{node.target} {' '.join(map(str, node.specs))}" for node in nodes if is_compute(node)))
        return told or (None if self.origins[side][at] else self.named_ops(side, at))

    def named_ops(self, side: int, at: int) -> Hashable:
        """Return what the text of a launch's kernel names, and how that goes through its elements; None if nothing."""
        kernel = self.launches[side][at].kernel
        return (kernel.aten, kernel.shape) if kernel.aten else None


def match(two: ProgramPair) -> Iterator[KernelChange]:
    """Yield every launch of both programs, exactly once."""
    origins = two.origins
    found = _Matching(two, list(range(len(two.launches[0]))), list(range(len(two.launches[1]))))
    # Beyond doubt are launches of equal nodes and code, of equal nodes; of equal code, if no nodes are known.
    found.by(lambda side, at: (origins[side][at], two.code(side, at)) if origins[side][at] else None)
    found.by(lambda side, at: (origins[side][at], two.launches[side][at].kernel.shape) if origins[side][at] else None)
    found.by(lambda side, at: origins[side][at] or None)
    found.by(lambda side, at: None if origins[side][at] else two.code(side, at))
    found.by_unplaced(two.code)
    found.by_overlap(is_told=True)
    found.by_overlap(is_told=False)
    found.by(two.ops)
    found.by_unplaced(two.named_ops)
    for before, after in (*found.groups, *(((b,), ()) for b in found.left), *(((), (a,)) for a in found.right)):
        yield _judged(two, before, after)


class _Matching(Struct):
    """The launches of two programs that are each other as far as is known, and what is left of each side."""

    two: ProgramPair
    left: list[int]
    right: list[int]
    groups: list[Group] = field(default_factory=list)

    def by(self, key: _Key) -> None:
        """Group the k-th launch of each key with the k-th."""
        pairs, self.left, self.right = kth(self.left, self.right, partial(key, 0), partial(key, 1))
        self.groups += [((b,), (a,)) for b, a in pairs]

    def by_unplaced(self, what: _Key) -> None:
        """Group launches whose nodes only one side knows, as of a kernel that a log calls in several places."""
        for side in (0, 1):

            def key(of: int, at: int, side: int = side) -> Hashable:
                return None if of == side and self.two.origins[of][at] else what(of, at)

            self.by(key)

    def by_overlap(self, *, is_told: bool) -> None:
        """Group launches that have nodes in common: each node counts where it is most at home.

        With `is_told`, those that grouped launches compute count only for a launch that has no others.
        """
        explained: set[int] = set()
        for before, after in self.groups if is_told else ():
            explained.update(*(self.two.origins[0][at] for at in before), *(self.two.origins[1][at] for at in after))
        homes = [_homes(self.two.origins[side], own, explained) for side, own in enumerate((self.left, self.right))]
        parent: dict[tuple[int, int], tuple[int, int]] = {}

        def root(one: tuple[int, int]) -> tuple[int, int]:
            while parent.setdefault(one, one) != one:
                parent[one] = parent[parent[one]]
                one = parent[one]
            return one

        for node in homes[0].keys() & homes[1].keys():
            members = [*((0, b) for b in homes[0][node]), *((1, a) for a in homes[1][node])]
            for other in members[1:]:
                parent[root(other)] = root(members[0])
        joined: defaultdict[tuple[int, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
        for side, at in sorted(parent):
            joined[root((side, at))][side].append(at)
        self.groups += [(tuple(b), tuple(a)) for b, a in joined.values()]
        self.left = [b for b in self.left if (0, b) not in parent]
        self.right = [a for a in self.right if (1, a) not in parent]


def _homes(origins: Sequence[frozenset[int]], own: Sequence[int], explained: set[int]) -> dict[int, list[int]]:
    """For each node the launches that it says most about: those that compute the least besides it.

    A template's nodes, as torch gives them, include those of what it reads; a cheap op is computed anew in several
    kernels. Nodes that matched launches compute too count only for a launch that has no others.
    """
    covers: defaultdict[int, list[int]] = defaultdict(list)
    for at in own:
        for node in (origins[at] - explained) or origins[at]:
            covers[node].append(at)
    homes: dict[int, list[int]] = {}
    for node, launches in covers.items():
        least = min(len(origins[at]) for at in launches)
        homes[node] = [at for at in launches if len(origins[at]) == least]
    for at in sorted(set(own).difference(*homes.values())):
        for node in origins[at]:
            homes.setdefault(node, []).append(at)
    return homes


# -- what became of them


def _judged(two: ProgramPair, befores: tuple[int, ...], afters: tuple[int, ...]) -> KernelChange:
    before, after = [two.launches[0][at] for at in befores], [two.launches[1][at] for at in afters]
    case = Case(tuple(map(_ref, before)), tuple(map(_ref, after)), times=_times(before, after, two.timed))
    if len(before) == len(after) == 1:
        return _compared(two, before[0], after[0], case)
    if not (before and after):
        return KernelChange(Verdict.REMOVED if before else Verdict.ADDED, None, (), (case,))
    verdict = Verdict.SPLIT if len(before) == 1 else Verdict.MERGED if len(after) == 1 else Verdict.REGROUPED
    if verdict is Verdict.REGROUPED:
        case = replace(case, differences=_moved(two, befores, afters))
    return KernelChange(verdict, MatchMethod.OVERLAP, case.differences, (case,))


def _ref(one: Called) -> LaunchRef:
    kernel = one.kernel
    return LaunchRef(
        kernel.compile_id, kernel.direction, kernel.ordinal, kernel.name, kernel.kind, kernel.shape, one.number,
        one.position, one.launch.aten or kernel.aten,
    )  # fmt: skip


def _moved(two: ProgramPair, befores: tuple[int, ...], afters: tuple[int, ...]) -> tuple[Difference, ...]:
    """Return the ops that did not go where most of their kernel went: which, from which kernel, into which."""
    ops: dict[int, str] = {}
    for at in befores:
        for name in two.launches[0][at].launch.nodes:
            node, number = two.nodes[0].get(name), two.ids[0].get(name, 0)
            # What several launches compute has not moved anywhere.
            if node and is_compute(node) and not any(number in several for several in two.several):
                ops[number] = node.original_aten or node.target
    homes: tuple[dict[int, int], dict[int, int]] = {}, {}
    for side, own in enumerate((befores, afters)):
        for place, at in enumerate(own):
            homes[side].update(dict.fromkeys(two.origins[side][at], place))
    routes = {n: (homes[0][n], homes[1][n]) for n in sorted(homes[0].keys() & homes[1].keys() & ops.keys())}
    # Launches that have most in common, each once; the same ones from both sides: of equal weight are only pairs that
    # are each other's mirror image, and these do not exclude each other.
    shared = Counter(routes.values())
    partners: dict[int, int] = {}
    taken: set[int] = set()
    for b, a in sorted(shared, key=lambda pair: (-shared[pair], min(pair), max(pair))):
        if b not in partners and a not in taken:
            partners[b] = a
            taken.add(a)
    found = []
    for number, (b, a) in routes.items():
        if partners.get(b) != a:
            kernels = two.launches[0][befores[b]].kernel.name, two.launches[1][afters[a]].kernel.name
            found.append(Difference(Aspect.MOVED, ops[number], *kernels))
    return tuple(dict.fromkeys(sorted(found, key=lambda d: (d.name, sorted((d.before, d.after))))))


def _compared(two: ProgramPair, before: Called, after: Called, case: Case) -> KernelChange:
    codes = [two.code(side, one.position) for side, one in enumerate((before, after))]
    kinds = [(one.kernel.kind, pointers(one.kernel)) for one in (before, after)]
    same_code = codes[0] == codes[1] and kinds[0] == kinds[1]
    chosen, by_timing = configurations(before.kernel, after.kernel)
    # The code of a library's call does not hold its sizes, nor does that of a kernel of the user's own.
    holds_all = all(one.kernel.source and one.kernel.kind is not KernelKind.USER for one in (before, after))
    found: tuple[Difference, ...] = ()
    if not (same_code and holds_all):
        elsewhere = [
            {name for name in one.launch.nodes if two.ids[side].get(name) in two.several[side]}
            for side, one in enumerate((before, after))
        ]
        pair = Matched(before, after, two.texts, two.nodes, two.names, (elsewhere[0], elsewhere[1]))
        found = differences(pair)
    ours, theirs = two.origins[0][before.position], two.origins[1][after.position]
    shared = ours & theirs
    if same_code and not found and (shared or not (ours and theirs)):
        method = MatchMethod.SOURCE
    elif ours and ours == theirs:
        method = MatchMethod.ORIGINS
    else:
        method = MatchMethod.OVERLAP if shared else MatchMethod.OPS
    verdict = Verdict.IDENTICAL
    if found or not by_timing:
        found = tuple(dict.fromkeys((*found, *chosen)))
        verdict = Verdict.CHANGED if found else verdict
    case = replace(case, differences=found or chosen)
    return KernelChange(verdict, method, case.differences, (case,))


# -- time


def timed_launches(recording: Recording) -> Timed:
    """Return the times of a recording's launches in its last profile: one call's, as those of the call itself."""
    launches = recording.profiles[-1].launches if recording.profiles else ()
    return {time.id: time for time in launches}


def _times(before: Sequence[Called], after: Sequence[Called], timed: tuple[Timed, Timed]) -> Times | None:
    """What all of these take; None where that is not known of one: a profile is of one call, of one program."""
    if not (timed[0] and timed[1]):
        return None
    sides = [
        [found for one in launches if (found := known.get(one.kernel.launch_id(one.number)))]
        for launches, known in zip((before, after), timed, strict=True)
    ]
    if [len(side) for side in sides] != [len(before), len(after)]:
        return None
    sums = [sum(t.microseconds * t.runs for t in side) for side in sides]
    spreads = [sum((t.spread * t.runs) ** 2 for t in side) ** 0.5 for side in sides]
    return Times(*sums, *spreads)


# -- changes that are alike, made one: what happened to twelve layers is said once


def folded(found: Iterable[KernelChange]) -> tuple[KernelChange, ...]:
    """Return what differs in the same way, in one, its cases in the order given; what weighs most first."""
    changes: list[KernelChange] = []
    for first, *others in grouped(found, _manner).values():
        shared = set(first.differences).intersection(*(one.differences for one in others))
        common = tuple(d for d in first.differences if d in shared)
        cases = (first.first, *(one.first for one in others))
        changes.append(KernelChange(first.verdict, first.method, common, cases))
    return tuple(sorted(changes, key=_weight))


def _manner(found: KernelChange) -> Hashable:
    """What two changes must have in common to be one."""
    case = found.first
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
    kinds = (
        tuple(sorted((one.kind.value, one.shape, one.kernel if "." in one.kernel else "") for one in side))
        for side in (case.before, case.after)
    )
    return found.verdict, *kinds, told


def _weight(change: KernelChange) -> tuple[object, ...]:
    """Microseconds; without them, other code before other configurations, then launches: the same from both sides."""
    times = change.times
    counts = [sum(map(len, side)) for side in zip(*((c.before, c.after) for c in change.cases), strict=True)]
    tuned = change.verdict is Verdict.CHANGED and set(change.aspects) <= _CONFIG
    return -abs(times.gain) if times else 0.0, tuned, -max(counts), where(change.first)


def where(case: Case) -> list[tuple[object, ...]]:
    """Return the place in the program, the same from both sides."""
    return sorted(
        (0, side[0].direction.value, side[0].position, side[0].kernel) if side else (1, "", 0, "")
        for side in (case.before, case.after)
    )
