"""What stands for what: cases of the same kernels with the same code made one, each with an address."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from urllib.parse import quote

from msgspec import Struct, field

from compiler_lens.facts.compare.model import Case, LaunchRef, MatchMethod, RecordingDiff, Times
from compiler_lens.facts.compare.model import sum_times as summed
from compiler_lens.recording.model import Kernel
from compiler_lens.render.page.links import address
from compiler_lens.views.diff import words as told
from compiler_lens.views.diff.code import side_code
from compiler_lens.views.text import clean

KernelOf = Callable[[LaunchRef], Kernel | None]


class Pair(Struct, frozen=True):
    """Kernels before and what stands for them after, as often as they are launched in these roles."""

    key: str  # its address on the page
    change: int | None  # of which change of the diff, from 0; None: identical
    verdict: str  # what became of them, in words
    method: MatchMethod | None
    cases: tuple[Case, ...]
    code: tuple[tuple[str, ...], tuple[str, ...]]  # the lines of each side, names and numbers aside
    retuned: bool = False

    @property
    def first(self) -> Case:
        """The case that stands for all."""
        return self.cases[0]

    @property
    def times(self) -> Times | None:
        """Microseconds of all cases together."""
        return summed(self.cases)


class _Draft(Struct):
    change: int | None
    verdict: str
    method: MatchMethod | None
    code: tuple[tuple[str, ...], tuple[str, ...]]
    retuned: bool
    cases: list[Case] = field(default_factory=list)

    def done(self, key: str) -> Pair:
        return Pair(key, self.change, self.verdict, self.method, tuple(self.cases), self.code, self.retuned)


def pairs_of(diff: RecordingDiff, before: KernelOf, after: KernelOf) -> tuple[Pair, ...]:
    """Every pair of a diff: what differs in the order of its changes, then what is identical."""
    drafts: dict[Hashable, _Draft] = {}
    codes = _Codes(before), _Codes(after)
    for change, verdict, method, is_retuned, case in _cases(diff):
        code = codes[0].of(case.before), codes[1].of(case.after)
        kernels = [tuple(one.kernel_id for one in side) for side in (case.before, case.after)]
        key = (change, *kernels, case.differences, code)
        drafts.setdefault(key, _Draft(change, verdict, method, code, is_retuned)).cases.append(case)
    taken: set[str] = set()
    return tuple(one.done(_address(one.cases[0], taken)) for one in drafts.values())


def by_change(pairs: Sequence[Pair], count: int) -> list[list[Pair]]:
    """The pairs of each change."""
    found: list[list[Pair]] = [[] for _ in range(count)]
    for pair in pairs:
        if pair.change is not None:
            found[pair.change].append(pair)
    return found


def _cases(diff: RecordingDiff) -> Iterator[tuple[int | None, str, MatchMethod | None, bool, Case]]:
    """Every case: of which change, what became of it, how that is known, and whether it was only timed anew."""
    for number, change in enumerate(diff.kernels):
        verdict = told.verdict(change)
        yield from ((number, verdict, change.method, False, case) for case in change.cases)
    retuned = {_launch(case) for case in diff.retuned}
    for case in diff.identical:
        is_retuned = _launch(case) in retuned
        yield None, told.identical(is_retuned=is_retuned), MatchMethod.SOURCE, is_retuned, case


def _launch(case: Case) -> Hashable:
    """What an identical case is known by: its launch before."""
    return case.before[0].kernel_id, case.before[0].launch


class _Codes(Struct):
    """The code of each kernel, read once; of a library's, each call has its own."""

    kernel_of: KernelOf
    known: dict[Hashable, tuple[str, ...]] = field(default_factory=dict)

    def of(self, side: Sequence[LaunchRef]) -> tuple[str, ...]:
        key = tuple((one.kernel_id, one.launch if "." in one.kernel else 0) for one in side)
        if key not in self.known:
            self.known[key] = tuple(side_code(side, self.kernel_of))
        return self.known[key]


def _address(case: Case, taken: set[str]) -> str:
    """`0_0/triton_poi_fused_add_3`, by what it is after; the next one of that name has a number."""
    one = (case.after or case.before)[0]
    base = f"{address(one.compile_id)}/{quote(clean(one.kernel), safe='')}"
    ways = (base, f"{base}/{one.direction.value}", f"{base}/{one.direction.value}/{one.launch}")
    free = next((way for way in ways if way not in taken), f"{ways[-1]}/{len(taken)}")
    taken.add(free)
    return free
