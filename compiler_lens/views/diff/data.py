"""What differs between two recordings, for programs."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import asdict

from compiler_lens.facts.compare import model
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
    children_compiled: bool | None  # processes that it started and that are not recorded; null: nobody knows
    is_timed_well: bool


class TimedLaunches(Struct, frozen=True):
    """Of each side's launches those that were timed on both sides, and all."""

    before: tuple[int, int]
    after: tuple[int, int]


class ChangeFacts(model.KernelChange, frozen=True):
    """Launches that differ in the same way, as often as there are cases."""

    times: model.Times | None = None  # of all cases together


class LaunchName(Struct, frozen=True):
    """A launch by its names."""

    compile_id: CompileId
    direction: Direction
    kernel: str


class SameLaunch(Struct, frozen=True):
    """A launch that computes the same on both sides."""

    before: LaunchName
    after: LaunchName
    differences: tuple[model.Difference, ...]
    times: model.Times | None


class Data(Struct, frozen=True):
    """Everything that the compiler did differently."""

    is_empty: bool
    same_kernels: bool
    before: SideFacts
    after: SideFacts
    kernel_times: model.Times | None  # of all launches that were timed on both sides
    timed_launches: TimedLaunches
    call_times: model.Times | None
    idle_times: model.Times | None
    kernels: tuple[ChangeFacts, ...]
    identical: tuple[SameLaunch, ...]
    retuned: tuple[SameLaunch, ...]  # of the identical: timed anew among the same candidates, and another one won
    graphs: tuple[model.GraphChange, ...]
    frames: tuple[model.FrameChange, ...]
    breaks: tuple[model.BreakChange, ...]
    recompiles: tuple[model.RecompileChange, ...]
    autotunes: tuple[model.AutotuneChange, ...]
    cudagraphs: tuple[model.CudagraphChange, ...]
    settings: tuple[model.SettingChange, ...]


def data(d: model.RecordingDiff) -> Data:
    """Return the facts of a diff for programs."""
    facts = {name: getattr(d, name) for name in Data.__struct_fields__}
    for name in ("before", "after"):
        side = facts[name]
        known = asdict(side) | {"phases": dict(side.phases.both)}
        facts[name] = SideFacts(**known, compile_seconds=side.phases.total if side.phases.timed else None)
    facts["timed_launches"] = TimedLaunches(*d.timed_launches)
    facts["kernels"] = tuple(ChangeFacts(**asdict(one), times=one.times) for one in d.kernels)
    for name in ("identical", "retuned"):  # no more of them than their names
        facts[name] = tuple(
            SameLaunch(_name(case.before[0]), _name(case.after[0]), case.differences, case.times)
            for case in facts[name]
        )
    return Data(**facts)


def _name(launch: model.LaunchRef) -> LaunchName:
    return LaunchName(launch.compile_id, launch.direction, launch.kernel)
