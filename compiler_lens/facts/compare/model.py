"""What differs between two recordings: plain frozen values. `before` and `after` are the two sides."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from compiler_lens.facts.kernels.tuned import Otherwise
from compiler_lens.facts.time.phases import PhaseSeconds
from compiler_lens.recording.ids import CodeId, KernelId
from compiler_lens.recording.model import (
    AutotuneChoice,
    CompileId,
    CudagraphOutcome,
    CudagraphState,
    Direction,
    GraphStage,
    KernelKind,
    Outcome,
    SourceLine,
)  # fmt: skip

_CAPTURED = (CudagraphState.CAPTURED, CudagraphState.PARTITIONED)


class MatchMethod(Enum):
    """How launches of the two sides were recognised as each other, the surest first."""

    SOURCE = "source"  # the same generated code, names and numbers aside, for the same nodes
    ORIGINS = "origins"  # the same nodes of the graph
    OVERLAP = "overlap"  # some nodes in common
    OPS = "ops"  # other nodes, or nobody knows which, but the same ops on the same shapes


class Verdict(Enum):
    """What became of the launches that compute something."""

    IDENTICAL = "identical"
    CHANGED = "changed"  # one launch on each side
    SPLIT = "split"  # one before, several after
    MERGED = "merged"  # several before, one after
    REGROUPED = "regrouped"  # several on both sides
    ADDED = "added"
    REMOVED = "removed"


class Aspect(Enum):
    """In what two launches differ that compute the same."""

    KIND = "kind"  # generated, a template, a library's; or another function of the library
    OPS = "ops"  # what it computes: relu became gelu
    FUSED = "fused"  # computes more, or less, than before
    MOVED = "moved"  # an op went from one kernel into another
    SIZES = "sizes"
    DTYPE = "dtype"
    REDUCTION = "reduction"  # how it goes through its elements: pointwise, reduction, persistent reduction
    TEMPLATE = "template"  # the constants of a template: BLOCK_M, GROUP_M
    TILING = "tiling"  # size hints and block sizes
    WARPS = "warps"  # num_warps, num_stages
    ACCESS = "access"  # strides and index expressions
    CODE = "code"  # anything else in the code


class Difference(Struct, frozen=True):
    """One value that differs: of which aspect, what it is called, and what it is on each side; empty if not there."""

    aspect: Aspect
    name: str
    before: str
    after: str


class LaunchRef(Struct, frozen=True):
    """A launch, by where it stands in its recording."""

    compile_id: CompileId
    direction: Direction
    ordinal: int  # of the output code
    kernel: str
    kind: KernelKind
    shape: str
    launch: int  # which of the kernel's launches
    position: int  # among all launches of the output code
    ops: tuple[str, ...] = ()  # targets of what it computes: "torch.ops.aten.mm.default"

    @property
    def kernel_id(self) -> KernelId:
        """The kernel that it is a launch of."""
        return KernelId(CodeId(self.compile_id, self.direction, self.ordinal), self.kernel)


class Times(Struct, frozen=True):
    """Microseconds in one call of the model, measured on both sides; the spread is between the quartiles."""

    before: float
    after: float
    before_spread: float = 0.0
    after_spread: float = 0.0

    @property
    def gain(self) -> float:
        """Microseconds less than before; negative: more."""
        return self.before - self.after

    @property
    def above_noise(self) -> bool:
        """Whether they differ by more than they vary."""
        return abs(self.gain) > max(self.before_spread, self.after_spread)


class Case(Struct, frozen=True):
    """Launches before, and what stands for them after."""

    before: tuple[LaunchRef, ...]
    after: tuple[LaunchRef, ...]
    differences: tuple[Difference, ...] = ()
    times: Times | None = None  # only if both sides were profiled


class KernelChange(Struct, frozen=True):
    """Launches that differ in the same way, as often as there are cases."""

    verdict: Verdict
    method: MatchMethod | None  # None: nothing on the other side
    differences: tuple[Difference, ...]  # those that all cases share
    cases: tuple[Case, ...]

    @property
    def first(self) -> Case:
        """The case that stands for all."""
        return self.cases[0]

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """In what the launches differ, of all cases."""
        found = {difference.aspect for case in self.cases for difference in case.differences}
        return tuple(aspect for aspect in Aspect if aspect in found)

    @property
    def times(self) -> Times | None:
        """Microseconds of all cases together."""
        return sum_times(self.cases)


class NodeChange(Struct, frozen=True):
    """A node of a graph, on the side or the sides where it is; or several that changed in the same way."""

    verdict: Verdict  # ADDED, REMOVED, CHANGED; IDENTICAL: moved
    before: str  # "torch.ops.aten.relu.default f32[8, 64]"; empty if not there
    after: str
    nodes: tuple[tuple[str, str], ...]  # their names, before and after
    module: str = ""  # of the first
    line: SourceLine | None = None  # the user's, of the first; after, if it is there
    last_module: str = ""  # of the last, if that is another

    @property
    def times(self) -> int:
        """How many nodes."""
        return len(self.nodes)


class GraphChange(Struct, frozen=True):
    """The graphs of one stage of one compilation, where they differ."""

    function: str
    before: CompileId
    after: CompileId
    stage: GraphStage
    ordinal: int
    nodes: tuple[NodeChange, ...]


class FrameChange(Struct, frozen=True):
    """A compilation that only one side has, or that ended differently; or several that are alike in this."""

    function: str
    before: tuple[CompileId, ...]
    after: tuple[CompileId, ...]
    outcome_before: Outcome | None
    outcome_after: Outcome | None


class BreakChange(Struct, frozen=True):
    """Graph breaks of one kind at one line: events on each side. None after: fixed. None before: new.

    But where the other side never came to the code that breaks there, it is neither: no longer called, or not yet.
    """

    gb_type: str
    place: SourceLine | None  # after, if it is there
    before: int
    after: int
    is_reached: bool = True  # the code was traced on both sides, whether or not it broke


class RecompileChange(Struct, frozen=True):
    """Recompiles of one function for one cause, on each side."""

    function: str
    subject: str  # "x.shape[0]"; empty if torch gave no reason
    before: int
    after: int


class AutotuneChange(Struct, frozen=True):
    """An op for which autotuning chose differently; or that was tuned on one side only."""

    op: str
    inputs: tuple[str, ...]
    before: AutotuneChoice | None
    after: AutotuneChoice | None
    times: int = 1  # ops of these inputs for which it did
    before_runs: Otherwise | None = None  # launches of them that are no such choice
    after_runs: Otherwise | None = None


class CudagraphChange(Struct, frozen=True):
    """A compiled graph for which CUDA graphs ended differently."""

    function: str
    direction: Direction | None
    before: CudagraphOutcome | None
    after: CudagraphOutcome | None


class SettingChange(Struct, frozen=True):
    """A circumstance that differs: a version, the device, a mode, an option, an input. Empty: as torch has it."""

    name: str
    before: str
    after: str


class Side(Struct, frozen=True):
    """One recording in figures."""

    kernels: int
    launches: int
    graphs: int  # output codes
    phases: PhaseSeconds
    files: int = 0  # that the C++ compiler was run for: what is on this machine already is not compiled again
    microseconds: float | None = None  # one call of the model, if it was profiled
    spread: float = 0.0
    busy_microseconds: float | None = None  # of it, the device working
    problems: int = 0  # what could not be recorded or read: it may be what differs
    unfinished: str = ""  # why the recording has no end
    children_compiled: bool | None = False  # processes that it started and that are not recorded; None: nobody knows
    is_timed_well: bool = True  # else its profile measured a busy machine

    @property
    def idle_microseconds(self) -> float | None:
        """Of one call, the device waiting."""
        if self.microseconds is None or self.busy_microseconds is None:
            return None
        return max(0.0, self.microseconds - self.busy_microseconds)


class RecordingDiff(Struct, frozen=True):
    """Everything that the compiler did differently. Names, numbers, paths, ids and times are no difference."""

    before: Side
    after: Side
    kernels: tuple[KernelChange, ...] = ()  # what weighs most first
    identical: tuple[Case, ...] = ()
    graphs: tuple[GraphChange, ...] = ()
    frames: tuple[FrameChange, ...] = ()
    breaks: tuple[BreakChange, ...] = ()
    recompiles: tuple[RecompileChange, ...] = ()
    autotunes: tuple[AutotuneChange, ...] = ()
    cudagraphs: tuple[CudagraphChange, ...] = ()
    settings: tuple[SettingChange, ...] = ()

    @property
    def retuned(self) -> tuple[Case, ...]:
        """Of the identical: timed anew among the same candidates, and another one won."""
        return tuple(case for case in self.identical if case.differences)

    @property
    def is_empty(self) -> bool:
        """Whether the compiler did the same. How it was called to do so, `settings`, is not a result of it."""
        changed = (self.kernels, self.graphs, self.frames, self.breaks, self.recompiles, self.cudagraphs)
        return not any(changed) and not any(a.before and a.after for a in self.autotunes)

    @property
    def same_kernels(self) -> bool:
        """Whether no kernel differs."""
        return not self.kernels

    @property
    def cases(self) -> list[Case]:
        """All launches of both sides, identical ones included."""
        return [*self.identical, *(case for change in self.kernels for case in change.cases)]

    @property
    def kernel_times(self) -> Times | None:
        """Microseconds of all launches that were timed on both sides."""
        return sum_times(self.cases)

    @property
    def timed_launches(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Of each side's launches those that `kernel_times` counts, and all."""
        counted = [(len(case.before), len(case.after), bool(case.times)) for case in self.cases]
        before = sum(b for b, _, timed in counted if timed), sum(b for b, _, _ in counted)
        return before, (sum(a for _, a, timed in counted if timed), sum(a for _, a, _ in counted))

    @property
    def call_times(self) -> Times | None:
        """Microseconds of one call of the model, seen from outside."""
        return _times(self.before.microseconds, self.after.microseconds, self.before, self.after)

    @property
    def idle_times(self) -> Times | None:
        """Microseconds of one call in which the device waits."""
        return _times(self.before.idle_microseconds, self.after.idle_microseconds, self.before, self.after)

    @property
    def captured(self) -> tuple[int, int]:
        """Of the compiled graphs for which CUDA graphs ended differently, those that were captured on each side."""
        before = sum(bool(one.before and one.before.state in _CAPTURED) for one in self.cudagraphs)
        return before, sum(bool(one.after and one.after.state in _CAPTURED) for one in self.cudagraphs)


def _times(before: float | None, after: float | None, left: Side, right: Side) -> Times | None:
    return None if before is None or after is None else Times(before, after, left.spread, right.spread)


def sum_times(cases: list[Case] | tuple[Case, ...]) -> Times | None:
    """Return the times of several cases together; spreads add up as those of independent measurements do."""
    known = [case.times for case in cases if case.times]
    if not known:
        return None
    return Times(
        sum(t.before for t in known),
        sum(t.after for t in known),
        sum(t.before_spread**2 for t in known) ** 0.5,
        sum(t.after_spread**2 for t in known) ** 0.5,
    )
