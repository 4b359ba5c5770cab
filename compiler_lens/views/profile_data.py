"""A profile for programs: every launch with its time, its work, and the least time for that work."""

from __future__ import annotations

from msgspec import Struct

from compiler_lens.facts.kernels.launch_costs import Bound, Doubt, LaunchCost
from compiler_lens.facts.kernels.roofline import Advice, GroupCost, Roofline
from compiler_lens.facts.overview.line_story import ProfilePart
from compiler_lens.recording.ids import CompileId, Direction
from compiler_lens.recording.model import Ceilings, KernelKind, OtherTime, ProfileNote, Remark, Trust
from compiler_lens.views.profile_words import note_words


class TimedLaunch(Struct, frozen=True):
    """One launch with its time, its work, and the least time for that work."""

    compile_id: CompileId
    direction: Direction
    ordinal: int
    kernel: str
    launch: int
    line: int | None  # of the output code
    microseconds: float
    spread: float
    runs: float
    trust: Trust
    device_kernels: tuple[str, ...]
    bytes_read: int | None
    bytes_written: int | None
    bytes_trust: Trust | None
    flops: int | None
    dtype: str | None
    floor_microseconds: float | None
    above_floor_microseconds: float
    memory_share: float | None
    compute_share: float | None
    bound: Bound

    @classmethod
    def of(cls, cost: LaunchCost) -> TimedLaunch:
        """Return the data of a launch."""
        time, traffic, work, launches = cost.time, cost.traffic, cost.work, cost.kernel.launches
        return cls(
            compile_id=time.compile_id,
            direction=time.direction,
            ordinal=time.ordinal,
            kernel=time.kernel,
            launch=time.launch,
            line=launches[time.launch].line if time.launch < len(launches) else None,
            microseconds=time.microseconds,
            spread=time.spread,
            runs=time.runs,
            trust=time.trust,
            device_kernels=time.device_kernels,
            bytes_read=traffic.read if traffic else None,
            bytes_written=traffic.written if traffic else None,
            bytes_trust=traffic.trust if traffic else None,
            flops=work.flops if work else None,
            dtype=work.dtype if work else None,
            floor_microseconds=cost.floor,
            above_floor_microseconds=cost.above,
            memory_share=cost.memory_share,
            compute_share=cost.compute_share,
            bound=cost.bound,
        )


class TimedKernel(Struct, frozen=True):
    """Kernels that compute the same, with every launch."""

    names: tuple[str, ...]
    kind: KernelKind
    aten: tuple[str, ...]
    ops: int
    microseconds_above_floor: float
    microseconds: float
    runs: float
    bytes_per_second: float | None
    flops_per_second: float | None
    bound: Bound
    launches: tuple[TimedLaunch, ...]

    @classmethod
    def of(cls, cost: GroupCost) -> TimedKernel:
        """Return the data of kernels."""
        return cls(
            tuple(dict.fromkeys(kernel.name for kernel in cost.group.kernels)),
            cost.group.first.kind,
            cost.group.first.aten,
            cost.group.op_count,
            cost.above,
            cost.total,
            cost.runs,
            cost.bytes_per_second,
            cost.flops_per_second,
            cost.bound,
            tuple(map(TimedLaunch.of, cost.launches)),
        )


class ProfileRemark(Struct, frozen=True):
    """What is to be said of a profile, as a kind and as a sentence."""

    remark: Remark
    name: str
    number: float | None
    of: int | None
    words: str


class Measured(Struct, frozen=True):
    """A profile, and what it means."""

    timer: str
    training: bool
    calls: int
    microseconds: float
    spread: float
    busy_microseconds: float
    busy_share: float
    kernel_microseconds: float
    other_microseconds: float
    idle_microseconds: float
    launches_per_call: float
    ceilings: Ceilings
    kernels: tuple[TimedKernel, ...]
    launches_without_time: int | None
    others: tuple[OtherTime, ...]
    notes: tuple[ProfileRemark, ...]
    advice: tuple[Advice, ...]
    doubts: tuple[Doubt, ...]
    is_usable: bool

    @classmethod
    def of(cls, found: Roofline, part: ProfilePart) -> Measured:
        """Return the data of a profile, or of a part of it."""
        profile, parts = found.profile, found.parts
        return cls(
            timer=profile.timer,
            training=profile.training,
            calls=profile.calls,
            microseconds=profile.microseconds,
            spread=profile.spread,
            busy_microseconds=profile.busy_microseconds,
            busy_share=parts.busy_share,
            kernel_microseconds=parts.kernels,
            other_microseconds=parts.other,
            idle_microseconds=parts.idle,
            launches_per_call=parts.launches,
            ceilings=profile.ceilings,
            kernels=tuple(map(TimedKernel.of, part.groups)),
            launches_without_time=part.untimed if part.named else None,
            others=profile.others,
            notes=tuple(map(_remark, profile.notes)),
            advice=found.advice,
            doubts=found.doubts,
            is_usable=found.is_usable,
        )


class Data(Struct, frozen=True):
    """The last profile of a recording."""

    profile: Measured | None  # None: nothing was timed


def _remark(note: ProfileNote) -> ProfileRemark:
    return ProfileRemark(note.remark, note.name, note.number, note.of, note_words(note))
