"""Facts that torch forgets on a warm cache, kept beside its cache entry, under its key.

A compiled graph that comes from Inductor's cache brings its texts, but not its nodes' origins, its kernels'
nodes or its autotuning. What the run that filled the cache saw of these is a small file in Inductor's cache
folder, and is read back on a hit.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from compiler_lens.capture.torch_api import inductor
from compiler_lens.recording.errors import LensError
from compiler_lens.recording.event import Event
from compiler_lens.recording.journal import JournalWriter
from compiler_lens.recording.journal_reader import parse_journal

FOLDER = "compiler_lens"
_KEY = re.compile(r"[A-Za-z0-9_-]{8,128}")


def cache_key(compiled: Any) -> str | None:
    """Return the key of a compiled graph's entry in the FX graph cache; None where it is in no cache."""
    key = inductor.fx_cache_key(compiled)
    return key if isinstance(key, str) and _KEY.fullmatch(key) else None


def write(key: str, events: Sequence[Event]) -> None:
    """Keep events for later runs. Raises OSError where the folder cannot be written."""
    path = _path(key)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = JournalWriter(None)
    for event in events:
        writer.append(event)
    descriptor, name = tempfile.mkstemp(dir=path.parent)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(writer.contents())
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def read(key: str) -> tuple[Event, ...] | None:
    """Return what an earlier run kept; None if it kept nothing, or nothing that we can read."""
    path = _path(key)
    try:
        events, problems = parse_journal(path.read_bytes(), str(path))
    except (OSError, LensError):
        return None
    return None if problems else events


def _path(key: str) -> Path:
    return Path(inductor.cache_folder()) / FOLDER / f"{key}.jsonl"
