"""What is worth doing next, ranked, each with its evidence."""

from __future__ import annotations

from dataclasses import dataclass

from compiler_lens.analysis.coverage import Coverage, Frame
from compiler_lens.analysis.places import Place
from compiler_lens.analysis.recompiles import RecompileCause
from compiler_lens.model import (
    BreakOutcome,
    Compilation,
    CudagraphOutcome,
    CudagraphState,
    Outcome,
    Recording,
    SourceLine,
)

_DEAR = 0.2  # of all compile time
_OFTEN = 2  # one recompile is how torch learns that a size varies


@dataclass(frozen=True, slots=True)
class NothingSeen:
    """Not one frame entered the compiler."""


@dataclass(frozen=True, slots=True)
class FrameFailed:
    """Compiling a frame ended in an error that reached the user."""

    frame: Frame
    place: Place | None = None  # where the same thing also broke graphs


@dataclass(frozen=True, slots=True)
class BreaksHere:
    """A line of the user's breaks graphs."""

    place: Place


@dataclass(frozen=True, slots=True)
class LimitHit:
    """A frame was recompiled too often, and runs eagerly now."""

    frame: Frame
    cause: RecompileCause | None  # the most frequent one


@dataclass(frozen=True, slots=True)
class RunsEagerly:
    """A frame of the user's was skipped, and not because of a graph break."""

    frame: Frame


@dataclass(frozen=True, slots=True)
class Recompiles:
    """One cause recompiles a function again and again, or once at a price."""

    cause: RecompileCause
    seconds: float = 0.0  # of these recompiles
    total_seconds: float = 0.0  # of all compilations


@dataclass(frozen=True, slots=True)
class CudagraphsSkipped:
    """CUDA graphs were asked for, and some compiled graphs run without."""

    outcomes: tuple[CudagraphOutcome, ...]


Finding = NothingSeen | FrameFailed | BreaksHere | LimitHit | RunsEagerly | Recompiles | CudagraphsSkipped


def findings(
    recording: Recording, covered: Coverage, places: tuple[Place, ...], causes: tuple[RecompileCause, ...]
) -> tuple[Finding, ...]:
    """Everything worth doing, what costs most first; empty if there is nothing to fix."""
    if not covered.frames and not recording.graph_breaks:
        return (NothingSeen(),)
    failed = [_failed(f, places) for f in covered.frames if f.outcome is Outcome.FAILED and not _interrupted(f)]
    left = [p for p in places if all(p is not finding.place for finding in failed)]
    eager = [BreaksHere(p) for p in left if p.frames(BreakOutcome.SKIPPED_FRAME)]
    limits = [_limit(f, causes) for f in covered.frames if f.outcome is Outcome.RECOMPILE_LIMIT]
    cuts = [BreaksHere(p) for p in left if not p.frames(BreakOutcome.SKIPPED_FRAME)]
    skipped = [RunsEagerly(f) for f in covered.frames if f.outcome is Outcome.SKIPPED and not f.graph_breaks]
    others = [c for c in causes if all(c is not limit.cause for limit in limits)]
    seconds = {c.compile_id: c.seconds or 0.0 for c in recording.compilations}
    spent = {id(c): sum(seconds.get(r.compile_id, 0.0) for r in c.recompiles) for c in others}
    total = sum(seconds.values())
    dear = [c for c in others if len(c.recompiles) >= _OFTEN or spent[id(c)] > _DEAR * total]
    often = [Recompiles(c, spent[id(c)], total) for c in sorted(dear, key=lambda c: -spent[id(c)])]
    return (*failed, *eager, *limits, *cuts, *skipped, *often, *_cudagraphs(recording))


def _failed(frame: Frame, places: tuple[Place, ...]) -> FrameFailed:
    failure, at = failed_compilation(frame).failure, failed_compilation(frame).failure_line
    same = (
        p for p in places if failure and at and p.line and _where(p.line) == _where(at) and p.gb_type == failure.gb_type
    )
    return FrameFailed(frame, next(same, None))


def _interrupted(frame: Frame) -> bool:
    """Whether the user stopped it: nothing to fix."""
    return failed_compilation(frame).reason.startswith("KeyboardInterrupt")


def failed_compilation(frame: Frame) -> Compilation:
    """The first compilation of a failed frame that failed."""
    return next(c for c in frame.compilations if c.outcome is Outcome.FAILED)


def _where(line: SourceLine) -> tuple[str, int]:
    return line.file, line.line


def _limit(frame: Frame, causes: tuple[RecompileCause, ...]) -> LimitHit:
    return LimitHit(frame, next((c for c in causes if c.function == frame.name), None))


def _cudagraphs(recording: Recording) -> tuple[CudagraphsSkipped, ...]:
    # Asked for on a machine without a GPU, as max-autotune does everywhere: nobody expects them there.
    on_gpu = any(k.device not in {"", "cpu"} for k in recording.kernels)
    skipped = tuple(o for o in recording.cudagraphs if on_gpu and o.state is CudagraphState.SKIPPED)
    return (CudagraphsSkipped(skipped),) if skipped else ()
