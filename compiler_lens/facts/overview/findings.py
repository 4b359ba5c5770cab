"""What is worth doing next, ranked, each with its evidence and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.program.asked import never_called
from compiler_lens.facts.program.coverage import Coverage, Frame, Treatment
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.facts.time.phases import phase_times
from compiler_lens.recording import model
from compiler_lens.recording.model import CompileId, Outcome, Recording, SourceLine

_DOMINANT = 0.6  # of all compile time
_LONG = 10.0  # seconds: below that nobody waits for a phase
_TINY = 3  # ops: starting such a graph costs more than it computes
_MANY_TINY = 3
_IDLE = 0.5  # of a call


class Severity(Enum):
    """How much it matters. INFO is benign: nothing to fix."""

    HIGH = "high"  # something does not run compiled at all
    MEDIUM = "medium"  # something is compiled worse, or more often, than it could be
    LOW = "low"
    INFO = "info"


class Basis(Enum):
    """How a cost is known."""

    MEASURED = "measured"  # times in the recording
    COUNTED = "counted"  # events in the recording; what they cost at run time is not in it


class Finding(Struct, frozen=True):
    """One thing to know, and mostly to do."""

    severity: Severity
    evidence: seen.Evidence
    seconds: float | None = None  # what it costs, where the recording shows it
    basis: Basis = Basis.COUNTED

    @property
    def rule(self) -> str:
        """What kind of finding it is: torch's own number of a graph break (GB0170), or a slug of RULES."""
        return seen.rule_of(self.evidence)

    @property
    def place(self) -> SourceLine | None:
        """The line to look at; None where there is none."""
        return seen.place_of(self.evidence)

    @property
    def benign(self) -> bool:
        """Whether nothing needs fixing."""
        return self.severity is Severity.INFO


def findings(
    recording: Recording, covered: Coverage, cards: tuple[BreakCard, ...], reports: tuple[RecompileReport, ...]
) -> tuple[Finding, ...]:
    """Return everything worth knowing, what costs most first; none above INFO if there is nothing to fix."""
    if all(frame.outcome is Outcome.TRACED for frame in covered.frames) and not recording.graph_breaks:
        unheard = (*_stances(recording), *_never_called(recording, Severity.HIGH))
        return unheard or (Finding(Severity.HIGH, seen.NothingSeen()),)
    failed = [
        _failed(frame, cards)
        for frame in covered.frames
        # What the user stopped needs no fixing.
        if frame.outcome is Outcome.FAILED and not seen.failed_compilation(frame).reason.startswith("KeyboardInterrupt")
    ]
    found = [
        *_stances(recording),
        *(Finding(Severity.HIGH, failure) for failure in failed),
        *_hidden(covered),
        *(_card(card) for card in cards if all(card is not failure.card for failure in failed)),
        *(_report(report) for report in reports),
        *_functions(covered, reports),
        *_never_called(recording, Severity.LOW),
        *_cudagraphs(recording),
        *_bypassed(recording),
        *_tiny(recording, covered),
        *_phase(recording),
    ]
    order = list(Severity)
    return tuple(sorted(found, key=lambda finding: order.index(finding.severity)))


_FORCE_EAGER = "force_eager"
# Under the others calls compile, or wait to; one that raises is no secret.
_STANCES = {
    _FORCE_EAGER: Severity.HIGH, "eager_on_recompile": Severity.HIGH, "fail_on_recompile": Severity.LOW
}  # fmt: skip


def _stances(recording: Recording) -> Iterator[Finding]:
    for stance in recording.stances:
        severity = Severity.LOW if stance.skips_guards or stance.backend else Severity.INFO
        yield Finding(_STANCES.get(stance.name, severity), seen.StanceTaken(stance))


def _never_called(recording: Recording, severity: Severity) -> Iterator[Finding]:
    if not any(stance.name == _FORCE_EAGER for stance in recording.stances):  # else calls leave no trace
        yield from (Finding(severity, seen.NeverCalled(site)) for site in never_called(recording))


