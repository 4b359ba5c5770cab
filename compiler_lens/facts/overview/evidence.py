"""What findings are about, a type for each kind. Graph breaks, recompiles and functions are evidence themselves."""

from __future__ import annotations

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.program.coverage import Frame, Function
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import (
    CacheLayer,
    CacheOutcome,
    Compilation,
    CudagraphOutcome,
    Outcome,
    SourceLine,
)
from compiler_lens.recording.torch_names import Phase


class NothingSeen(Struct, frozen=True):
    """Not one frame entered the compiler."""


class FrameFailed(Struct, frozen=True):
    """Compiling a frame ended in an error that reached the user."""

    frame: Frame
    card: BreakCard | None = None  # where the same thing also broke graphs


class CudagraphsSkipped(Struct, frozen=True):
    """CUDA graphs were asked for, and some compiled graphs run without."""

    outcomes: tuple[CudagraphOutcome, ...]


class CacheBypassed(Struct, frozen=True):
    """A cache refused to keep a graph: every new process compiles it again."""

    layer: CacheLayer
    outcomes: tuple[CacheOutcome, ...]


class TinyGraphs(Struct, frozen=True):
    """Graph breaks left graphs so small that they are hardly worth a launch."""

    function: Function
    graphs: int


class PhaseDominates(Struct, frozen=True):
    """Most of a long compile time went into one phase."""

    phase: Phase
    share: float


class DeviceIdle(Struct, frozen=True):
    """In a profile the device waits most of a call, and no CUDA graph launches for it."""

    microseconds: float  # of a call
    idle: float  # of these, the device waiting
    mode: str  # that the model was compiled with


class DisabledOnPurpose(Struct, frozen=True):
    """A call of a function that is kept out of the compiler."""

    line: SourceLine


class Unfinished(Struct, frozen=True):
    """The recording ends while a frame is compiled."""

    frame: Frame


Evidence = (
    NothingSeen
    | FrameFailed
    | BreakCard
    | RecompileReport
    | Function
    | CudagraphsSkipped
    | CacheBypassed
    | TinyGraphs
    | PhaseDominates
    | DeviceIdle
    | DisabledOnPurpose
    | Unfinished
)


def failed_compilation(frame: Frame) -> Compilation:
    """Return the first compilation of a failed frame that failed."""
    return next(c for c in frame.compilations if c.outcome is Outcome.FAILED)
