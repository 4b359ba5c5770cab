"""Reads logs that torch wrote under `TORCH_TRACE=folder`, as the events that we would have recorded.

A log is a sequence of records (`TorchLogsFormatter.format` in torch/_logging/_internal.py, alike from 2.11 to 2.15):
a line `V1121 04:30:00.123000 <pid> <path>:<line>] {json}`, then the payload, each of its lines after one tab.
Nothing else begins with a tab, so records are found, and payloads restored, without looking at single lines.
"""

from __future__ import annotations

import calendar
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

from msgspec import Struct, field

from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.event import RECORD_CONTEXT, Event, TorchId
from compiler_lens.recording.model import DAMAGE, CaptureProblem, CompileId
from compiler_lens.recording.opening import Limits, begun, head
from compiler_lens.recording.shape import holds_more, nests_deeper

_HEADER = re.compile(
    rb"^(?:\[rank\d+\]:)?[VIWEC](?P<month>0[1-9]|1[0-2])(?P<day>\d\d) "
    rb"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d\.\d{1,9}) (?P<pid>\d{1,18}) "
    rb"[^\n]*?:\d+\] (?P<record>\{\"[^\n]*)",
    re.MULTILINE,
)
_BOUNDARY = re.compile(rb"\n(?=[^\t])")
# The first word of a compilation is the start of one of these spans, then comes dynamo_start: once in its life each.
_FIRST_SPAN = re.compile(rb'\t\{\n\t"name": "(dynamo|compiled_autograd)",\n.*^\t"ph": "B"', re.DOTALL | re.MULTILINE)
_SPAN_TIME = re.compile(rb'^\t"ts": (\d{1,17}(?:\.\d{1,9})?),?$', re.MULTILINE)  # microseconds
_BLOCK = 1 << 20
_EMPTY = "{} is empty: the process that made it compiled nothing, or was stopped before it did"
_OTHER_FILE = "{} is not a TORCH_TRACE log: run the program with TORCH_TRACE=folder and name a log of that folder"
_LEADING = 8 << 20  # bytes that may come before the first timed event


def begins_torch_log(start: bytes) -> bool:
    """Return whether this begins with records of torch's structured trace."""
    return _HEADER.search(start) is not None


def is_torch_log(path: Path) -> bool:
    """Return whether the file begins as a log does. False for what cannot be read."""
    try:
        return begins_torch_log(head(path))
    except (OSError, RecordingFileError):
        return False


def torch_log_files(folder: Path) -> tuple[Path, ...]:
    """Return the logs in a `TORCH_TRACE` folder: one for each process that compiled, by rank and then by age."""

    def rank_and_age(path: Path) -> tuple[int, float, str]:
        found = re.search(r"_rank_(\d+)_", path.name)  # dedicated_log_torch_trace_rank_3_x8d2k1.log
        return int(found[1]) if found else -1, path.stat().st_mtime, path.name

    return tuple(sorted((path for path in folder.iterdir() if path.is_file() and is_torch_log(path)), key=rank_and_age))


def read_torch_log(
    path: Path, wanted: frozenset[str] | None = None
) -> tuple[tuple[Event, ...], tuple[CaptureProblem, ...]]:
    """Return the events of a log, and what is wrong with it. Raises what `torch_log_events` raises."""
    problems: list[CaptureProblem] = []
    limits = Limits(str(path))
    try:
        return tuple(torch_log_events(*begun(limits, problems), limits, problems, wanted)), tuple(problems)
    except OSError as error:
        raise RecordingFileError(f"cannot open {path}: {error.strerror or error}") from error