# Classes of torch's and others' that run a module of the user's, and whose own frame Dynamo gets.
_WRAPPERS = frozenset(("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "Sequential"))


def _hidden(covered: Coverage) -> Iterator[Finding]:
    """What went wrong and nobody was told: failures that are suppressed, wrappers that hide what they wrap."""
    for frame in covered.frames:
        if failed := frame.suppressed:
            yield Finding(Severity.HIGH, seen.FailureSuppressed(frame, failed.reason))
    compiled = [c for f in covered.frames for c in f.compilations if c.outcome is Outcome.COMPILED]
    below = {(at.file, at.function) for c in compiled for at in c.stack[:-1]}
    for function in covered.treated(Treatment.EMPTY):
        if (function.name.file, function.name.name.rpartition(".")[2]) in below:
            continue  # what it runs was compiled all the same
        module = function.frames[0].compilations[0].module or function.name.name.partition(".")[0]
        kind = module.removeprefix("FSDP")  # FSDP2 makes a class of its own of each
        if (kind in _WRAPPERS or kind != module) and any(frame.breaks for frame in function.frames):
            yield Finding(Severity.HIGH, seen.HoldsNothing(function, module))


def _failed(frame: Frame, cards: tuple[BreakCard, ...]) -> seen.FrameFailed:
    failed = seen.failed_compilation(frame)
    failure, at = failed.failure, failed.failure_line
    for card in cards:
        if failure and at and card.place and card.place.place == at.place and card.gb_type == failure.gb_type:
            return seen.FrameFailed(frame, card)
    return seen.FrameFailed(frame)


def _card(card: BreakCard) -> Finding:
    lost = card.frames_that(model.BreakOutcome.SKIPPED_FRAME) or card.frames_that(model.BreakOutcome.SKIPPED_REST)
    if card.disabled and card.place and not lost and card.direct == len(card.events):
        return Finding(Severity.INFO, seen.DisabledOnPurpose(card.place))
    if card.by_design and not lost:
        return Finding(Severity.INFO, card)
    return Finding(Severity.HIGH if lost else Severity.MEDIUM, card)


def _report(report: RecompileReport) -> Finding:
    severity = Severity.INFO if report.benign else Severity.MEDIUM
    if report.limit:
        severity = Severity.HIGH
    return Finding(severity, report, report.seconds, Basis.MEASURED)


def _functions(covered: Coverage, reports: tuple[RecompileReport, ...]) -> Iterator[Finding]:
    """Functions that run eagerly though nothing broke them, or hit a limit that no recompile was recorded of."""
    if not any(report.limit for report in reports):
        yield from (Finding(Severity.HIGH, function) for function in covered.treated(Treatment.LIMIT))
    for function in covered.treated(Treatment.EAGER):
        if not any(frame.breaks or frame.suppressed for frame in function.frames):
            is_heavy = function.own and not function.generator
            yield Finding(Severity.HIGH if is_heavy else Severity.LOW, function)
    for function in covered.treated(Treatment.UNFINISHED):
        left = [frame for frame in function.frames if frame.outcome is Outcome.UNFINISHED]
        yield from (Finding(Severity.INFO, seen.Unfinished(frame)) for frame in left)


def _cudagraphs(recording: Recording) -> Iterator[Finding]:
    """Graphs that CUDA graphs were asked for and that run without; and a device that waits though nobody asked."""
    state = model.CudagraphState
    # Asked for on a machine without a GPU, as max-autotune does everywhere: nobody expects them there.
    on_gpu = any(k.device not in {"", "cpu"} for k in recording.kernels)
    skipped = tuple(o for o in recording.cudagraphs if on_gpu and o.state is state.SKIPPED)
    if skipped:
        yield Finding(Severity.MEDIUM, seen.CudagraphsSkipped(skipped))
    if not recording.profiles or any(o.state is not state.NOT_REQUESTED for o in recording.cudagraphs):
        return
    from compiler_lens.facts.kernels.roofline import Advice, call_parts, roofline  # most recordings have no profile

    profile = recording.profiles[-1]
    parts = call_parts(profile)
    if parts.idle > _IDLE * parts.total and Advice.REDUCE_OVERHEAD in roofline(recording, profile).advice:
        mode = next((c.mode for c in recording.compilations if c.mode != "default"), "default")
        yield Finding(Severity.MEDIUM, seen.DeviceIdle(parts.total, parts.idle, mode), basis=Basis.MEASURED)


def _bypassed(recording: Recording) -> Iterator[Finding]:
    """By layer; what AOTAutograd's cache did not take is not also a finding of the cache of what it was lowered to."""
    told: set[CompileId] = set()
    for layer in model.CacheLayer:
        asked = (o for o in recording.caches if o.layer is layer and o.result is model.CacheResult.BYPASS)
        bypassed = tuple(o for o in asked if o.compile_id not in told)
        if bypassed:
            yield Finding(Severity.LOW, seen.CacheBypassed(layer, bypassed))
        told |= {o.compile_id for o in bypassed}


def _tiny(recording: Recording, covered: Coverage) -> Iterator[Finding]:
    tiny = {g.compile_id for g in recording.graphs if g.stage is model.GraphStage.DYNAMO and len(g.ops) <= _TINY}
    for function in covered.treated(Treatment.SPLIT, Treatment.PARTLY_EAGER):
        small = sum(any(c.compile_id in tiny for c in frame.compilations) for frame in function.frames)
        if small >= _MANY_TINY:
            yield Finding(Severity.LOW, seen.TinyGraphs(function, small))


def _phase(recording: Recording) -> Iterator[Finding]:
    times = phase_times(recording.spans)
    if times.total < _LONG:
        return
    phase, seconds = times.both[0]
    if seconds > _DOMINANT * times.total:
        found = seen.PhaseDominates(phase, seconds / times.total)
        yield Finding(Severity.INFO, found, seconds, Basis.MEASURED)
