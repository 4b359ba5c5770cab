"""What events say of frames: how each entered the compiler and left it, and what torch counted and timed of it."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.decode.stacks import read_stack
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import BreakCause, Compilation, Outcome, SourceLine
from compiler_lens.recording.resume_names import bytecode_of
from compiler_lens.recording.shape import Count, Figure, shaped
from compiler_lens.recording.torch_names import UNREAD_METRICS

# ConvertFrameAssert.__call__() in torch/_dynamo/convert_frame.py: what has no tensors has nothing to compile.
_NOTHING_IN_IT = frozenset(("no tensor-related objects found in frame",))


class FrameStart(Struct, frozen=True):
    """A frame entered the compiler (`dynamo_start`, or our own hook, which knows more)."""

    compile_id: CompileId
    at: float
    stack: tuple[SourceLine, ...] = ()
    function: str = ""
    file: str = ""
    line: Count = 0
    attempt: int = 0
    backend: str = ""
    mode: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool | None = None
    config: Mapping[str, str] | None = None
    module: str = ""
    instance: Count = 0
    definition: SourceLine | None = None
    parameters: tuple[str, ...] = ()
    door: str = ""  # of a call that compiles without a frame


class FrameEnd(Struct, frozen=True):
    """A frame left the compiler, as our hook saw it."""

    compile_id: CompileId
    at: float
    result: str  # "code", "none" or "error"
    reason: str = ""


class Figures(Struct, frozen=True):
    """What is read of torch's metrics, under its names."""

    co_name: str | None = None
    co_filename: str | None = None
    co_firstlineno: Count | None = None
    entire_frame_compile_time_s: Figure | None = None
    restart_reasons: tuple[str, ...] | None = None
    guard_count: Count | None = None
    graph_op_count: Count | None = None
    fail_type: str | None = None
    fail_reason: str | None = None
    cudagraph_skip_reason: str | None = None


class Metrics(Struct, frozen=True):
    """`compilation_metrics` or `bwd_compilation_metrics`."""

    compile_id: CompileId
    at: float
    values: Mapping[str, Any]
    figures: Figures
    backward: bool = False


class Failure(Struct, frozen=True):
    """`dynamo_error`: a compilation ended with an exception."""

    compile_id: CompileId
    cause: BreakCause | None
    message: str
    line: SourceLine | None
    text: str


class ResumeName(Struct, frozen=True):
    """The name of a resume function that torch made for a break."""

    compile_id: CompileId
    name: str  # torch_dynamo_resume_in_forward_at_23


FACTS = (FrameStart, FrameEnd, Metrics, Failure)  # what compilations are joined from


def read_dynamo_start(event: Event, compile_id: CompileId, files: Mapping[int, str]) -> tuple[FrameStart, ...]:
    """Read torch's word: the whole stack, with the frame itself last."""
    stack = read_stack(event.meta.get("stack"), files)
    if not stack:
        raise PayloadError(f"{event.name} without a stack")
    frame = stack[-1]
    return (FrameStart(compile_id, event.at, stack, frame.function, frame.file, frame.line, event.attempt),)


def read_frame_start(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[FrameStart, ...]:
    """Read our hook's word: what the frame is compiled with."""
    return (_frame_start(event, compile_id),)


class _Definition(Struct, frozen=True):
    """Where a function is defined and what its author calls it."""

    file: str
    line: Count
    name: str


class _Begun(Struct, frozen=True):
    """What stands otherwise in an event than in a `FrameStart`."""

    definition: _Definition | None = None
    options: Mapping[str, Any] | None = None  # may be of any type, written by an older version
    dynamic: Any = None  # a backend may have an attribute of that name, for anything


def _frame_start(event: Event, compile_id: CompileId) -> FrameStart:
    begun = shaped(_Begun, event.meta)
    at = begun.definition
    known: dict[str, Any] = {
        "compile_id": compile_id,
        "at": event.at,
        "attempt": event.attempt,
        "stack": (),
        "options": {name: str(value) for name, value in (begun.options or {}).items()},
        "definition": SourceLine(at.file, at.line, at.name) if at else None,
        "dynamic": begun.dynamic if isinstance(begun.dynamic, bool) else None,
    }
    told = {name: value for name, value in event.meta.items() if value is not None}
    return shaped(FrameStart, {**told, **known})


def read_frame_end(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[FrameEnd, ...]:
    """Read our hook's word on how it ended."""
    return (shaped(FrameEnd, {**event.meta, "compile_id": compile_id, "at": event.at}),)


def read_metrics(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Metrics, ...]:
    """Read what torch counted and timed, without what it left empty and without its configurations."""
    values = {name: value for name, value in event.meta.items() if name not in UNREAD_METRICS and _is_told(value)}
    return (Metrics(compile_id, event.at, values, shaped(Figures, values), event.name.startswith("bwd_")),)


def _is_told(value: Any) -> bool:
    """Whether a metric has a value; torch has no infinite ones, and a saved recording could not hold them."""
    return isfinite(value) if isinstance(value, float) else value is not None


def read_bytecode_name(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[ResumeName, ...]:
    """Read a resume function's name, from the artifact that holds its bytecode (torch 2.12 and later)."""
    name = bytecode_of(event.name)
    return (ResumeName(compile_id, name),) if name else ()


def read_skipped_frame(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Compilation, ...]:
    """Read `lens.frame_skipped`: a frame that Dynamo passed over before it gave it a compile id."""
    start, reason = _frame_start(event, compile_id), shaped(str, event.meta.get("reason"))
    outcome = Outcome.EMPTY if reason in _NOTHING_IN_IT else Outcome.SKIPPED
    skipped = Compilation(compile_id, start.function, start.file, start.line, outcome, reason, started=event.at)
    told = {name: getattr(start, name) for name in ("backend", "mode", "options", "dynamic", "definition")}
    return (replace(skipped, **told),)
