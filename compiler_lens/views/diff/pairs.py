"""What stands for what: cases of the same kernels with the same code made one, and what is known of their kernels."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.compare.model import Case, LaunchRef, MatchMethod, RecordingDiff, Times, sum_times
from compiler_lens.facts.compare.source import call, readable
from compiler_lens.facts.kernels.kernels import Costs
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.tuned import Tuned
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.ids import KernelId
from compiler_lens.recording.model import Kernel, Launch, Recording
from compiler_lens.views.diff import words as told
from compiler_lens.views.text import clean

Lines = tuple[str, ...]


class Half(Struct, frozen=True):
    """One of two recordings, with what is known of its kernels."""

    recording: Recording
    provenance: Provenance
    costs: Costs
    tuned: Tuned
    places: Mapping[KernelId, int]  # of each kernel in the recording
    codes: dict[Hashable, Lines] = field(default_factory=dict)  # of each side of a case, once

    @classmethod
    def of(cls, recording: Recording, own: Ownership) -> Half:
        """Return what is known of a recording's kernels."""
        places = {kernel.id: place for place, kernel in reversed([*enumerate(recording.kernels)])}
        return cls(recording, Provenance.of(recording, own), Costs.of(recording), Tuned.of(recording), places)

    def kernel(self, one: LaunchRef) -> Kernel | None:
        """Return the kernel that a launch is of."""
        place = self.places.get(one.kernel_id)
        return None if place is None else self.recording.kernels[place]

    def launch(self, one: LaunchRef) -> Launch | None:
        """Return the launch itself."""
        kernel = self.kernel(one)
        return kernel.launches[one.launch] if kernel and one.launch < len(kernel.launches) else None

    def lineages(self, launches: Sequence[LaunchRef]) -> tuple[Lineage, ...]:
        """Return where some launches of one kernel come from."""
        place = self.places.get(launches[0].kernel_id)
        of_kernel = () if place is None else self.provenance.of_kernel(place)
        if of_kernel and of_kernel[0].launch is None:
            return of_kernel
        # In order: a library's kernel has thousands of launches, and is asked for each.
        return tuple(of_kernel[n] for n in sorted({each.launch for each in launches}) if n < len(of_kernel))

    def code(self, side: Sequence[LaunchRef]) -> Lines:
        """Return the lines of the code of one side of a case; of a library's kernel, each call has its own."""
        key = tuple((one.kernel_id, one.launch if "." in one.kernel else 0) for one in side)
        if key not in self.codes:
            self.codes[key] = side_code(side, self.kernel)
        return self.codes[key]


class Pair(Struct, frozen=True):
    """Kernels before and what stands for them after, as often as they are launched in these roles."""

    change: int | None  # of which change of the diff, from 0; None: identical
    verdict: str  # what became of them, in words
    method: MatchMethod | None
    code: tuple[Lines, Lines]  # of each side, names and numbers aside
    cases: tuple[Case, ...]

    @property
    def first(self) -> Case:
        """The case that stands for all."""
        return self.cases[0]

    @property
    def times(self) -> Times | None:
        """Microseconds of all cases together."""
        return sum_times(self.cases)


def pairs_of(diff: RecordingDiff, before: Half, after: Half) -> tuple[Pair, ...]:
    """Return every pair of a diff: what differs in the order of its changes, then what is identical."""
    listed = [(n, told.verdict(one), one.method, case) for n, one in enumerate(diff.kernels) for case in one.cases]
    same = ("identical", "identical, autotuned differently")
    known = [(None, same[bool(case.differences)], MatchMethod.SOURCE, case) for case in diff.identical]
    found: dict[Hashable, tuple[Pair, list[Case]]] = {}
    for change, verdict, method, case in (*listed, *known):
        code = before.code(case.before), after.code(case.after)
        kernels = [tuple(one.kernel_id for one in side) for side in (case.before, case.after)]
        pair = Pair(change, verdict, method, code, ())
        found.setdefault((change, *kernels, case.differences, code), (pair, []))[1].append(case)
    return tuple(replace(pair, cases=tuple(cases)) for pair, cases in found.values())


def side_code(side: Sequence[LaunchRef], kernel_of: Callable[[LaunchRef], Kernel | None]) -> Lines:
    """Return the lines of the code of all that one side of a case has; of a library's kernel, its call."""
    lines: list[str] = []
    for one in side:
        if kernel := kernel_of(one):
            launches = kernel.launches[one.launch : one.launch + 1]  # a damaged recording may have none
            text = readable(kernel) or f"{kernel.name}({', '.join(call(kernel, launch) for launch in launches)})"
            lines += [*([""] if lines else []), *clean(text).splitlines()]
    return tuple(lines)
