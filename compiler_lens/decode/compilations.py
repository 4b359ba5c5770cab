"""Compilations: what was seen of each frame, how it began and ended, and what its author calls it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.decode.stacks import read_stack
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId, GraphStage
from compiler_lens.recording.model import (
    BreakCause,
    BreakOutcome,
    Compilation,
    Graph,
    GraphBreak,
    Outcome,
    SourceLine,
    Span,
)
from compiler_lens.recording.resume_names import bytecode_of, resume_name, resumed
from compiler_lens.recording.torch_names import BACKWARD_SPAN

# Texts among the metrics (CompilationMetrics in torch/_dynamo/utils.py): whole configurations, each as JSON, a shape
# for every node, and stacks that `dynamo_start` and `dynamo_error` have in full.
_BLOBS = frozenset(
    (
        "dynamo_config",
        "inductor_config",
        "functorch_config",
        "compiler_config",
        "graph_node_shapes",
        "stack_trace",
        "exception_stack_trace",
    )
)
# ConvertFrameAssert.__call__() in torch/_dynamo/convert_frame.py: what has no tensors has nothing to compile.
_NOTHING_IN_IT = frozenset(("no tensor-related objects found in frame",))


class FrameStart(Struct, frozen=True):
    """A frame entered the compiler (`dynamo_start`, or our own hook, which knows more)."""

    compile_id: CompileId
    at: float
    stack: tuple[SourceLine, ...] = ()
    function: str = ""
    file: str = ""
    line: int = 0
    attempt: int = 0
    backend: str = ""
    mode: str = ""
    options: Mapping[str, str] = field(default_factory=dict)
    dynamic: bool | None = None
    config: Mapping[str, str] | None = None
    module: str = ""
    definition: SourceLine | None = None
    parameters: tuple[str, ...] = ()


class FrameEnd(Struct, frozen=True):
    """A frame left the compiler, as our hook saw it."""

    compile_id: CompileId
    at: float
    result: str  # "code", "none" or "error"
    reason: str = ""


class Metrics(Struct, frozen=True):
    """`compilation_metrics` or `bwd_compilation_metrics`."""

    compile_id: CompileId
    at: float
    values: Mapping[str, Any]
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


# -- read


def read_dynamo_start(event: Event, compile_id: CompileId, files: Mapping[int, str]) -> tuple[FrameStart, ...]:
    """Read torch's word: the whole stack, with the frame itself last."""
    stack = read_stack(event.meta.get("stack"), files)
    if not stack:
        raise PayloadError(f"{event.name} without a stack")
    frame = stack[-1]
    return (FrameStart(compile_id, event.at, stack, frame.function, frame.file, frame.line, event.attempt),)


