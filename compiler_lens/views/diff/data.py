"""What differs between two recordings, for programs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from compiler_lens.facts.compare.model import (
    AutotuneChange,
    BreakChange,
    Case,
    CudagraphChange,
    Difference,
    FrameChange,
    GraphChange,
    KernelChange,
    LaunchRef,
    RecompileChange,
    RecordingDiff,
    SettingChange,
    Side,
    Times,
)
from compiler_lens.recording.model import CompileId, Direction
from compiler_lens.recording.torch_names import Phase


class SideFacts(Struct, frozen=True):
    """One recording in figures."""

    kernels: int
    launches: int
    graphs: int  # output codes
    phases: Mapping[Phase, float]  # seconds
    compile_seconds: float | None
    files: int  # that the C++ compiler was run for
    microseconds: float | None  # one call of the model, if it was profiled
    spread: float
    busy_microseconds: float | None  # of it, the device working
    problems: int  # what could not be recorded or read
    unfinished: str  # why the recording has no end
    is_timed_well: bool


class TimedLaunches(Struct, frozen=True):
    """Of each side's launches those that were timed on both sides, and all."""

    before: tuple[int, int]
    after: tuple[int, int]


class ChangeFacts(KernelChange, frozen=True):
    """Launches that differ in the same way, as often as there are cases."""

    times: Times | None = None  # of all cases together


class LaunchName(Struct, frozen=True):
    """A launch by its names."""

    compile_id: CompileId
    direction: Direction
    kernel: str


class SameLaunch(Struct, frozen=True):
    """A launch that computes the same on both sides."""

    before: LaunchName
    after: LaunchName
    differences: tuple[Difference, ...]
    times: Times | None


class Data(Struct, frozen=True):
    """Everything that the compiler did differently."""

    is_empty: bool
    same_kernels: bool
    before: SideFacts
    after: SideFacts
    kernel_times: Times | None  # of all launches that were timed on both sides
    timed_launches: TimedLaunches
    call_times: Times | None
    idle_times: Times | None
    kernels: tuple[ChangeFacts, ...]
    identical: tuple[SameLaunch, ...]
    retuned: tuple[SameLaunch, ...]  # of the identical: timed anew among the same candidates, and another one won
    graphs: tuple[GraphChange, ...]
    frames: tuple[FrameChange, ...]
    breaks: tuple[BreakChange, ...]
    recompiles: tuple[RecompileChange, ...]
    autotunes: tuple[AutotuneChange, ...]
    cudagraphs: tuple[CudagraphChange, ...]
    settings: tuple[SettingChange, ...]


def data(d: RecordingDiff) -> Data:
    """Return the facts of a diff for programs."""
    facts = {name: getattr(d, name) for name in Data.__struct_fields__}
    facts |= {"before": _side(d.before), "after": _side(d.after), "timed_launches": TimedLaunches(*d.timed_launches)}
    facts["kernels"] = tuple(
        ChangeFacts(one.verdict, one.method, one.differences, one.cases, one.times) for one in d.kernels
    )
    return Data(**facts | {"identical": _same(d.identical), "retuned": _same(d.retuned)})


def _side(side: Side) -> SideFacts:
    phases = side.phases
    facts = {name: getattr(side, name) for name in Side.__struct_fields__} | {"phases": dict(phases.both)}
    return SideFacts(**facts, compile_seconds=phases.total if phases.timed else None)


def _same(cases: tuple[Case, ...]) -> tuple[SameLaunch, ...]:
    """Launches that do not differ: no more of them than their names."""
    return tuple(
        SameLaunch(_launch(case.before[0]), _launch(case.after[0]), case.differences, case.times) for case in cases
    )


def _launch(launch: LaunchRef) -> LaunchName:
    return LaunchName(launch.compile_id, launch.direction, launch.kernel)
