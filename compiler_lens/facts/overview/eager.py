"""What runs eagerly, why, and how much of it is known: calls that run what was compiled are counted by nobody."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.overview import evidence as seen
from compiler_lens.facts.overview.explanation import Summary
from compiler_lens.facts.program.coverage import (
    GENERATOR,
    Frame,
    Function,
    FunctionName,
    Lines,
    Treatment,
    is_disabling,
)
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.model import BreakOutcome, GraphBreak, Outcome, Recording, SourceLine, Stance
from compiler_lens.recording.torch_names import TRACING_DISABLED


class Reason(Enum):
    """Why something runs eagerly. The values are public: JSON has them."""

    GRAPH_BREAK = "graph_break"
    SKIPPED = "skipped"  # Dynamo passed over the frame, without a break
    GENERATOR = "generator"  # compiled only where a compiled function runs it
    SUPPRESSED = "suppressed_error"
    AROUND = "function_around"  # a comprehension in a function that runs eagerly itself
    LIMIT = "recompile_limit"
    STANCE = "stance"
    DISABLED = "disabled"
    NEVER_CALLED = "never_called"
    WRAPPER = "wrapper"  # a module that wraps others, and no graph holds anything of them


class Extent(Enum):
    """How much of it runs eagerly, the most first."""

    EVERY_CALL = "every_call"
    IN_FORCE = "while_in_force"  # every call while a stance is
    SINCE = "every_call_since"  # torch passed over what was compiled
    GIVEN = "calls_of_what_was_given"  # one of several modules of a class, say
    UNFIT = "calls_that_fit_no_compilation"
    REST = "rest_of_every_call"  # from a line on
    BETWEEN = "between_graphs"  # one line of every call


class EagerPart(Struct, frozen=True):
    """Something that runs eagerly, for one reason."""

    function: FunctionName | None  # None: all of them
    reason: Reason
    extent: Extent
    why: str  # torch's words, or the stance
    place: SourceLine | None  # the line that is to blame
    lines: tuple[Lines, ...] = ()  # those that run eagerly, where only a part does
    calls: int | None = None  # that ran eagerly, where all of them are counted


class Runs(Enum):
    """How a function runs, as far as was recorded."""

    COMPILED = "compiled"
    PARTLY = "partly"
    EAGERLY = "eagerly"
    FAILED = "failed"  # its call raised while it was compiled
    UNFINISHED = "unfinished"  # the recording ends while it was compiled


class Eager(Struct, frozen=True):
    """What is known of calls that ran eagerly."""

    functions: Mapping[Runs, int]  # of those that entered the compiler and have something to compile
    compiling_calls: int  # that something was compiled for; later ones that find it are not counted
    eager_calls: int  # that are known to have run eagerly
    parts: tuple[EagerPart, ...]


_RUNS: Mapping[Treatment, Runs] = {
    Treatment.WHOLE: Runs.COMPILED,
    Treatment.SPLIT: Runs.PARTLY,
    Treatment.PARTLY_EAGER: Runs.PARTLY,
    Treatment.LIMIT: Runs.PARTLY,
    Treatment.PASSED_OVER: Runs.PARTLY,
    Treatment.EAGER: Runs.EAGERLY,
    Treatment.FAILED: Runs.FAILED,
    Treatment.UNFINISHED: Runs.UNFINISHED,
}


def eager(recording: Recording, summary: Summary) -> Eager:
    """Return what ran eagerly and why; only what was counted is counted."""
    functions = summary.coverage.functions
    own = [c for f in functions for frame in f.frames if frame.resumes_at is None for c in frame.compilations]
    ended = Counter(c.outcome for c in own if not c.door)
    parts = [
        *_stances(recording),
        *(part for function in functions for part in parts_of(function)),
        *_kept_out(summary.coverage.kept_out),
        *_findings(summary),
    ]
    extents = list(Extent)
    return Eager(
        Counter(_RUNS[f.treatment] for f in functions if f.treatment in _RUNS),
        ended[Outcome.COMPILED],
        ended[Outcome.SKIPPED] + ended[Outcome.RECOMPILE_LIMIT] + sum(one.calls for one in recording.eager_calls),
        tuple(sorted(parts, key=lambda part: extents.index(part.extent))),
    )


def _kept_out(frames: Sequence[Frame]) -> Iterator[EagerPart]:
    """Yield the functions whose own frame a mark keeps in Python; what they call may be compiled."""
    for frame in frames:
        yield EagerPart(frame.name, Reason.DISABLED, Extent.EVERY_CALL, frame.reason, None)


_EXTENTS: Mapping[str, Extent] = {
    "force_eager": Extent.IN_FORCE,
    "eager_on_recompile": Extent.UNFIT,
    "eager_then_compile": Extent.UNFIT,  # the first of each
}


def _stances(recording: Recording) -> Iterator[EagerPart]:
    """Each stance under which calls run eagerly; with `force_eager` its calls, by function."""
    taken = [stance for stance in recording.stances if stance.name in _EXTENTS]
    for stance in taken:
        if _EXTENTS[stance.name] is not Extent.IN_FORCE or not recording.eager_calls:
            yield EagerPart(None, Reason.STANCE, _EXTENTS[stance.name], stance.name, stance.place)
    forced = next((stance for stance in taken if _EXTENTS[stance.name] is Extent.IN_FORCE), Stance("force_eager"))
    counted: Counter[SourceLine] = Counter()
    for one in recording.eager_calls:
        counted[one.function] += one.calls
    for function, calls in counted.items():
        name = FunctionName(function.function or "?", function.file, function.line)
        yield EagerPart(name, Reason.STANCE, Extent.IN_FORCE, forced.name, forced.place, calls=calls)


# Of what was compiled at first.
_LATER: Mapping[Treatment, tuple[Reason, Extent]] = {
    Treatment.LIMIT: (Reason.LIMIT, Extent.UNFIT),
    Treatment.PASSED_OVER: (Reason.SKIPPED, Extent.SINCE),
}


def parts_of(function: Function) -> Iterator[EagerPart]:
    """Yield what of a function runs eagerly and why, as far as its frames tell."""
    broken = [event for frame in function.frames for event in frame.breaks]
    if function.treatment is Treatment.EAGER:
        suppressed = next((frame.suppressed for frame in function.frames if frame.suppressed), None)
        skipped = next((event for event in broken if event.outcome is BreakOutcome.SKIPPED_FRAME), None)
        reason, why, place = Reason.SKIPPED, function.reason, None
        if function.around:
            reason, why = Reason.AROUND, function.around
        elif function.generator:
            reason = Reason.GENERATOR
        elif suppressed:
            reason, why, place = Reason.SUPPRESSED, suppressed.reason, suppressed.failure_line
        elif skipped or broken:
            event = skipped or broken[-1]
            reason, why, place = Reason.GRAPH_BREAK, _cause(event), _place(event)
        yield EagerPart(function.name, reason, Extent.EVERY_CALL, why, place)
        return
    if later := _LATER.get(function.treatment):
        yield EagerPart(function.name, *later, function.reason, None)
    if function.eager_lines:
        yield from _rest(function, broken)
    told: set[tuple[object, str]] = set()
    for event in broken:
        key = (_place(event), _cause(event))
        if event.outcome is BreakOutcome.SPLIT and key not in told:
            told.add(key)
            is_wanted = bool(event.causes) and is_disabling(event.causes[0])
            reason = Reason.DISABLED if is_wanted else Reason.GRAPH_BREAK
            yield EagerPart(function.name, reason, Extent.BETWEEN, _cause(event), _place(event))


def _rest(function: Function, broken: Sequence[GraphBreak]) -> Iterator[EagerPart]:
    """Yield why what comes after a break runs eagerly: the limit, which any call may meet, and a break there."""
    limited = [frame for frame in function.frames if frame.outcome is Outcome.RECOMPILE_LIMIT and frame.resumes_at]
    starts = {frame.resumes_at for frame in limited}
    refused = tuple(lines for lines in function.eager_lines if lines.first in starts)
    if limited:  # what goes on after a break was compiled too often
        yield EagerPart(function.name, Reason.LIMIT, Extent.UNFIT, limited[0].reason, None, refused)
    # Where what goes on after a break breaks for good itself, its frame is skipped.
    rest = next((event for event in broken if event.outcome is not BreakOutcome.SPLIT), None)
    lines = tuple(lines for lines in function.eager_lines if lines not in refused)
    if rest:
        yield EagerPart(function.name, Reason.GRAPH_BREAK, Extent.REST, _cause(rest), _place(rest), lines)
    elif not limited:
        yield EagerPart(function.name, Reason.SKIPPED, Extent.REST, function.reason, None, function.eager_lines)


def _findings(summary: Summary) -> Iterator[EagerPart]:
    """What no frame tells of: what is never called, and wrappers whose graph is empty."""
    for finding in summary.findings:
        match finding.evidence:
            case seen.NeverCalled(site, is_entered=is_entered):
                name = FunctionName(site.defined.function, site.defined.file, site.defined.line)
                extent = Extent.GIVEN if is_entered else Extent.EVERY_CALL
                if site.is_disabled:
                    yield EagerPart(name, Reason.SKIPPED, extent, TRACING_DISABLED, None)
                elif site.is_generator:
                    yield EagerPart(name, Reason.GENERATOR, extent, GENERATOR, None)
                else:
                    yield EagerPart(name, Reason.NEVER_CALLED, extent, "", site.place)
            case seen.HoldsNothing(function):
                yield EagerPart(function.name, Reason.WRAPPER, Extent.EVERY_CALL, "", None)
            case seen.MarkedAway(function, cause, mark):
                yield EagerPart(function.name, Reason.DISABLED, Extent.EVERY_CALL, cause.gb_type, mark)
            case _:
                pass


def _cause(event: GraphBreak) -> str:
    return event.root.gb_type if event.causes else ""


def _place(event: GraphBreak) -> SourceLine | None:
    return innermost_own(event.user_stack) or event.location