def torch_log_events(
    start: bytes,
    parts: Iterable[bytes],
    limits: Limits,
    problems: list[CaptureProblem],
    wanted: frozenset[str] | None = None,
) -> Iterator[Event]:
    """Yield the events of a `TORCH_TRACE` log as it is read; what is wrong with it goes to *problems*.

    A log knows no threads: `thread` is 0, or the process id where a forked child wrote to its parent's log. A damaged
    payload is kept, with a problem. Raises `RecordingFileError` for no log, or more than the limits allow, and OSError.

    Args:
        start: how it begins.
        parts: all of it.
        limits: how much of it is read.
        problems: where what is wrong is noted.
        wanted: the events whose payload is asked for; the others come without.
    """
    first, status = _HEADER.search(start), Path(limits.name).stat()
    if first is None:
        raise RecordingFileError((_OTHER_FILE if status.st_size else _EMPTY).format(limits.name))
    chunks = _chunks(parts, limits)
    leading, span = _up_to_a_span(chunks)
    reader = _Reader(limits, wanted, _clock(first, span, status.st_mtime), first["pid"])
    weight = 0
    for count, chunk in enumerate(chain(leading, chunks), start=1):
        limits.check_events(count)
        weight += limits.weight(len(chunk), chunk.count(b"\n"))
        limits.check_size(weight)
        event = reader.take(chunk, problems)
        if event is not None:
            yield event
    if reader.last_is_damaged:  # at the very end: the process was stopped while it wrote
        last = problems.pop()
        problems.append(CaptureProblem(DAMAGE, "the log is cut off in its last record", last.compile_id))


