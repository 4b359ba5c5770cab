"""Opening what somebody saved: our journals, and logs of TORCH_TRACE that we did not write."""

from __future__ import annotations

import gzip
import os
import sysconfig
import tokenize
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from compiler_lens.decode.compilations import name_definitions
from compiler_lens.decode.fold import collector_paused, fold
from compiler_lens.recording.codec import packed
from compiler_lens.recording.errors import RecordingFileError, writing
from compiler_lens.recording.event import Event
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.journal import JournalWriter, is_journal, read_journal, whole
from compiler_lens.recording.model import Recording, SourceFile, SourceLine, Unavailable
from compiler_lens.recording.source_text import Sources
from compiler_lens.recording.torch_log import is_torch_log, read_torch_log, torch_log_files


def load(path: str | os.PathLike[str], *, strict: bool = False) -> Recording:
    """Return the recording in a file: a journal of ours, or a TORCH_TRACE log, or a folder with one of them.

    A file that was cut off or damaged opens up to the damage, which is among `problems`.

    Raises:
        RecordingFileError: no such file, neither kind, written by a newer compiler_lens, or a folder with several.
        CaptureError: in strict mode, for an event that no reader can read.
    """
    target = Path(path)
    with collector_paused():
        try:
            if target.is_dir():
                target = _only_recording(target)
            if not is_journal(target) and is_torch_log(target):
                return _with_disk_sources(fold(*read_torch_log(target), strict=strict))
        except OSError as error:
            raise RecordingFileError(f"cannot open {target}: {error.strerror or error}") from error
        return fold(*read_journal(target), strict=strict)


def save(recording: Recording, path: str | os.PathLike[str]) -> None:
    """Write a recording to a file that `load` reads; gzipped, where its name ends with .gz.

    Raises:
        RecordingFileError: the file cannot be written.
    """
    with collector_paused():
        journal = JournalWriter(None)
        journal.append(Event("lens.recording", recording.environment.started, meta=packed(recording)))
    data = whole(journal.contents())
    with writing(path):
        Path(path).write_bytes(gzip.compress(data, mtime=0) if os.fspath(path).endswith(".gz") else data)


def recordings_in(folder: Path) -> tuple[Path, ...]:
    """Return the recordings in a folder (`*.clens`, `*.clens.gz`), the newest first."""
    files = []
    for path in folder.glob("*.clens*"):
        with suppress(OSError):  # one that cannot be read
            if path.is_file() and is_journal(path):
                files.append(path)
    return tuple(sorted(files, key=lambda path: (path.stat().st_mtime, path.name), reverse=True))


def _only_recording(folder: Path) -> Path:
    files = recordings_in(folder)
    told = "recordings, the newest first"
    if not files:
        files, told = torch_log_files(folder), "logs, one for each process"
    if not files:
        raise RecordingFileError(f"{folder} holds no recording (*.clens) and no TORCH_TRACE log")
    if len(files) > 1:
        names = "\n  ".join(str(file) for file in files[:20])
        raise RecordingFileError(f"{folder} holds {len(files)} {told}; name one of them:\n  {names}")
    return files[0]


open_recording = load


# -- source files for a log that holds none: those on this machine, where they still say what the log says

_LONGEST = 2_000_000  # bytes of a file
_OTHER = "some files were changed since this log was written, or are not on this machine"


def _with_disk_sources(recording: Recording) -> Recording:
    """The recording with the text of those files that are on this machine and agree with every known line."""
    known_lines = [at for event in recording.graph_breaks for at in event.user_stack]
    for c in recording.compilations:
        known_lines += [SourceLine(c.file, 0), *c.stack]
    known_lines += [at for graph in recording.graphs for node in graph.nodes for at in node.source]
    # As for what a lens keeps: not torch's own files, not the standard library's.
    library = sysconfig.get_path("stdlib")
    wanted = {}
    for file, known in grouped(known_lines, lambda at: at.file).items():
        path = file.replace("\\", "/")
        is_library = file.startswith(library) and "-packages/" not in path
        if file and not file.startswith("<") and "-packages/torch/" not in path and not is_library:
            wanted[file] = known
    read = {file: text for file in sorted(wanted) if (text := _text(file))}
    files = tuple(SourceFile(file, text) for file, text in read.items() if _agrees(file, wanted[file], read))
    missing = (Unavailable("source text", _OTHER),) if len(files) < len(wanted) else ()
    return replace(
        recording,
        sources=files,
        compilations=name_definitions(recording.compilations, files),
        unavailable=recording.unavailable + missing,
    )


def _text(file: str) -> str:
    try:
        path = Path(file)
        if not path.is_file() or path.stat().st_size > _LONGEST:  # a log may name a pipe, which would never end
            return ""
        with tokenize.open(file) as stream:
            return stream.read()
    except (OSError, SyntaxError, ValueError):  # not there; not Python; a name that no file can have
        return ""


def _agrees(file: str, known: Iterable[SourceLine], texts: Mapping[str, str]) -> bool:
    """Whether each line of which the log has text begins as the file's line does."""
    source = Sources(texts)
    told = {(at.line, at.code.strip()) for at in known if at.line and at.code.strip()}
    lines = [(source.line(file, number).strip(), code) for number, code in told]
    # The log has the whole statement, which the line may only begin.
    return bool(lines) and all(line and code.startswith(line[:40]) for line, code in lines)
