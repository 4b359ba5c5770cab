"""Opening what somebody saved: our journals, and logs of TORCH_TRACE that we did not write."""

from __future__ import annotations

import gzip
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path

from msgspec.structs import replace

from compiler_lens.decode.disk_sources import Folders, with_disk_sources
from compiler_lens.decode.fold import collector_paused, fold
from compiler_lens.recording.codec import packed
from compiler_lens.recording.errors import RecordingFileError, UsageError, writing
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter, whole
from compiler_lens.recording.journal_reader import begins_journal, is_journal, journal_events
from compiler_lens.recording.model import CaptureProblem, Recording, Tried
from compiler_lens.recording.opening import MAX_SIZE, Limits, begun
from compiler_lens.recording.output_files import Product, write_whole
from compiler_lens.recording.shape import DEEPEST, MAX_NESTING
from compiler_lens.recording.torch_log import begins_torch_log, torch_log_events, torch_log_files

_TRIED = "what was tried"  # what a problem of the file beside a recording is about


def load(
    path: str | os.PathLike[str],
    *,
    strict: bool = False,
    sources: Folders = (),
    max_size: int | None = None,
    max_nesting: int | None = None,
) -> Recording:
    """Return the recording in a file: a journal of ours, or a TORCH_TRACE log, or a folder with one of them.

    A file that was cut off or damaged opens without what was damaged, which is among `problems`.

    Args:
        path: the file or folder.
        strict: whether an event that cannot be read is an error.
        sources: one or several folders of yours, for a log, which holds no source text: it is read from their .py
            files, where they say what the log quotes. Nothing else of the disk is read, whatever the log names.
        max_size: how many bytes of text a file may hold, unpacked, and a text counted each time that an event refers to
            it; by default 1 GiB. No line may take more than a quarter of them, and no more events may be there than
            one for each 256 bytes.
        max_nesting: how deep arrays and objects may stand in each other in a line, by default 200; a line where they
            are deeper is not read.

    Raises:
        RecordingFileError: no such file, neither kind, written by a newer compiler_lens, more than *max_size*, or a
            folder with several.
        CaptureError: in strict mode, for an event that no reader can read.
        UsageError: no such folder of sources, or *max_nesting* is over 400.
    """
    target = Path(path)
    if max_nesting is not None and not 0 < max_nesting <= DEEPEST:
        raise UsageError(f"--max-nesting, or max_nesting, is a number from 1 to {DEEPEST}")
    with collector_paused():
        try:
            if target.is_dir():
                target = _only_recording(target)
            problems: list[CaptureProblem] = []
            size, nesting = (MAX_SIZE if max_size is None else max_size), max_nesting or MAX_NESTING
            limits = Limits(str(target), size, nesting)
            start, parts = begun(limits, problems)
            if not begins_journal(start) and begins_torch_log(start):
                log = fold(
                    torch_log_events(start, parts, limits, problems), problems, strict=strict, texts_are_shared=False
                )
                return with_disk_sources(log, sources)
            events = chain(journal_events(start, parts, limits, problems), _beside(target, limits, problems))
            return fold(events, problems, strict=strict)
        except OSError as error:
            raise RecordingFileError(f"cannot open {target}: {error.strerror or error}") from error


def beside(path: Path) -> Path:
    """Return the file where what was tried on a recorded program is kept, beside its recording."""
    return path.with_name(f"{path.name.removesuffix('.gz').removesuffix('.clens')}.fix.json")


def _beside(path: Path, limits: Limits, problems: list[CaptureProblem]) -> Iterator[Event]:
    """Yield the events that are kept beside a recording. One that cannot be read is no reason not to open it."""
    file = beside(path)
    if file.is_file():
        own, found = replace(limits, name=str(file)), list[CaptureProblem]()
        try:
            start, parts = begun(own, found)
            yield from (event for event in journal_events(start, parts, own, found) if event.name == "lens.tried")
        except (RecordingFileError, OSError) as error:
            found.append(CaptureProblem(_TRIED, str(error)))
        problems += (replace(problem, where=_TRIED) for problem in found)  # of this file, not of the recording


def save_tried(tried: Iterable[Tried], recording: Path) -> Path:
    """Write what was tried on a program beside its recording, for `load`, and return the file.

    Raises `RecordingFileError` where it cannot be written, and `UsageError` for a file that is not ours.
    """
    journal = JournalWriter(None)
    for one in tried:
        journal.append(Event("lens.tried", 0.0, meta=packed(one)))
    with writing(beside(recording)):
        return write_whole(beside(recording), whole(journal.contents()), Product.RECORDING)


def save(recording: Recording, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
    """Write a recording to a file that `load` reads; gzipped, where its name ends with .gz.

    Raises:
        RecordingFileError: the file cannot be written.
        UsageError: it is there and is not a recording, and not to be overwritten.
    """
    with collector_paused():
        journal = JournalWriter(None)
        journal.append(Event("lens.recording", recording.environment.started, meta=packed(recording)))
    data = whole(journal.contents())
    with writing(path):
        content = gzip.compress(data, mtime=0) if os.fspath(path).endswith(".gz") else data
        write_whole(path, content, Product.RECORDING, overwrite=overwrite)


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
