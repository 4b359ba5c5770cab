"""The file that a recording is written to, event by event; `journal_reader.py` reads it back.

One JSON value a line, appended by a single unbuffered write as things happen. What waits is written with the next
event, as a write costs more than many a phase of torch's takes: timed events, and others that come just before one that
does not wait. A killed process loses nothing else that was seen.

The first line is the header. A text longer than `INLINE_LIMIT` stands once, in a line of its own
(`{"@": 3, "is": "..."}`), and events refer to it by number (`{"@": 3}`).

What is in an event line: `e` name, `at` seconds, `run`, `id` torch's compile id, `n` attempt, `m` metadata,
`x` payload, `th` thread, `c` came from beside a cache entry. Absent means the default of `event.Event`.
Timed events that come one after the other are one line, `lens.timed`: `rows` has name, phase and time of each.
The last line is an event of its own, `lens.closed`, where the header promises one: a file without it has no end yet.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import functools
import itertools
import json
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from msgspec import to_builtins
from msgspec.json import Encoder
from msgspec.structs import replace

from compiler_lens.recording.errors import LensError, UsageError
from compiler_lens.recording.event import Event, TorchId
from compiler_lens.recording.opening import opened
from compiler_lens.recording.output_files import Product, check_is_ours

# 1: the first. 2: an event may hold a whole recording, and a profile is written by the codec.
# 3: timed events that come one after the other are one line.
FORMAT_VERSION = 3
MAGIC = "compiler_lens"
REFERENCE = "@"  # the key of a line that holds a text, and of a value that refers to one
TIMED = "chromium_event"
ROWS_OF_TIMED = "lens.timed"
ROWS = "rows"
_CLOSED = "lens.closed"
_CLOSING = f'{{"e":"{_CLOSED}"'.encode()  # how the last line begins
PROMISE = "closes"  # the key of the header that says that such a line will come: the first recordings had none
INLINE_LIMIT = 200  # characters; shorter texts are cheaper to repeat than to refer to

# Events of a hundred numbers and short words each, which are written as they are: to look at each takes a tenth of what
# a small compilation's recording does.
_OF_NUMBERS = frozenset(("compilation_metrics", "bwd_compilation_metrics", ROWS_OF_TIMED))

_Text = tuple[int, int]  # what a text is known by: its hash, of 64 bits, and its length. No two of a journal share both


def _plain(value: Any) -> Any:
    """What is written of a value that JSON does not have, or of a number of a class of its own (NumPy's)."""
    for kind in (int, float):
        if isinstance(value, kind):
            return kind(value)
    return str(value)


_encoder = Encoder(enc_hook=_plain)


def _lines(values: Sequence[Any]) -> bytes:
    try:
        return _encoder.encode_lines(values)
    except UnicodeEncodeError:  # user source may hold half characters, and must not stop a recording
        plain = (to_builtins(value, str_keys=True, enc_hook=_plain) for value in values)
        texts = (json.dumps(value, ensure_ascii=False, separators=(",", ":")) for value in plain)
        return b"".join(text.encode("utf-8", "surrogatepass") + b"\n" for text in texts)


def encoded(value: Any) -> bytes:
    """Return a value as it is written."""
    return _lines([value])


def _header() -> bytes:
    return _lines([{MAGIC: FORMAT_VERSION, "pid": os.getpid(), PROMISE: 1}])


TimedRow = tuple[str, str, float]  # name, phase "B" or "E", microseconds since the epoch


def timed_meta(row: TimedRow) -> dict[str, Any]:
    """Return the metadata that a timed event has by itself."""
    name, phase, microseconds = row
    return {"name": name, "ph": phase, "ts": microseconds}


def timed_rows(rows: Sequence[TimedRow], run: int | None, torch_id: TorchId, attempt: int, thread: int) -> Event:
    """Return timed events of one compilation that came one after the other, as one event."""
    return Event(ROWS_OF_TIMED, rows[0][2] / 1e6, run, torch_id, attempt, {ROWS: rows}, None, thread)


def unpacked(event: Event) -> Iterator[Event]:
    """Yield the timed events that are in one, each with its own time; any other event as it is."""
    if event.name != ROWS_OF_TIMED:
        yield event
        return
    for row in event.meta[ROWS]:
        meta = timed_meta(row)
        yield replace(event, name=TIMED, at=meta["ts"] / 1e6, meta=meta)


class JournalWriter:
    """Appends events to a file, or to memory where there is no file or the file fails.

    Safe to call from several threads. A forked child's calls do nothing: the journal is its parent's.

    A recording that is there is written over; raises `UsageError` for any other file, unless `overwrite`.
    """

    def __init__(self, path: Path | None, *, overwrite: bool = False) -> None:
        self.path: Path | None = None  # of the file that was opened
        self.failure: str | None = None  # why the file does not hold everything
        self.is_gone = False  # somebody took the file away before it was closed
        self._pid = os.getpid()
        self._lock = threading.RLock()  # a signal handler of the user's may compile while we write
        self._texts: dict[_Text, int] = {}
        self._numbers = itertools.count()
        self.waiting: deque[Event] = deque()  # for the next that does not: added to without the lock
        self._memory: list[bytes] = []
        self._file: _File | None = None
        self._closed = False
        self._header = _header()
        if path is not None:
            try:
                self._file = _open_unshared(path, overwrite=overwrite)
                self.path = self._file.path
            except OSError as error:
                why = (error.strerror or error) if path.parent.is_dir() else f"there is no folder {path.parent}"
                self.failure = f"cannot write {path}: {why}"
        self._write(self._header)

    def append(self, event: Event, *, waits: bool = False) -> None:
        """Write one event, or let it wait for the next one. Never raises for a failing disk: see `failure`."""
        if self._closed:
            return
        self.waiting.append(event)
        if waits:
            return
        if os.getpid() != self._pid:  # asked here alone: it is a call of the system
            self.waiting.clear()
            return
        with self._lock:
            self._write_waiting()

    def _write_waiting(self) -> None:
        events: list[Event] = []
        data = b""
        try:
            # All in one step of Python's: an interrupt in between would lose one.
            events.extend(map(deque.popleft, itertools.repeat(self.waiting, len(self.waiting))))
            if not events:
                return
            new_texts: dict[_Text, dict[str, Any]] = {}
            reference = functools.partial(self._reference, new_texts)
            lines = [_line_of(event, reference) for event in events]
            data = _lines([*new_texts.values(), *lines])
            self._write(data)
            # Only now: an interrupt in between must not leave a reference to a text that was never written.
            for known_by, of_text in new_texts.items():
                self._texts[known_by] = of_text[REFERENCE]
        except Exception:  # of an event that cannot be written, and must not keep all that come after it
            raise
        except BaseException:  # an interrupt
            if not data or not self._ends_with(data):
                self.waiting.extendleft(reversed(events))
            raise

    def _ends_with(self, data: bytes) -> bool:
        return (self._memory[-1] if self._memory else self._file_contents()).endswith(data)

    def _reference(self, new_texts: dict[_Text, dict[str, Any]], text: str) -> dict[str, int]:
        known_by = hash(text), len(text)
        number = self._texts.get(known_by)
        if number is None:
            number = new_texts.setdefault(known_by, {REFERENCE: next(self._numbers), "is": text})[REFERENCE]
        return {REFERENCE: number}

    def _write(self, data: bytes) -> None:
        file = self._file
        if file is None or not file.is_readable:
            self._memory.append(data)
        if file is None:
            return
        try:
            written = file.write(data)
            why = None if written == len(data) else os.strerror(errno.ENOSPC)
        except OSError as error:
            written, why = 0, error.strerror or str(error)
        if why is None:
            return
        # The file keeps what it has; `contents` joins the two.
        self.failure = f"{self.path} is incomplete: {why}"
        if file.is_readable:
            self._memory = [self._file_contents(), data[written:]]
        self._file = None
        with contextlib.suppress(OSError):
            file.close()

    def _file_contents(self) -> bytes:
        try:
            data = self._file.read() if self._file else self._read_by_name()
        except OSError:  # the descriptor was closed by somebody else
            data = self._read_by_name()
        if data.startswith(self._header):
            return data
        self.failure = self.failure or f"{self.path} was changed by somebody else"
        return self._header + data

    def _read_by_name(self) -> bytes:
        try:
            return self.path.read_bytes() if self.path else b""
        except OSError as error:
            self.failure = f"cannot read {self.path} again: {error.strerror or error}"
            return b""

    def contents(self) -> bytes:
        """Return all that was written, as the file would hold it had nothing failed."""
        with self._lock if os.getpid() == self._pid else contextlib.nullcontext():
            if os.getpid() == self._pid:
                self._write_waiting()
            return b"".join(self._memory) if self._memory else self._file_contents()

    def is_open_at(self, path: Path) -> bool:
        """Return whether events are just being written to the file of this name; it holds all until now."""
        if os.getpid() == self._pid:  # else another thread may have had the lock as this process was forked
            with self._lock:
                self._write_waiting()
        file = self._file
        return file is not None and file.is_readable and path.exists() and file.is_at(path)

    def close(self) -> None:
        """Let go of the file. Later events are dropped; `contents` still answers."""
        with self._lock if os.getpid() == self._pid else contextlib.nullcontext():
            is_ours = os.getpid() == self._pid and not self._closed
            self._closed = True
            if is_ours:
                self._write_waiting()
            self.waiting = deque(maxlen=0)
            if is_ours and self._file is not None:
                self._write(_closing_line())
            if is_ours and self._file is not None and self._file.is_readable and not self._file.is_at(self._file.path):
                self._memory, self.is_gone = [self._file_contents()], True
                self.failure = self.failure or f"{self.path} was removed or renamed while it was recorded to"
            file, self._file = self._file, None
            if file is None:
                return
            try:
                if is_ours:
                    file.release()
                file.close()
            except OSError as error:  # a network's file system may write only now
                if is_ours:
                    self.failure = self.failure or f"{self.path} is incomplete: {error.strerror or error}"


class _File:
    """An open journal file: a descriptor that is checked to be still ours before each use.

    A program may close all descriptors (a daemon does), and the next file it opens gets our number.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o666)
        status = os.fstat(self._descriptor)
        self._identity = status.st_dev, status.st_ino
        self.is_readable = stat.S_ISREG(status.st_mode)  # what goes to a device is kept in memory too
        if stat.S_ISFIFO(status.st_mode):  # a pipe that nobody empties would stop the program
            os.close(self._descriptor)
            raise OSError(errno.ESPIPE, "it is a pipe")

    def claim(self, *, overwrite: bool) -> bool:
        """Empty the file, and return whether we have it; another writer that has it keeps it.

        Raises `UsageError` for a file that is no recording, unless it is to be overwritten.
        """
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
        if self.is_readable and not os.fstat(self._descriptor).st_size:
            return True
        if self.is_readable and not overwrite:
            check_is_ours(self._descriptor, self.path, Product.RECORDING)
        with contextlib.suppress(OSError):  # a device has no length
            os.ftruncate(self._descriptor, 0)
        return True

    def release(self) -> None:
        """Let others have the file, though children that were forked meanwhile have it open as well."""
        with contextlib.suppress(OSError):
            fcntl.flock(self._mine(), fcntl.LOCK_UN)

    def write(self, data: bytes) -> int:
        return os.write(self._mine(), data)

    def read(self) -> bytes:
        """Return everything in it, by descriptor: the name may be gone."""
        parts: list[bytes] = []
        at = 0
        while part := os.pread(self._mine(), 1 << 30, at):
            parts.append(part)
            at += len(part)
        return b"".join(parts)

    def is_at(self, path: Path) -> bool:
        """Return whether a name leads to it; else whoever reads by that name finds nothing, or another file."""
        try:
            status = path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:  # it may well be there
            return True
        return (status.st_dev, status.st_ino) == self._identity

    def close(self) -> None:
        """Raises OSError where the system could not write what it had taken."""
        os.close(self._mine())

    def _mine(self) -> int:
        status = os.fstat(self._descriptor)
        if (status.st_dev, status.st_ino) != self._identity:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        return self._descriptor


def _open_unshared(path: Path, *, overwrite: bool) -> _File:
    """Open *path* anew, or a name beside it while another process records there (the ranks of one job)."""
    for is_taken in (False, True):
        file = _File(path.with_name(f"{path.stem}.{os.getpid()}{path.suffix}") if is_taken else path)
        try:
            if file.claim(overwrite=overwrite):
                return file
        except UsageError:
            file.close()
            raise
        file.close()
    raise OSError(errno.EBUSY, "it is being recorded to already")


def _line_of(event: Event, reference: Callable[[str], Any]) -> Event:
    """Return an event as it is written, with references in place of long texts."""
    text, meta = event.text, event.meta
    if text is not None and len(text) > INLINE_LIMIT:
        text = reference(text)
    looked_at = {} if event.name in _OF_NUMBERS else event.meta
    for key, value in looked_at.items():
        if type(value) is str and len(value) > INLINE_LIMIT:
            meta = {**meta, key: reference(value)}
    return event if text is event.text and meta is event.meta else replace(event, text=text, meta=meta)


def began_here(path: Path) -> bool:
    """Return whether a file is a journal that this process began, also before it became another program."""
    header = _header()
    try:
        with opened(path) as file:
            return file.read(len(header)) == header
    except (OSError, LensError):
        return False


def whole(data: bytes) -> bytes:
    """Return the bytes of a journal that may go on as those of a file that does not."""
    is_closed = is_closing(data[data.rfind(b"\n", 0, -1) + 1 :])
    return data if is_closed else data + _closing_line()


def _closing_line() -> bytes:
    return _lines([{"e": _CLOSED, "at": time.time()}])


def is_closing(line: bytes) -> bool:
    """Return whether a line is the last one of a journal that was closed."""
    return line.startswith(_CLOSING)
