"""Reads a journal back, line by line: a damaged line costs itself alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Raw, Struct, ValidationError, convert, field
from msgspec.json import Decoder

from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.event import NO_ID, Event
from compiler_lens.recording.journal import (
    FORMAT_VERSION,
    MAGIC,
    PROMISE,
    REFERENCE,
    ROWS_OF_TIMED,
    is_closing,
    unpacked,
)
from compiler_lens.recording.model import DAMAGE, THE_END, CaptureProblem
from compiler_lens.recording.opening import Limits, begun, head, lines
from compiler_lens.recording.shape import Count, Time, holds_more, nests_deeper

_Line = TypeVar("_Line")
_NO_END = "it is still being written, or the process ended early"
_HEADER = f'{{"{MAGIC}"'.encode()  # how the first line begins


def begins_journal(start: bytes) -> bool:
    """Return whether this is how a journal begins."""
    return start.startswith(_HEADER)


def is_journal(path: Path) -> bool:
    """Return whether the file, gzipped or not, begins as a journal does. Raises what `opened` raises."""
    return begins_journal(head(path))


def journal_events(
    start: bytes, parts: Iterable[bytes], limits: Limits, problems: list[CaptureProblem], *, goes_on: bool = False
) -> Iterator[Event]:
    """Return the events of a journal, as it is read; what is wrong with it goes to *problems* at its end.

    A line that cannot be read is passed over. Raises `RecordingFileError` for a file that is none of ours, is of a
    newer format, or passes the limits.

    Args:
        start: how it begins.
        parts: all of it.
        limits: how much of it is read.
        problems: where what is wrong is noted.
        goes_on: whether it may end without its last line.
    """
    is_closed = _check_header(next(lines([start], limits), b""), limits.name) or goes_on
    return _Reader(limits, is_closed).events(lines(parts, limits), problems)


def read_journal(path: Path) -> tuple[tuple[Event, ...], tuple[CaptureProblem, ...]]:
    """Return the events of a journal file, and what is wrong with it. Raises what `journal_events` raises."""
    problems: list[CaptureProblem] = []
    limits = Limits(str(path))
    try:
        return tuple(journal_events(*begun(limits, problems), limits, problems)), tuple(problems)
    except OSError as error:
        raise RecordingFileError(f"cannot open {path}: {error.strerror or error}") from error


def parse_journal(data: bytes, name: str) -> tuple[tuple[Event, ...], tuple[CaptureProblem, ...]]:
    """Return the events of a journal that may go on, but for lines that cannot be read, and a problem that says so."""
    problems: list[CaptureProblem] = []
    events = tuple(journal_events(data, (data,), Limits(name), problems, goes_on=True))
    return events, tuple(problems)


def _check_header(line: bytes, name: str) -> bool:
    """Raise `RecordingFileError` for what is not a journal; return whether it may end without its closing line."""
    try:
        header = json.loads(line)
        version = header[MAGIC]
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
    if version is None and not line.endswith(b"\n") and (_HEADER.startswith(line) or line.startswith(_HEADER)):
        raise RecordingFileError(f"{name} holds nothing yet: whatever records to it has just begun, or ended at once")
    if type(version) is not int or version < 1:
        raise RecordingFileError(f"{name} is not a recording: neither a journal of compiler_lens nor a TORCH_TRACE log")
    if version > FORMAT_VERSION:
        raise RecordingFileError(
            f"{name} has format {str(version)[:9]}, this compiler_lens reads up to {FORMAT_VERSION}: "
            "upgrade it with pip install --upgrade compiler_lens"
        )
    return PROMISE not in header


class _Reference(Struct):
    number: Count = field(name=REFERENCE)


class _JournalLine(Struct):
    """A line that holds an event."""

    e: str = ""
    at: Time = 0.0
    run: Count | None = None
    id: tuple[Count | None, Count | None, Count | None] = NO_ID
    n: Count = 0
    m: dict[str, Any] = field(default_factory=dict)
    x: str | _Reference | None = None
    th: Count = 0
    c: int | bool = 0


class _TextLine(Struct):
    """A line that holds a text by its number."""

    number: Count = field(name=REFERENCE)
    text: str = field(name="is")


class _SavedLine(Struct):
    """A whole recording, each part of which is read by itself: as plain values it would take several times as much."""

    at: Time
    m: dict[str, Raw]


class _TooManyError(ValueError):
    """A line holds more values than it may."""


_events = Decoder(_JournalLine)
_texts = Decoder(_TextLine)
_TEXT_LINE = f'{{"{REFERENCE}":'.encode()
_decode_saved = Decoder(_SavedLine).decode
_SAVED = "lens.recording"
_SAVED_LINE = f'{{"e":"{_SAVED}"'.encode()


class _Lost(Struct):
    """Lines that could not be read, for one reason."""

    what: str  # "r.clens is damaged"
    count: int = 0
    size: int = 0  # bytes
    first: int = 0  # its number
    last: int = 0

    def add(self, number: int, line: bytes) -> None:
        self.first = self.first or number
        self.count, self.size, self.last = self.count + 1, self.size + len(line), number

    def problem(self) -> CaptureProblem:
        where = f"at line {self.first}" if self.count == 1 else f"in {self.count:,} lines from line {self.first} on"
        return CaptureProblem(DAMAGE, f"{self.what} {where}: {self.size:,} bytes could not be read")


def _decoded(decoder: Decoder[_Line], data: bytes) -> _Line:
    try:
        return decoder.decode(data)
    except ValidationError:
        raise
    except ValueError:
        # msgspec knows neither NaN nor half characters, which Python writes.
        return convert(json.loads(data.decode("utf-8", "surrogatepass")), decoder.type)


_Microseconds = Annotated[float, Meta(ge=0, le=253_402_300_799_000_000)]  # of a year with four digits


class _Rows(Struct):
    """What is in a line of timed events."""

    rows: list[tuple[str, str, _Microseconds]]


class _Reader:
    """Turns the lines of one journal into events."""

    def __init__(self, limits: Limits, is_closed: bool) -> None:
        self._limits = limits
        self._is_closed = is_closed
        self._texts: dict[int, tuple[str, int]] = {}  # each with its weight
        self._packed = 0  # timed events, beyond one a line
        self._weight = 0  # of lines, and of texts that events referred to, each time that one did
        self._damaged = _Lost(f"{limits.name} is damaged")
        self._deep = _Lost(f"{limits.name} is {limits.too_deep}")
        self._many = _Lost(f"{limits.name} holds {limits.too_many}")

    def events(self, journal: Iterator[bytes], problems: list[CaptureProblem]) -> Iterator[Event]:
        """Yield the events in all lines but the first. Keeps neither a line nor an event while others read it."""
        number, size, end = 1, 0, next(journal, b"")[-1:]
        for line in journal:
            number, size, end = number + 1, len(line), line[-1:]
            self._limits.check_events(number + self._packed)
            self._weigh(self._limits.weight(size, line.count(b"\\n")))
            event = self._read(number, line)
            del line
            if event is not None:
                yield from unpacked(event)
                del event
        if end != b"\n":
            problems.append(CaptureProblem(THE_END, _NO_END + self._begun(number, size)))
        elif not self._is_closed:
            problems.append(CaptureProblem(THE_END, _NO_END))
        problems += [lost.problem() for lost in (self._damaged, self._deep, self._many) if lost.count]

    def _begun(self, number: int, size: int) -> str:
        """What is said of a last line without an end: it is there as far as it was written, and no damage."""
        if self._damaged.last != number:
            return ""
        self._damaged.count -= 1
        self._damaged.size -= size
        return f"; the last {size:,} bytes could not be read: they are no whole line"

    def _read(self, number: int, line: bytes) -> Event | None:
        """The event in a line; None for a text, which is kept, for the last line, and for what cannot be read."""
        if line == b"\n":
            return None
        if is_closing(line):
            self._is_closed = True
            return None
        try:
            if line.startswith(_TEXT_LINE):
                text = _decoded(_texts, line)
                self._texts[text.number] = text.text, self._limits.weight(len(text.text), text.text.count("\n"))
                return None
            return self._saved(line) if line.startswith(_SAVED_LINE) else self._event(line)
        except RecursionError:
            self._deep.add(number, line)
        except _TooManyError:
            self._many.add(number, line)
        except (ValueError, KeyError, TypeError):
            self._damaged.add(number, line)
        return None

    def _saved(self, data: bytes) -> Event:
        try:
            line = _decode_saved(data)
        except ValueError:
            return self._event(data)
        return Event(_SAVED, line.at, meta=line.m)

    def _event(self, data: bytes) -> Event:
        if holds_more(data, self._limits.values):
            raise _TooManyError
        line = _decoded(_events, data)
        if not line.e:
            raise ValueError("neither an event nor a text")
        meta = line.m
        if line.e == ROWS_OF_TIMED:
            rows = len(convert(meta, _Rows).rows)
            self._packed += rows
            self._weigh(self._limits.weight(0, rows))
            self._limits.check_events(self._packed)
        if nests_deeper(meta, self._limits.nesting):
            raise RecursionError
        for key, value in meta.items():
            if type(value) is dict and len(value) == 1 and REFERENCE in value:
                meta[key] = self._text(value[REFERENCE])
        return Event(
            name=sys.intern(line.e),
            at=line.at,
            run=line.run,
            torch_id=line.id,
            attempt=line.n,
            meta=meta,
            text=self._text(line.x.number) if isinstance(line.x, _Reference) else line.x,
            thread=line.th,
            cached=bool(line.c),
        )

    def _text(self, number: int) -> str:
        text, weight = self._texts[number]
        self._weigh(weight)
        return text

    def _weigh(self, weight: int) -> None:
        self._weight += weight
        self._limits.check_size(self._weight)
