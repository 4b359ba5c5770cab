"""Facts that torch forgets on a warm cache, kept beside its cache entry.

A compiled graph that comes from Inductor's cache brings its texts, but not its nodes' origins, its kernels'
nodes or its autotuning. What the run that filled the cache saw of these is a small file in Inductor's cache
folder, and is read back on a hit.

The file is known by the entry's key and its output code: a key may have several entries, which differ in guards and
so in code. It lies where `FxGraphCache.clear()` removes it with torch's own, and is no entry that torch would load.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from compiler_lens.capture.torch_api import inductor
from compiler_lens.recording.errors import CaptureError, LensError, RecordingFileError
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.journal_reader import parse_journal
from compiler_lens.recording.opening import opened
from compiler_lens.recording.output_files import put_in_place

FOLDER = "fxgraph/compiler_lens"  # beside FxGraphCache's folders, whose names are two characters of a key
_KEY = re.compile(r"[A-Za-z0-9_-]{8,128}")
_LONGEST = 64_000_000  # bytes
_PRIVATE = 0o600  # nobody else may read it
_FOREIGN = "it came from a cache that was filled without compiler_lens"
_OLDER = "it came from a cache that was filled with an older compiler_lens, whose notes this one does not read"
_NOT_OURS = "what is kept of it is no file of yours that only you can write, of at most 64 MB"
_UNREADABLE = "what is kept of it cannot be read"
_OTHER_GRAPH = "what is kept of it is of another graph"

_ENTRY = "lens.cache_entry"  # first in a file: which entry the rest is of
TRACED_WITH = "lens.traced_with"  # settings that torch's key leaves out
_KEPT = frozenset(("lens.node_facts", "lens.kernel_nodes", "lens.fusion", "lens.autotune", "lens.triton_configs",
                   "triton_kernel_info", TRACED_WITH))  # fmt: skip


class Entry(Struct, frozen=True):
    """An entry of the FX graph cache."""

    key: str
    code: str  # a hash of its output code

    @property
    def path(self) -> Path:
        """Where its facts are kept."""
        return Path(inductor.cache_folder()) / FOLDER / f"{self.key}-{self.code}.jsonl"

    @property
    def older_path(self) -> Path:
        """Where they were until the hash became part of the name: such a file is not read, as any code may be its."""
        return Path(inductor.cache_folder()) / "compiler_lens" / f"{self.key}.jsonl"


def cache_entry(compiled: Any) -> Entry | None:
    """Return a compiled graph's entry in the FX graph cache; None where it is in no cache."""
    key, code = inductor.fx_cache_key(compiled), inductor.output_code(compiled)
    if not code or not isinstance(key, str) or not _KEY.fullmatch(key):
        return None
    return Entry(key, hashlib.sha256(code.encode(errors="surrogatepass")).hexdigest()[:32])


def keep(entry: Entry, events: Sequence[Event], *, is_more: bool = False) -> None:
    """Keep events for later runs, and what is kept already of what they do not tell.

    What is only more of a graph of which nothing is kept is not kept either: a later run would take it for the whole.
    Of processes that keep something at the same moment the last one wins; both have compiled the same graph.

    Raises:
        OSError: the folder cannot be written.
    """
    told = {_subject(event) for event in events}
    try:
        known = [event for event in recall(entry) if _subject(event) not in told]
    except CaptureError:
        if is_more:
            return
        known = []
    writer = JournalWriter(None)
    for event in (Event(_ENTRY, 0.0, meta={"key": entry.key, "code": entry.code}), *known, *events):
        writer.append(event)
    entry.path.parent.mkdir(parents=True, exist_ok=True)
    put_in_place(entry.path, writer.contents(), _PRIVATE)


def _subject(event: Event) -> tuple[Any, ...]:
    """What an event is about: configs are of one kernel, and those that descent ends at have no times."""
    if event.name != "lens.triton_configs":
        return (event.name,)
    is_timed = any(row["milliseconds"] is not None for row in event.meta["configs"])
    return event.name, event.meta["kernel"], is_timed


def recall(entry: Entry | None) -> tuple[Event, ...]:
    """Return what an earlier run kept of an entry.

    Raises:
        CaptureError: it kept nothing, or nothing that we may trust; the message says why.
    """
    if entry is None:
        raise CaptureError(_FOREIGN)
    try:
        data = _own_bytes(entry.path)
    except FileNotFoundError:
        raise CaptureError(_OLDER if os.path.lexists(entry.older_path) else _FOREIGN) from None
    except OSError as error:
        raise CaptureError(f"{_UNREADABLE}: {error.strerror or error}") from error
    try:
        events, problems = parse_journal(data, entry.path.name)
    except LensError as error:
        raise CaptureError(_UNREADABLE) from error
    if problems or not events:
        raise CaptureError(_UNREADABLE)
    head, *facts = events
    if head.name != _ENTRY or head.meta != {"key": entry.key, "code": entry.code}:
        raise CaptureError(_OTHER_GRAPH)
    return tuple(event for event in facts if event.name in _KEPT)


def _own_bytes(path: Path) -> bytes:
    """Return what is in a regular file that the user alone can have written."""
    try:
        file = opened(path, follow=False)
    except RecordingFileError as error:
        raise CaptureError(_NOT_OURS) from error
    with file:
        found = os.fstat(file.fileno())
        is_own = found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if not is_own or found.st_size > _LONGEST:
            raise CaptureError(_NOT_OURS)
        return file.read(_LONGEST)
