"""Where a recording was made, what went wrong in it, and torch's timed events."""

from __future__ import annotations

import json
from collections.abc import Mapping

from compiler_lens.decode.facts import TimedMark
from compiler_lens.decode.frames import read_definition
from compiler_lens.recording.codec import unpacked
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import (
    CaptureProblem,
    Compilation,
    CompileId,
    Environment,
    Outcome,
    Recording,
    SourceFile,
    Unavailable,
)

# ConvertFrameAssert.__call__() in torch/_dynamo/convert_frame.py: what has no tensors has nothing to compile.
_NOTHING_IN_IT = frozenset(("no tensor-related objects found in frame",))

_NOWHERE = CompileId(None, None)


def read_recording(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Recording, ...]:
    """`lens.recording`: a whole one, all its events read."""
    return (unpacked(Recording, event.meta),)


def read_environment(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Environment, ...]:
    """`lens.environment`; what a later version also tells is passed over."""
    return (unpacked(Environment, {**event.meta, "started": event.at}),)


def read_torch_version(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Environment, ...]:
    """`torch_version`, which torch writes into its own logs."""
    version = json.loads(event.text or "{}").get("pytorch_version", "")
    return (Environment(torch=version, versions={"torch": version}, started=event.at),) if version else ()


def read_file_names(event: Event) -> Mapping[int, str]:
    """`str` and `lens.files`: the names of files that later events give by number."""
    if event.name == "str":
        return {event.meta["id"]: event.meta["text"]}
    return {int(number): name for number, name in event.meta["files"].items()}


def read_problem(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[CaptureProblem, ...]:
    """`lens.problem`."""
    return (CaptureProblem(event.meta["where"], event.meta["message"], _known(compile_id)),)


def read_unavailable(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Unavailable, ...]:
    """`lens.unavailable`."""
    return (Unavailable(event.meta["fact"], event.meta["reason"], _known(compile_id)),)


def read_skipped_frame(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Compilation, ...]:
    """`lens.frame_skipped`: a frame that Dynamo passed over before it gave it a compile id."""
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


def read_source(event: Event, _compile_id: CompileId, _files: Mapping[int, str]) -> tuple[SourceFile, ...]:
    """`lens.source`."""
    return (SourceFile(event.meta["file"], event.text or ""),)


def read_timed_event(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TimedMark, ...]:
    """`chromium_event`: a dict in the process, its JSON in a log. Instants and counters are left out."""
    values = event.meta if "ph" in event.meta else json.loads(event.text or "{}")
    if values.get("ph") not in ("B", "E"):
        return ()
    return (TimedMark(_known(compile_id), values["name"], values["ph"], values["ts"] / 1e6, event.thread),)


def _known(compile_id: CompileId) -> CompileId | None:
    return None if compile_id == _NOWHERE else compile_id
