"""Kernel times, from real calls of a model."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct, field

from compiler_lens.recording.ids import CodeId, CompileId, Direction, KernelId, LaunchId
from compiler_lens.recording.model.lines import Trust
from compiler_lens.recording.shape import Count, Figure


class LaunchTime(Struct, frozen=True):
    """How long one launch took, measured in real calls."""

    compile_id: CompileId
    direction: Direction
    ordinal: Count  # of the output code
    kernel: str
    launch: Count  # which of the kernel's launches, from 0
    microseconds: Figure  # median over all times that it ran; mean of medians, if it runs several times in a call
    spread: Figure  # between the quartiles, microseconds
    runs: Figure  # how often it ran in one call of the model
    device_kernels: tuple[str, ...] = ()  # what ran, as the device's tracer names it: several for a library's call
    trust: Trust = Trust.EXACT  # TEXT: by its place between its neighbours

    @property
    def kernel_id(self) -> KernelId:
        """The kernel that was called."""
        return KernelId(CodeId(self.compile_id, self.direction, self.ordinal), self.kernel)

    @property
    def id(self) -> LaunchId:
        """Which launch it is."""
        return LaunchId(CodeId(self.compile_id, self.direction, self.ordinal), self.kernel, self.launch)


class OtherTime(Struct, frozen=True):
    """Work outside of all compiled graphs: eager ops, copies, what belongs to no launch."""

    name: str
    microseconds: Figure  # in one call of the model
    runs: Figure  # in one call of the model


class Ceilings(Struct, frozen=True):
    """What this device can do, measured on it: copying, multiplying, launching."""

    device: str  # "NVIDIA H200"
    bytes_per_second: Figure | None = None
    flops_per_second: Mapping[str, Figure] = field(default_factory=dict)  # by dtype: "bf16"
    launch_microseconds: Figure | None = None  # the shortest that any kernel takes


class Remark(Enum):
    """What is to be known of a profile besides its figures."""

    NO_GRADIENTS = "no_gradients"  # called without them, though they were on
    STILL_COMPILING = "still_compiling"  # while calls were timed; `number` of compilations
    LESS_PRECISION = "less_precision"  # products of f32 may be made in less; `name`: the setting that says so
    NO_CPP_TIMES = "no_cpp_times"  # C++ kernels of the recording were not found in the process
    NO_TIME = "no_time"  # `number` of launches of graphs that ran
    LOSS_ADDED = "loss_added"  # the backward starts from a sum that is no part of the program
    TIMING_COST = "timing_cost"  # each launch seems `number` of microseconds longer than it is
    SAME_CODE = "same_code"  # several compilations have the same output code: times are with the last one
    UNKNOWN_GRAPH = "unknown_graph"  # one ran that is not in this recording
    BY_NAMES = "by_names"  # a graph was recognised by the names of its kernels
    OTHER_COUNT = "other_count"  # the kernel `name` ran `number` of times in a call of its graph, and has `of` launches
    TOO_FEW = "too_few"  # fewer kernels ran than libraries were called, between two generated kernels
    BY_PLACE = "by_place"  # kernels of several library calls in a row were shared out among them
    KEPT_WAITING = "kept_waiting"  # `number`: the share of a usual call for which the calling thread had a processor
    UNEVEN = "uneven"  # a usual call took `number` times as long as the fastest
    WORDS = "words"  # `name`: a sentence, from before remarks were facts


class ProfileNote(Struct, frozen=True):
    """A remark on a profile, with what it is about."""

    remark: Remark
    name: str = ""
    number: Figure | None = None
    of: Count | None = None


class Profile(Struct, frozen=True):
    """Kernel times of one model, from real calls of it."""

    calls: Count  # that were measured
    microseconds: Figure  # one call from outside, median, without the profiler; of several calls their mean
    spread: Figure  # between the quartiles
    busy_microseconds: Figure  # in one call, the device working
    launches: tuple[LaunchTime, ...]
    others: tuple[OtherTime, ...] = ()
    ceilings: Ceilings = field(default_factory=lambda: Ceilings(""))
    timer: str = ""  # "torch.profiler"
    training: bool = False
    notes: tuple[ProfileNote, ...] = ()  # what could not be matched or measured, and what measuring did to it
