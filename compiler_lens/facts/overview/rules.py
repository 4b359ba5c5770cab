"""What kind of finding each is, by a name that stays the same, and the line that it points to."""

from __future__ import annotations

from collections.abc import Mapping

from compiler_lens.facts.breaks.cards import BreakCard
from compiler_lens.facts.overview.evidence import (
    CacheBypassed,
    CudagraphsSkipped,
    DeviceIdle,
    DisabledOnPurpose,
    Evidence,
    FrameFailed,
    NothingSeen,
    PhaseDominates,
    TinyGraphs,
    Unfinished,
    failed_compilation,
)
from compiler_lens.facts.program.coverage import Function, FunctionName, Treatment
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.facts.recompiles.reports import RecompileReport
from compiler_lens.recording.model import SourceLine

# Scripts compare these: a rule is never renamed, and docs/findings.md lists every one.
_OF_TYPE: Mapping[type, str] = {
    NothingSeen: "nothing-compiled",
    FrameFailed: "frame-failed",
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
_OF_CAUSE: Mapping[CauseClass, str] = {
    CauseClass.BATCH_SIZE: "recompile-batch-size",
    CauseClass.SEQUENCE_LENGTH: "recompile-sequence-length",
    CauseClass.SIZE: "recompile-size",
    CauseClass.ZERO_ONE: "recompile-size-zero-or-one",
    CauseClass.SHAPE_EXPRESSION: "recompile-shape-condition",
    CauseClass.RANK: "recompile-rank",
    CauseClass.STRIDE: "recompile-stride",
    CauseClass.DTYPE: "recompile-dtype",
    CauseClass.DEVICE: "recompile-device",
    CauseClass.DISPATCH_KEYS: "recompile-dispatch-keys",
    CauseClass.REQUIRES_GRAD: "recompile-requires-grad",
    CauseClass.TENSOR_TYPE: "recompile-tensor-type",
    CauseClass.ALIASING: "recompile-aliasing",
    CauseClass.INT_ARGUMENT: "recompile-int-argument",
    CauseClass.FLOAT_ARGUMENT: "recompile-float-argument",
    CauseClass.STRING_ARGUMENT: "recompile-string-argument",
    CauseClass.BOOL_OR_NONE: "recompile-bool-or-none",
    CauseClass.OBJECT_TYPE: "recompile-object-type",
    CauseClass.OBJECT_IDENTITY: "recompile-object-identity",
    CauseClass.CALL_STYLE: "recompile-call-style",
    CauseClass.LIST_LENGTH: "recompile-list-length",
    CauseClass.DICT_KEYS: "recompile-dict-keys",
    CauseClass.MODULE_ATTRIBUTE: "recompile-module-attribute",
    CauseClass.OBJECT_ATTRIBUTE: "recompile-object-attribute",
    CauseClass.TRAINING_MODE: "recompile-training-mode",
    CauseClass.ANOTHER_MODULE: "recompile-another-module",
    CauseClass.GLOBAL: "recompile-global-variable",
    CauseClass.CLOSURE: "recompile-closure-variable",
    CauseClass.OPTIMIZER: "recompile-optimizer-setting",
    CauseClass.GRAD_MODE: "recompile-grad-mode",
    CauseClass.AUTOCAST: "recompile-autocast",
    CauseClass.OTHER_GLOBAL_STATE: "recompile-torch-setting",
    CauseClass.BACKEND: "recompile-backend",
    CauseClass.DEAD_OBJECT: "recompile-object-gone",
    CauseClass.OTHER: "recompile-other",
}
_LIMIT = "function-at-recompile-limit"  # without a recompile that a report could be about

RULES = (*_OF_TYPE.values(), *_OF_CAUSE.values(), _LIMIT)


def rule_of(evidence: Evidence) -> str:
    """Return the rule of a finding: torch's number of a graph break, such as "GB0170", or one of RULES."""
    if isinstance(evidence, BreakCard) and evidence.cause.gbid:
        return evidence.cause.gbid
    if isinstance(evidence, RecompileReport) and not evidence.limit:
        return _OF_CAUSE[evidence.causes[0].kind]
    if isinstance(evidence, Function) and evidence.treatment is Treatment.LIMIT:
        return _LIMIT
    return _OF_TYPE[type(evidence)]


def place_of(evidence: Evidence) -> SourceLine | None:
    """Return the line that a finding points to: of the user's code where one is known, else of its function."""
    place: SourceLine | FunctionName | None = None
    match evidence:
        case BreakCard():
            place = evidence.place
        case RecompileReport():
            place = evidence.causes[0].line or evidence.function
        case FrameFailed():
            place = failed_compilation(evidence.frame).failure_line or evidence.frame.name
        case Function():
            place = evidence.name
        case TinyGraphs():
            place = evidence.function.name
        case Unfinished():
            place = evidence.frame.name
        case DisabledOnPurpose():
            place = evidence.line
        case CudagraphsSkipped():
            stack = evidence.outcomes[0].user_stack
            place = stack[-1] if stack else None
        case _:
            pass
    if isinstance(place, FunctionName):
        return SourceLine(place.file, place.line, place.name) if place.file else None
    return place
