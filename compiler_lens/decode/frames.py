"""Frames: where each compilation began, how it ended, and what torch counted on the way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from compiler_lens.decode.facts import FrameEnd, FrameStart, Metrics, ResumeName
from compiler_lens.decode.stacks import read_stack
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, SourceLine
from compiler_lens.recording.resume_names import bytecode_of

# Texts among the metrics (CompilationMetrics in torch/_dynamo/utils.py): whole configurations, each as JSON, a shape
# for every node, and stacks that `dynamo_start` and `dynamo_error` tell better.
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


def read_dynamo_start(event: Event, compile_id: CompileId, files: Mapping[int, str]) -> tuple[FrameStart, ...]:
    """Torch's word: the whole stack, with the frame itself last."""
    stack = read_stack(event.meta.get("stack"), files)
    if not stack:
        raise PayloadError(f"{event.name} without a stack")
    frame = stack[-1]
    return (FrameStart(compile_id, event.at, stack, frame.function, frame.file, frame.line, event.attempt),)


def read_frame_start(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[FrameStart, ...]:
    """Our hook's word: what the frame is compiled with."""
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
        module=meta.get("module") or "",
        definition=read_definition(meta.get("definition")),
        parameters=tuple(meta.get("parameters") or ()),
    )
    return (start,)


def read_definition(told: Mapping[str, Any] | None) -> SourceLine | None:
    """Where a function is defined and what its author calls it, from what our hook wrote down."""
    return SourceLine(told["file"], told["line"], told["name"]) if told else None


def read_frame_end(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[FrameEnd, ...]:
    """Our hook's word on how it ended."""
    result = event.meta.get("result")
    if not isinstance(result, str):
        raise PayloadError(f"{event.name} without a result")
    return (FrameEnd(compile_id, event.at, result, event.meta.get("reason") or ""),)


def read_metrics(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Metrics, ...]:
    """What torch counted and timed, without what it left empty and without its configurations."""
    return (Metrics(compile_id, event.at, _plain(event.meta), backward=event.name.startswith("bwd_")),)


def _plain(metrics: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in metrics.items() if value is not None and name not in _BLOBS}


def read_bytecode_name(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[ResumeName, ...]:
    """A resume function's name, from the artifact that holds its bytecode (torch 2.12 and later)."""
    name = bytecode_of(event.name)
    return (ResumeName(compile_id, name),) if name else ()
