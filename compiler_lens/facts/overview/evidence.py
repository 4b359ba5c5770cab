"""What findings are about: a type, a rule and a place for each. Graph breaks, recompiles, functions are such, too."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.program.coverage import Frame, Function, FunctionName, Treatment
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import (
    CacheLayer,
    CacheOutcome,
    Compilation,
    CompileSite,
    CudagraphOutcome,
    Outcome,
    SourceLine,
    Stance,
)
from compiler_lens.recording.torch_names import Phase


class NothingSeen(Struct, frozen=True):
    """Not one frame entered the compiler."""


class FrameFailed(Struct, frozen=True):
    """Compiling a frame ended in an error that reached the user."""

    frame: Frame
    card: BreakCard | None = None  # where the same thing also broke graphs


class FailureSuppressed(Struct, frozen=True):
    """Compiling a frame failed, and it runs eagerly without a word, as `suppress_errors` wants it."""

    frame: Frame
    reason: str


class HoldsNothing(Struct, frozen=True):
    """A module that wraps others, such as DDP's, was compiled, and no graph holds anything of it."""

    function: Function
    wrapper: str  # its class


class StanceTaken(Struct, frozen=True):
    """A stance under which calls run otherwise than as they were compiled."""

    stance: Stance


class NeverCalled(Struct, frozen=True):
    """Something was given to torch.compile, and no call of it entered the compiler."""

    site: CompileSite


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
    NothingSeen | StanceTaken | NeverCalled | FrameFailed | FailureSuppressed | HoldsNothing | BreakCard
    | RecompileReport | Function | CudagraphsSkipped | CacheBypassed | TinyGraphs | PhaseDominates | DeviceIdle
    | DisabledOnPurpose | Unfinished
)  # fmt: skip

# Scripts compare these: a rule is never renamed, and docs/findings.md lists every one.
_OF_TYPE: Mapping[type, str] = {
    NothingSeen: "nothing-compiled",
    StanceTaken: "stance-taken",
    NeverCalled: "never-called",
    FrameFailed: "frame-failed",
    FailureSuppressed: "failure-suppressed",
    HoldsNothing: "wrapper-holds-nothing",
    BreakCard: "graph-break",  # where torch gives the break no number
    RecompileReport: "recompile-limit",  # else by its first cause
    Function: "function-eager",
    CudagraphsSkipped: "cudagraphs-skipped",
    CacheBypassed: "cache-bypassed",
    TinyGraphs: "tiny-graphs",
    PhaseDominates: "phase-dominates",
    DeviceIdle: "device-idle",
    DisabledOnPurpose: "disabled-on-purpose",
    Unfinished: "frame-unfinished",
}
# A recompile has the name of its cause, but for these.
_OTHERWISE: Mapping[CauseClass, str] = {
    CauseClass.ZERO_ONE: "size-zero-or-one",
    CauseClass.SHAPE_EXPRESSION: "shape-condition",
    CauseClass.GLOBAL: "global-variable",
    CauseClass.CLOSURE: "closure-variable",
    CauseClass.OPTIMIZER: "optimizer-setting",
    CauseClass.OTHER_GLOBAL_STATE: "torch-setting",
    CauseClass.DEAD_OBJECT: "object-gone",
}
_OF_CAUSE: Mapping[CauseClass, str] = {
    cause: "recompile-" + _OTHERWISE.get(cause, cause.name.lower().replace("_", "-")) for cause in CauseClass
}
_LIMIT = "function-at-recompile-limit"  # without a recompile that a report could be about

RULES = (*_OF_TYPE.values(), *_OF_CAUSE.values(), _LIMIT)


def rule_of(evidence: Evidence) -> str:
    """Return the rule of a finding: torch's number of a graph break, such as "GB0170", or one of RULES."""
    if isinstance(evidence, BreakCard) and evidence.cause.gbid:
        return evidence.cause.gbid
    if isinstance(evidence, RecompileReport) and not evidence.limit:
        return _OF_CAUSE[evidence.causes[0].cause]
    if isinstance(evidence, Function) and evidence.treatment is Treatment.LIMIT:
        return _LIMIT
    return _OF_TYPE[type(evidence)]


def place_of(evidence: Evidence) -> SourceLine | None:
    """Return the line that a finding points to: of the user's code where one is known, else of its function."""
    place: SourceLine | FunctionName | None = None
    match evidence:
        case BreakCard(place=place) | DisabledOnPurpose(line=place) | Function(name=place):
            pass
        case RecompileReport():
            place = evidence.causes[0].line or evidence.function
        case FrameFailed():
            place = failed_compilation(evidence.frame).failure_line or evidence.frame.name
        case StanceTaken():
            place = evidence.stance.place
        case NeverCalled():
            place = evidence.site.place
        case TinyGraphs() | HoldsNothing():
            place = evidence.function.name
        case Unfinished() | FailureSuppressed():
            place = evidence.frame.name
        case CudagraphsSkipped():
            place = next(reversed(evidence.outcomes[0].user_stack), None)
        case _:
            pass
    if isinstance(place, FunctionName):
        return SourceLine(place.file, place.line, place.name) if place.file else None
    return place


def failed_compilation(frame: Frame) -> Compilation:
    """Return the first compilation of a failed frame that failed."""
    return next(c for c in frame.compilations if c.outcome is Outcome.FAILED)