def _chunks(parts_of_log: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    """The log cut before every line that does not begin with a tab; holds one record or one block in memory."""
    parts: list[bytes] = []
    size, enough = 0, _BLOCK
    for block in parts_of_log:
        parts.append(block)
        size += len(block)
        if size >= enough:
            *whole, rest = _BOUNDARY.split(b"".join(parts))
            yield from whole
            parts, size = [rest], len(rest)
            limits.check_line(size)
            enough = 2 * size + _BLOCK  # growing, so that one huge record is not scanned over and over
    yield from _BOUNDARY.split(b"".join(parts).removesuffix(b"\n"))


def _up_to_a_span(chunks: Iterator[bytes]) -> tuple[list[bytes], tuple[bytes, float] | None]:
    """The first chunks, up to a timed event that is not far; and of that, the record and its time in full."""
    leading: list[bytes] = []
    size = 0
    for chunk in chunks:
        leading.append(chunk)
        header, _, body = chunk.partition(b"\n")
        if b'] {"chromium_event": ' in header and (found := _SPAN_TIME.search(body)):
            return leading, (header, float(found[1]) / 1e6)
        size += len(chunk)
        if size > _LEADING:
            break
    return leading, None


def _clock(
    first: re.Match[bytes], span: tuple[bytes, float] | None, changed: float
) -> Callable[[re.Match[bytes]], float]:
    """Turns a record's time into seconds since the epoch.

    Records have local time without year or zone. The first timed event has its time in full; without one, the
    file's own time gives the year and this machine the zone.
    """
    if span is None:
        at = time.localtime(changed)
        naive = _naive_clock(first, at.tm_year - ((int(first["month"]), int(first["day"])) > (at.tm_mon, at.tm_mday)))
        shift = -time.localtime(naive(first)).tm_gmtoff
    else:
        header, stamp = span
        naive = _naive_clock(first, time.gmtime(stamp).tm_year)
        record = _HEADER.match(header) or first
        shift = round((stamp - naive(record)) / 900) * 900  # zones differ by quarters of an hour
    return lambda match: naive(match) + shift


def _naive_clock(first: re.Match[bytes], year: int) -> Callable[[re.Match[bytes]], float]:
    """As if the record's time were UTC, in *year* or, past New Year, the next."""
    midnights: dict[tuple[bytes, bytes], float] = {}

    def naive(match: re.Match[bytes]) -> float:
        day = match["month"], match["day"]
        if day not in midnights:
            crossed = int(first["month"]) - int(day[0]) > 6  # noqa: PLR2004 - half a year back: New Year has passed
            midnights[day] = calendar.timegm((year + crossed, int(day[0]), int(day[1]), 0, 0, 0))
        return midnights[day] + int(match["hour"]) * 3600 + int(match["minute"]) * 60 + float(match["second"])

    return naive


class _Life(Struct):
    """One compilation among those that share a torch id: torch counts from zero again after a reset."""

    run: int
    epoch: int
    begun: set[bytes] = field(default_factory=set)


class _Reader:
    """Turns chunks of a log into events. Knows which compilation each torch id stands for at the moment."""

    def __init__(
        self,
        limits: Limits,
        wanted: frozenset[str] | None,
        clock: Callable[[re.Match[bytes]], float],
        main_pid: bytes,
    ) -> None:
        self._limits = limits
        self._wanted = wanted
        self._clock = clock
        self._main_pid = main_pid
        self._lives: dict[tuple[bytes, TorchId], _Life] = {}
        self._epochs: dict[TorchId, int] = {}
        self._runs = 0
        self.last_is_damaged = False

    def take(self, chunk: bytes, problems: list[CaptureProblem]) -> Event | None:
        """Read one chunk: usually a record."""
        if not chunk:
            return None
        header, _, body = chunk.partition(b"\n")
        match, record = _HEADER.match(header), None
        if match is not None:
            with suppress(ValueError, RecursionError):
                record = None if holds_more(match["record"], self._limits.values) else json.loads(match["record"])
        self.last_is_damaged = True
        is_deep = isinstance(record, dict) and nests_deeper(record, self._limits.nesting)
        if match is None or not isinstance(record, dict) or is_deep:
            start = header[:60].decode("utf-8", "replace")
            what = self._limits.too_deep if is_deep else "not a record of torch's"
            message = f"{len(chunk):,} bytes of the log are {what}: {start!r}"
            problems.append(CaptureProblem(DAMAGE, message))
            return None
        numbers = (record.get(key) for key in ("frame_id", "frame_compile_id", "compiled_autograd_id", "attempt"))
        frame, recompile, autograd, attempt = (
            number if type(number) is int and number >= 0 else None for number in numbers
        )
        torch_id = (frame, recompile, autograd)
        key = next((key for key in record if key not in RECORD_CONTEXT), "")
        name, meta = _name_and_meta(key, record)
        beginning = None  # of a compilation
        if key == "dynamo_start":
            beginning = None if record.get("attempt") else b"dynamo_start"
        elif key == "chromium_event" and (first := _FIRST_SPAN.match(body)):
            beginning = first[1]
        life = self._compile_epoch(match["pid"], torch_id, beginning)
        is_wanted = self._wanted is None or name in self._wanted
        payload = body[1:].replace(b"\n\t", b"\n") if body and is_wanted else None
        checksum = record.get("has_payload")
        digest = None if payload is None else hashlib.md5(payload, usedforsecurity=False).hexdigest()
        self.last_is_damaged = is_wanted and checksum is not None and digest != checksum
        if self.last_is_damaged:
            where = CompileId(frame, recompile, life.epoch, autograd) if life else None
            message = f"the payload of {name} is damaged: its checksum differs"
            problems.append(CaptureProblem(DAMAGE, message, where))
        return Event(
            name=name,
            at=self._clock(match),
            run=life.run if life else None,
            torch_id=torch_id,
            attempt=attempt or 0,
            meta=meta,
            text=None if payload is None else payload.decode("utf-8", "replace"),
            thread=0 if match["pid"] == self._main_pid else int(match["pid"]),
        )

    def _compile_epoch(self, pid: bytes, torch_id: TorchId, beginning: bytes | None) -> _Life | None:
        """The compilation that a record belongs to. A beginning that this one has had begins the next one."""
        if torch_id == (None, None, None):
            return None
        life = self._lives.get((pid, torch_id))
        if life is None or beginning in life.begun:
            epoch = self._epochs.get(torch_id, 0)
            life = self._lives[pid, torch_id] = _Life(self._runs, epoch)
            self._epochs[torch_id] = epoch + 1
            self._runs += 1
        if beginning is not None:
            life.begun.add(beginning)
        return life


def _name_and_meta(key: str, record: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    value = record.get(key)
    if key == "str" and isinstance(value, list) and len(value) == 2:  # noqa: PLR2004 - an interned file name: text, id
        return key, {"text": value[0], "id": value[1]}
    meta = value if isinstance(value, dict) else {}
    extra = {word: record[word] for word in ("rank", "subgraph_name") if word in record}
    return (str(meta.get("name", key)) if key == "artifact" else key), {**meta, **extra}
