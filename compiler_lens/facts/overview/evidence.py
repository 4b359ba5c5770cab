"""What findings are about: a type, a rule and a place for each. Graph breaks, recompiles, functions are such, too."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.unintended import Doubt, Unintended
from compiler_lens.facts.program.coverage import Frame, Function, FunctionName, Treatment
from compiler_lens.facts.program.owners import Owner
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import (
    BreakCause,
    CachedOtherwise,
    CacheLayer,
    CacheOutcome,
    ChildProcess,
    Compilation,
    CompileSite,
    CudagraphOutcome,
    Outcome,
    SourceLine,
    Stance,
    Tried,
)
from compiler_lens.recording.torch_names import Phase


class NothingSeen(Struct, frozen=True):
    """Not one frame entered the compiler."""


class FrameFailed(Struct, frozen=True):
    """Compiling a frame ended in an error that reached the user."""

    frame: Frame
    card: BreakCard | None = None  # where the same thing also broke graphs
    tried: tuple[Tried, ...] = ()  # offers for it, each made in a copy of the program by itself
    owner: Owner = Owner()  # of the line that failed
    inside: SourceLine | None = None  # that line, if it is not the user's

    @property
    def failed(self) -> Compilation:
        """The first of its compilations that failed."""
        return next(c for c in self.frame.compilations if c.outcome is Outcome.FAILED)


class FailureSuppressed(Struct, frozen=True):
    """Compiling a frame failed, and it runs eagerly without a word, as `suppress_errors` wants it."""

    frame: Frame
    failed: Compilation


class HoldsNothing(Struct, frozen=True):
    """A module that wraps others, such as DDP's, was compiled, and no graph holds anything of it."""

    function: Function
    wrapper: str  # its class


class MarkedAway(Struct, frozen=True):
    """A module that runs others was compiled, and a mark keeps these out of the compiler: nothing is compiled."""

    function: Function
    cause: BreakCause
    mark: SourceLine | None  # of the user's, where the function that it keeps out is defined

    @property
    def place(self) -> SourceLine | FunctionName:
        """Where to look."""
        return self.mark or self.function.name


class StanceTaken(Struct, frozen=True):
    """A stance under which calls run otherwise than as they were compiled."""

    stance: Stance
    calls: int = 0  # that are known to have run eagerly because of it


class NeverCalled(Struct, frozen=True):
    """Something was given to torch.compile, and no call of it entered the compiler."""

    site: CompileSite
    calls_forward: bool | None = None  # of a module: whether another method of its class does; None: not known
    is_entered: bool = False  # the same function entered the compiler otherwise
    is_marked: bool = False  # a mark where it is defined has torch pass over it
    children: tuple[ChildProcess, ...] = ()  # that are not recorded, and may have called it


class HookAfterCompile(Struct, frozen=True):
    """A line registers a hook on modules that were compiled without it: what is compiled does not call it."""

    hook: str  # its kind
    place: SourceLine | None
    modules: tuple[str, ...] = ()  # their classes; none for a hook of all modules
    by_hand: bool = False  # put into their tables: the line is not known


class CudagraphsSkipped(Struct, frozen=True):
    """CUDA graphs were asked for, and some compiled graphs run without."""

    outcomes: tuple[CudagraphOutcome, ...]


class CacheBypassed(Struct, frozen=True):
    """A cache refused to keep a graph: every new process compiles it again."""

    layer: CacheLayer
    outcomes: tuple[CacheOutcome, ...]


class CachedUnder(Struct, frozen=True):
    """A graph came out of a cache that was traced under another setting than the one in force."""

    told: CachedOtherwise
    place: SourceLine | None  # of the op that the setting is about


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
    owner: Owner = Owner()


class Unfinished(Struct, frozen=True):
    """The recording ends while a frame is compiled."""

    frame: Frame


Evidence = (
    NothingSeen | StanceTaken | NeverCalled | HookAfterCompile | FrameFailed | FailureSuppressed | HoldsNothing
    | MarkedAway | BreakCard | RecompileReport | Function | CudagraphsSkipped | CacheBypassed | TinyGraphs
    | PhaseDominates | DeviceIdle | DisabledOnPurpose | Unfinished | Unintended | CachedUnder
)  # fmt: skip

# Scripts compare these: a rule is never renamed, and docs/findings.md lists every one. `Unintended` has several.
_OF_TYPE: Mapping[type, str] = {
    NothingSeen: "nothing-compiled",
    StanceTaken: "stance-taken",
    NeverCalled: "never-called",
    HookAfterCompile: "hook-after-compile",
    FrameFailed: "frame-failed",
    FailureSuppressed: "failure-suppressed",
    HoldsNothing: "wrapper-holds-nothing",
    MarkedAway: "all-disabled",
    BreakCard: "graph-break",  # where torch gives the break no number
    RecompileReport: "recompile-limit",  # else by its first cause
    Function: "function-eager",
    CudagraphsSkipped: "cudagraphs-skipped",
    CacheBypassed: "cache-bypassed",
    CachedUnder: "cached-under-other-settings",
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
_PASSED_OVER = "function-passed-over"

RULES = (*_OF_TYPE.values(), *_OF_CAUSE.values(), *(doubt.value for doubt in Doubt), _LIMIT, _PASSED_OVER)


def rule_of(evidence: Evidence) -> str:
    """Return the rule of a finding: torch's number of a graph break, such as "GB0170", or one of RULES."""
    if isinstance(evidence, BreakCard) and evidence.cause.gbid:
        return evidence.cause.gbid
    if isinstance(evidence, RecompileReport) and not evidence.limit:
        return _OF_CAUSE[evidence.causes[0].cause]
    if isinstance(evidence, Function) and evidence.treatment is Treatment.LIMIT:
        return _LIMIT
    if isinstance(evidence, Function) and evidence.treatment is Treatment.PASSED_OVER:
        return _PASSED_OVER
    if isinstance(evidence, Unintended):
        return evidence.doubt.value
    return _OF_TYPE[type(evidence)]


def place_of(evidence: Evidence) -> SourceLine | None:
    """Return the line that a finding points to: of the user's code where one is known, else of its function."""
    place: SourceLine | FunctionName | None = None
    match evidence:
        case (
            BreakCard(place=place)
            | DisabledOnPurpose(line=place)
            | Function(name=place)
            | Unintended(place=place)
            | CachedUnder(place=place)
            | MarkedAway(place=place)
            | HookAfterCompile(place=place)
        ):
            pass
        case RecompileReport():
            place = evidence.causes[0].line or evidence.function
        case FrameFailed() | FailureSuppressed():
            is_theirs = isinstance(evidence, FrameFailed) and evidence.inside
            place = (None if is_theirs else evidence.failed.failure_line) or evidence.frame.name
        case StanceTaken():
            place = evidence.stance.place
        case NeverCalled():
            place = evidence.site.place
        case TinyGraphs() | HoldsNothing():
            place = evidence.function.name
        case Unfinished():
            place = evidence.frame.name
        case CudagraphsSkipped():
            place = next(reversed(evidence.outcomes[0].user_stack), None)
        case _:
            pass
    if isinstance(place, FunctionName):
        return SourceLine(place.file, place.line, place.name) if place.file else None
    return place


def owner_in(evidence: Evidence) -> Owner:
    """Return whose it is that a finding is about; the user's where nobody else has a part in it."""
    match evidence:
        case BreakCard(owner=owner) | RecompileReport(owner=owner) | DisabledOnPurpose(owner=owner):
            return owner
        case FrameFailed(owner=owner) | Function(owner=owner) | TinyGraphs(function=Function(owner=owner)):
            return owner
        case _:
            return Owner()
