"""Where a recording was made, the files that it points to, and what went wrong in it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from compiler_lens.recording.codec import unpacked
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    CaptureProblem,
    CompileId,
    Environment,
    Recording,
    SourceFile,
    Unavailable,
)


def read_recording(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Recording, ...]:
    """Read `lens.recording`: a whole one, all its events read."""
    return (unpacked(Recording, event.meta),)


def read_environment(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Environment, ...]:
    """Read `lens.environment`; what a later version adds is passed over."""
    return (unpacked(Environment, {**event.meta, "started": event.at}),)


def read_torch_version(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Environment, ...]:
    """Read `torch_version`, which torch writes into its own logs."""
    version = json.loads(event.text or "{}").get("pytorch_version", "")
    return (Environment(torch=version, versions={"torch": version}, started=event.at),) if version else ()


def read_file_names(event: Event) -> Mapping[int, str]:
    """Read `str` and `lens.files`: the names of files that later events give by number."""
    if event.name == "str":
        return {event.meta["id"]: event.meta["text"]}
    return {int(number): name for number, name in event.meta["files"].items()}


def read_problem(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[CaptureProblem, ...]:
    """Read `lens.problem`."""
    return (CaptureProblem(event.meta["where"], event.meta["message"], compile_id.or_none),)


def read_unavailable(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Unavailable, ...]:
    """Read `lens.unavailable`."""
    return (Unavailable(event.meta["fact"], event.meta["reason"], compile_id.or_none),)


def read_source(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[SourceFile, ...]:
    """Read `lens.source`."""
    return (SourceFile(event.meta["file"], event.text or ""),)