def read_frame_start(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[FrameStart, ...]:
    """Read our hook's word: what the frame is compiled with."""
    meta = event.meta
    start = FrameStart(
        compile_id,
        event.at,
        function=meta.get("function") or "",
        file=meta.get("file") or "",
        line=meta.get("line") or 0,
        attempt=event.attempt,
        backend=meta.get("backend") or "",
        mode=meta.get("mode") or "",
        options={str(key): str(value) for key, value in (meta.get("options") or {}).items()},
        dynamic=meta.get("dynamic"),
        config=meta.get("config"),
        module=meta.get("module") or "",
        definition=read_definition(meta.get("definition")),
        parameters=tuple(meta.get("parameters") or ()),
    )
    return (start,)


def read_definition(told: Mapping[str, Any] | None) -> SourceLine | None:
    """Return where a function is defined and what its author calls it, from what our hook wrote down."""
    return SourceLine(told["file"], told["line"], told["name"]) if told else None


def read_frame_end(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[FrameEnd, ...]:
    """Read our hook's word on how it ended."""
    result = event.meta.get("result")
    if not isinstance(result, str):
        raise PayloadError(f"{event.name} without a result")
    return (FrameEnd(compile_id, event.at, result, event.meta.get("reason") or ""),)


def read_metrics(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Metrics, ...]:
    """Read what torch counted and timed, without what it left empty and without its configurations."""
    values = {name: value for name, value in event.meta.items() if value is not None and name not in _BLOBS}
    return (Metrics(compile_id, event.at, values, backward=event.name.startswith("bwd_")),)


def read_bytecode_name(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[ResumeName, ...]:
    """Read a resume function's name, from the artifact that holds its bytecode (torch 2.12 and later)."""
    name = bytecode_of(event.name)
    return (ResumeName(compile_id, name),) if name else ()


def read_skipped_frame(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Compilation, ...]:
    """Read `lens.frame_skipped`: a frame that Dynamo passed over before it gave it a compile id."""
    meta = event.meta
    return (
        Compilation(
            compile_id=compile_id,
            function=meta["function"],
            file=meta["file"],
            line=meta["line"],
            outcome=Outcome.EMPTY if meta["reason"] in _NOTHING_IN_IT else Outcome.SKIPPED,
            reason=meta["reason"],
            backend=meta["backend"],
            mode=meta["mode"],
            options=meta["options"],
            dynamic=meta["dynamic"],
            definition=read_definition(meta.get("definition")),
            started=event.at,
        ),
    )


# -- joined


class _Seen(Struct):
    """Everything seen of one compile id."""

    starts: list[FrameStart] = field(default_factory=list)
    end: FrameEnd | None = None
    metrics: Metrics | None = None
    backward: Metrics | None = None
    failure: Failure | None = None
    breaks: list[GraphBreak] = field(default_factory=list)
    graphs: int = 0
    is_exported: bool = False  # by the names in its graph

    @property
    def has_ops(self) -> bool:
        """Whether anything was there to compile: a graph, or if it could not be read, torch's count of its ops."""
        return bool(self.graphs or (self.metrics and self.metrics.values.get("graph_op_count")))

    @property
    def is_export(self) -> bool:
        """Whether Dynamo made its graph for `torch.export.export(…, strict=True)`, without a frame that was called.

        fullgraph_capture() in torch/_dynamo/convert_frame.py tells the graph's compile id, and not that of its end.
        """
        return self.is_exported and not (self.starts or self.end or self.metrics or self.failure)

    @property
    def is_of_no_frame(self) -> bool:
        """Whether all that is known are figures without a function: what an export took."""
        values = self.metrics.values if self.metrics else {}
        is_alone = not (self.starts or self.end or self.failure or self.breaks or self.graphs or self.backward)
        return is_alone and not values.get("co_name") and not values.get("fail_type")


def join_compilations(
    facts: Iterable[Any], breaks: Sequence[GraphBreak], graphs: Sequence[Graph], spans: Sequence[Span]
) -> tuple[Compilation, ...]:
    """Return a Compilation for each compile id that a frame, a metric or a failure was seen of, in that order."""
    seen: dict[CompileId, _Seen] = defaultdict(_Seen)
    for fact in facts:
        entry = seen[fact.compile_id]
        match fact:
            case FrameStart():
                entry.starts.append(fact)
            case FrameEnd():
                entry.end = fact
            case Failure():
                entry.failure = fact
            case Metrics(backward=True):
                entry.backward = fact
            case Metrics():
                entry.metrics = fact
    for item in breaks:
        seen[item.compile_id].breaks.append(item)
    for graph in graphs:
        if graph.stage is GraphStage.DYNAMO:
            seen[graph.compile_id].graphs += 1
            seen[graph.compile_id].is_exported |= _EXPORTED.search(graph.code) is not None
    backward = _backward_seconds(spans)
    return tuple(
        _compilation(compile_id, entry, backward.get(compile_id))
        for compile_id, entry in seen.items()
        if not entry.is_of_no_frame
    )


def _backward_seconds(spans: Sequence[Span]) -> Mapping[CompileId, float]:
    found: dict[CompileId, float] = defaultdict(float)
    for span in spans:
        if span.name == BACKWARD_SPAN and span.compile_id is not None:
            found[span.compile_id] += span.seconds
    return found


def _compilation(compile_id: CompileId, seen: _Seen, backward_seconds: float | None) -> Compilation:
    # Our hook's start knows backend and mode, torch's the callers' stack.
    ours = next((s for s in seen.starts if s.backend), None)
    theirs = next((s for s in seen.starts if s.stack), None)
    values = seen.metrics.values if seen.metrics else {}
    function, file, line = ("torch.export", "", 0) if seen.is_export else _place(ours, theirs, values)
    outcome, reason = _outcome(seen, values)
    before, restarts = resumed(function), values.get("restart_reasons")
    return Compilation(
        compile_id=compile_id,
        function=function,
        file=file,
        line=line,
        outcome=outcome,
        reason=reason,
        failure=seen.failure.cause if seen.failure else None,
        failure_line=seen.failure.line if seen.failure else None,
        attempts=1 + max((s.attempt for s in seen.starts), default=0) if seen.starts else 1,
        restart_reasons=tuple(map(str, restarts)) if isinstance(restarts, list) else (),
        stack=theirs.stack if theirs else (),
        backend=ours.backend if ours else "",
        mode=(ours.mode if ours else "") or "default",
        options=ours.options if ours else {},
        dynamic=ours.dynamic if ours else None,
        config=ours.config if ours else None,
        started=min((s.at for s in seen.starts), default=0.0),
        seconds=_seconds(seen, values),
        backward_seconds=backward_seconds,
        guard_count=values.get("guard_count"),
        op_count=values.get("graph_op_count"),
        module=ours.module if ours else "",
        definition=ours.definition if ours else None,
        parameters=ours.parameters if ours else (),
        resumes=before.function if before else "",
        metrics=values,
    )


def _place(ours: FrameStart | None, theirs: FrameStart | None, values: Mapping[str, Any]) -> tuple[str, str, int]:
    if ours:
        return ours.function, ours.file, ours.line
    if values.get("co_name"):
        return values["co_name"], values.get("co_filename") or "", values.get("co_firstlineno") or 0
    if theirs:
        frame = theirs.stack[-1]
        return frame.function, frame.file, frame.line
    return "", "", 0


def _seconds(seen: _Seen, values: Mapping[str, Any]) -> float | None:
    if seen.end is not None and seen.starts:
        return max(seen.end.at - min(s.at for s in seen.starts), 0.0)
    total = values.get("entire_frame_compile_time_s")
    return float(total) if total is not None else None


_EXPORT = "traced by torch.export, which compiles nothing"
# The names that torch/_dynamo/functional_export.py gives to a module and to its inputs, in 2.11 to 2.15.
_EXPORTED = re.compile(r"_export_root|\bL_flat_args_\d")


def _outcome(seen: _Seen, values: Mapping[str, Any]) -> tuple[Outcome, str]:
    if seen.is_export:
        return Outcome.EMPTY, _EXPORT
    fail_reason = str(values.get("fail_reason") or "")
    if "recompile limit" in fail_reason.lower() or "recompile_limit" in fail_reason.lower():
        return Outcome.RECOMPILE_LIMIT, fail_reason
    if seen.end is not None:
        return _outcome_of_end(seen, seen.end, fail_reason)
    if seen.metrics is None:
        return Outcome.UNFINISHED, ""
    if not values.get("fail_type"):
        return (Outcome.COMPILED if seen.has_ops else Outcome.EMPTY), ""
    skipped = any(item.outcome is BreakOutcome.SKIPPED_FRAME for item in seen.breaks)
    return (Outcome.SKIPPED if skipped else Outcome.FAILED), _why(seen, fail_reason)


def _outcome_of_end(seen: _Seen, end: FrameEnd, fail_reason: str) -> tuple[Outcome, str]:
    if end.result == "error":
        return Outcome.FAILED, _why(seen, end.reason)
    if end.result == "code" and seen.has_ops:
        return Outcome.COMPILED, ""
    if fail_reason or any(item.outcome is BreakOutcome.SKIPPED_FRAME for item in seen.breaks):
        return Outcome.SKIPPED, _why(seen, fail_reason or end.reason)
    return Outcome.EMPTY, end.reason


def _why(seen: _Seen, otherwise: str) -> str:
    skip = next((item for item in seen.breaks if item.outcome is BreakOutcome.SKIPPED_FRAME), None)
    if skip is not None:
        return skip.root.gb_type
    if seen.failure is not None:
        return seen.failure.message or otherwise
    return otherwise


def link_resume_functions(
    breaks: Sequence[GraphBreak], compilations: Sequence[Compilation], names: Sequence[ResumeName]
) -> tuple[GraphBreak, ...]:
    """Return the breaks, each splitting one with the name of its resume function, where that function was seen."""
    frames = {c.compile_id: c for c in compilations}
    known = {c.function for c in compilations if c.resumes} | {n.name for n in names}
    return tuple(_linked(item, frames.get(item.compile_id), known) for item in breaks)


def _linked(item: GraphBreak, frame: Compilation | None, known: set[str]) -> GraphBreak:
    if frame is None or item.outcome is not BreakOutcome.SPLIT:
        return item
    function = frame.resumes or frame.function
    for place in reversed(item.user_stack):
        name = resume_name(function, place.line)
        if place.file == frame.file and name in known:
            return replace(item, resume_function=name)
    return item
