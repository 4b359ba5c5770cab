"""From what was seen of each frame to Compilations, and from breaks to the resume functions behind them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from compiler_lens.decode.facts import Failure, FrameEnd, FrameStart, Metrics, ResumeName
from compiler_lens.recording.model import (
    BreakOutcome,
    Compilation,
    CompileId,
    Graph,
    GraphBreak,
    GraphStage,
    Outcome,
    Span,
)
from compiler_lens.recording.resume_names import resume_name, resumed


@dataclass(slots=True)
class _Seen:
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
    """One Compilation for each compile id that a frame, a metric or a failure was seen of, in order of appearance."""
    seen: dict[CompileId, _Seen] = defaultdict(_Seen)
    for fact in facts:
        _note(seen[fact.compile_id], fact)
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


def _note(entry: _Seen, fact: Any) -> None:
    if isinstance(fact, FrameStart):
        entry.starts.append(fact)
    elif isinstance(fact, FrameEnd):
        entry.end = fact
    elif isinstance(fact, Failure):
        entry.failure = fact
    elif isinstance(fact, Metrics) and fact.backward:
        entry.backward = fact
    elif isinstance(fact, Metrics):
        entry.metrics = fact


def _backward_seconds(spans: Sequence[Span]) -> Mapping[CompileId, float]:
    found: dict[CompileId, float] = defaultdict(float)
    for span in spans:
        if span.name == "entire_backward_compile" and span.compile_id is not None:
            found[span.compile_id] += span.seconds
    return found


def _compilation(compile_id: CompileId, seen: _Seen, backward_seconds: float | None) -> Compilation:
    # Our hook's start knows backend and mode, torch's the callers' stack.
    ours = next((s for s in seen.starts if s.backend), None)
    theirs = next((s for s in seen.starts if s.stack), None)
    values = seen.metrics.values if seen.metrics else {}
    function, file, line = ("torch.export", "", 0) if seen.is_export else _place(ours, theirs, values)
    outcome, reason = _outcome(seen, values)
    before = resumed(function)
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
        restart_reasons=tuple(map(str, _list(values.get("restart_reasons")))),
        stack=theirs.stack if theirs else (),
        backend=ours.backend if ours else "",
        mode=(ours.mode if ours else "") or "default",
        options=ours.options if ours else {},
        dynamic=ours.dynamic if ours else None,
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


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


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
    """Each splitting break with the name of the function that goes on behind it, where that function was seen."""
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
