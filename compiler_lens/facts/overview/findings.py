"""What is worth doing next, ranked, each with its evidence and its cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.breaks.raised import failure_of
from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.overview.unintended import Doubt, unintended
from compiler_lens.facts.program.asked import calls_forward, never_called
from compiler_lens.facts.program.coverage import Coverage, Function, Treatment
from compiler_lens.facts.program.owners import Owner, owner_by_error, owner_of
from compiler_lens.facts.program.ownership import Ownership, innermost_own
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.facts.time.phases import phase_times
from compiler_lens.recording import model
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import CompileId, Outcome, Recording, SourceLine
from compiler_lens.recording.source_text import sources

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
    def owner(self) -> Owner:
        """Whose it is."""
        return seen.owner_in(self.evidence)

    @property
    def benign(self) -> bool:
        """Whether nothing needs fixing."""
        return self.severity is Severity.INFO


def findings(
    recording: Recording,
    covered: Coverage,
    cards: tuple[BreakCard, ...],
    reports: tuple[RecompileReport, ...],
    own: Ownership | None = None,
) -> tuple[Finding, ...]:
    """Return everything worth knowing, what costs most first; none above INFO if there is nothing to fix."""
    if all(frame.outcome is Outcome.TRACED for frame in covered.frames) and not recording.graph_breaks:
        unheard = (*_stances(recording), *_never_called(recording, Severity.HIGH))
        return unheard or (Finding(Severity.HIGH, seen.NothingSeen()),)
    own = own or Ownership()
    frames = [frame for frame in covered.frames if frame.outcome is Outcome.FAILED]
    failed = [_failed(seen.FrameFailed(frame), cards, recording.tried, own) for frame in frames]
    # What the user stopped needs no fixing.
    failed = [failure for failure in failed if not failure.failed.reason.startswith("KeyboardInterrupt")]
    found = [
        *_stances(recording),
        *(Finding(Severity.HIGH, failure) for failure in failed),
        *_hidden(covered, cards),
        *(_card(card) for card in cards if all(card is not failure.card for failure in failed)),
        *(_report(report, cards) for report in reports),
        *_functions(covered, reports),
        *_never_called(recording, Severity.LOW),
        *_late_hooks(recording),
        *_cudagraphs(recording),
        *_bypassed(recording),
        *_cached_otherwise(recording),
        *_tiny(recording, covered),
        *_unintended(recording),
        *_phase(recording),
    ]
    return tuple(sorted(found, key=_rank))


_WEIGHTS = {Severity.HIGH: 0, Severity.MEDIUM: 1, Severity.LOW: 4, Severity.INFO: 6}


def _rank(finding: Finding) -> int:
    """The user's own first, then a library's, and what is minor after both."""
    weight = _WEIGHTS[finding.severity]
    if finding.owner.is_yours or finding.benign or isinstance(finding.evidence, seen.FrameFailed):
        return weight
    return weight + (2 if weight < _WEIGHTS[Severity.LOW] else 1)


_FORCE_EAGER = "force_eager"
# Under the others calls compile, or wait to; one that raises is no secret.
_STANCES = {
    _FORCE_EAGER: Severity.HIGH, "eager_on_recompile": Severity.HIGH, "fail_on_recompile": Severity.LOW
}  # fmt: skip


def _stances(recording: Recording) -> Iterator[Finding]:
    forced = sum(stance.name == _FORCE_EAGER for stance in recording.stances)
    for stance in recording.stances:
        severity = Severity.LOW if stance.skips_guards or stance.backend else Severity.INFO
        # Of two places nobody knows which made how many eager.
        calls = sum(one.calls for one in recording.eager_calls) if forced == 1 and stance.name == _FORCE_EAGER else 0
        yield Finding(_STANCES.get(stance.name, severity), seen.StanceTaken(stance, calls))


def _never_called(recording: Recording, severity: Severity) -> Iterator[Finding]:
    # While that stance is in force calls leave no trace but their count.
    if recording.eager_calls or not any(stance.name == _FORCE_EAGER for stance in recording.stances):
        for one in never_called(recording):
            calls = calls_forward(one.site, sources(recording))
            children = tuple(child for child in recording.children if child.compiled is not False)
            yield Finding(severity, seen.NeverCalled(one.site, calls, one.is_entered, one.is_marked, children))


def _late_hooks(recording: Recording) -> Iterator[Finding]:
    """Once a line; not where torch was reset since, and compiled again with the hooks that there were."""
    last = max((c.compile_id.epoch for c in recording.compilations), default=0)
    late = [hook for hook in recording.late_hooks if hook.compile_id.epoch == last]
    for (place, kind, by_hand), hooks in grouped(late, lambda hook: (hook.place, hook.hook, hook.by_hand)).items():
        modules = tuple(dict.fromkeys(hook.module for hook in hooks if hook.module))
        yield Finding(Severity.MEDIUM, seen.HookAfterCompile(kind, place, modules, by_hand))


# Classes of torch's and others' that run a module of the user's, and whose own frame Dynamo gets.
_WRAPPERS = frozenset(("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel", "Sequential"))


def _hidden(covered: Coverage, cards: tuple[BreakCard, ...]) -> Iterator[Finding]:
    """What went wrong and nobody was told: failures that are suppressed, wrappers that hide what they wrap."""
    for frame in covered.frames:
        if failed := frame.suppressed:
            yield Finding(Severity.HIGH, seen.FailureSuppressed(frame, failed))
    compiled = [c for f in covered.frames for c in f.compilations if c.outcome is Outcome.COMPILED]
    below = {(at.file, at.function) for c in compiled for at in c.stack[:-1]}
    for function in covered.treated(Treatment.EMPTY):
        if (function.name.file, function.name.name.rpartition(".")[2]) in below:
            continue  # what it runs was compiled all the same
        module = function.frames[0].compilations[0].module or function.name.name.partition(".")[0]
        kind = module.removeprefix("FSDP")  # FSDP2 makes a class of its own of each
        if (kind in _WRAPPERS or kind != module) and any(frame.breaks for frame in function.frames):
            yield Finding(Severity.HIGH, _holds_nothing(function, module, cards))


def _holds_nothing(
    function: Function, module: str, cards: tuple[BreakCard, ...]
) -> seen.HoldsNothing | seen.MarkedAway:
    """A module that only runs others is no wrapper, and a mark of the user's is no wrapper's doing."""
    ids = set(function.compile_ids)
    marked = next((card for card in cards if card.disabled and not ids.isdisjoint(card.compile_ids)), None)
    if marked and (marked.mark or module == "Sequential"):
        return seen.MarkedAway(function, marked.cause, marked.mark)
    return seen.HoldsNothing(function, module)


def _failed(
    found: seen.FrameFailed, cards: tuple[BreakCard, ...], every: tuple[model.Tried, ...], own: Ownership
) -> seen.FrameFailed:
    failure, at, name = failure_of(found.failed), found.failed.failure_line, found.frame.name
    tried = tuple(one for one in every if failure and one.is_for(at, failure.gb_type))
    owner = owner_of((*found.failed.stack, SourceLine(name.file, name.line), at), own) if at else Owner()
    inside = at if at and not own.owns(at.file) else None
    if failure and owner.is_yours:
        owner = owner_by_error(failure, at) or owner
    for card in cards:
        if failure and at and card.place and card.place.place == at.place and card.gb_type == failure.gb_type:
            return seen.FrameFailed(found.frame, card, tried, owner, inside)
    return seen.FrameFailed(found.frame, None, tried, owner, inside)


def _card(card: BreakCard) -> Finding:
    lost = card.frames_that(model.BreakOutcome.SKIPPED_FRAME) or card.frames_that(model.BreakOutcome.SKIPPED_REST)
    is_known = bool(card.owner.means)
    if card.disabled and card.place and not lost and not is_known and card.direct == len(card.events):
        return Finding(Severity.INFO, seen.DisabledOnPurpose(card.place, card.owner))
    if card.owner.harmless and not lost:
        return Finding(Severity.INFO, card)
    return Finding(Severity.HIGH if lost else Severity.MEDIUM, card)


def _report(report: RecompileReport, cards: tuple[BreakCard, ...]) -> Finding:
    severity = Severity.MEDIUM
    if report.owner.harmless:
        severity = Severity.INFO
    elif report.benign:
        severity = Severity.LOW if report.is_near_limit else Severity.INFO
    if report.limit:
        severity = Severity.HIGH
    if broken := report.follows:  # it goes with the break, and stands behind it
        breaks = [_card(card) for card in cards if card.place and card.place.place == broken.place]
        severity = breaks[0].severity if breaks and not breaks[0].benign else severity
    return Finding(severity, report, report.seconds, Basis.MEASURED)


def _functions(covered: Coverage, reports: tuple[RecompileReport, ...]) -> Iterator[Finding]:
    """Functions that run eagerly though nothing broke them, or hit a limit that no recompile was recorded of."""
    if not any(report.limit for report in reports):
        yield from (Finding(Severity.HIGH, function) for function in covered.treated(Treatment.LIMIT))
    for function in covered.treated(Treatment.EAGER):
        if not (function.around or any(frame.breaks or frame.suppressed for frame in function.frames)):
            is_heavy = function.own and not function.generator
            yield Finding(Severity.HIGH if is_heavy else Severity.LOW, function)
    yield from (Finding(Severity.HIGH, function) for function in covered.treated(Treatment.PASSED_OVER))
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


def _cached_otherwise(recording: Recording) -> Iterator[Finding]:
    """Where the graph has the op that the setting is about: else it changes nothing."""
    told = {one.compile_id: one for one in recording.cached_otherwise}
    for graph in recording.graphs if told else ():
        if graph.stage is model.GraphStage.DYNAMO and (one := told.get(graph.compile_id)):
            op = next((node for node in graph.ops if "scaled_dot_product_attention" in node.target), None)
            if op is not None:
                yield Finding(Severity.MEDIUM, seen.CachedUnder(one, innermost_own(op.source)))


def _tiny(recording: Recording, covered: Coverage) -> Iterator[Finding]:
    tiny = {g.compile_id for g in recording.graphs if g.stage is model.GraphStage.DYNAMO and len(g.ops) <= _TINY}
    for function in covered.treated(Treatment.SPLIT, Treatment.PARTLY_EAGER):
        found = (f.id.epoch for f in function.frames if any(c.compile_id in tiny for c in f.compilations))
        small = max(Counter(found).values(), default=0)  # a reset has torch make all of them again
        if small >= _MANY_TINY:
            yield Finding(Severity.LOW, seen.TinyGraphs(function, small))


def _unintended(recording: Recording) -> Iterator[Finding]:
    for one in unintended(recording):
        # That it is float64 is sure; the others may be meant.
        yield Finding(Severity.LOW if one.doubt is Doubt.FLOAT64 else Severity.INFO, one)


def _phase(recording: Recording) -> Iterator[Finding]:
    times = phase_times(recording.spans)
    if times.total < _LONG:
        return
    phase, seconds = times.both[0]
    if seconds > _DOMINANT * times.total:
        found = seen.PhaseDominates(phase, seconds / times.total)
        yield Finding(Severity.INFO, found, seconds, Basis.MEASURED)
