"""Reads a journal back, line by line: a damaged line costs itself alone."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct, ValidationError, convert, field
from msgspec.json import Decoder

from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.event import NO_ID, Event
from compiler_lens.recording.journal import FORMAT_VERSION, MAGIC, PROMISE, REFERENCE, is_closing
from compiler_lens.recording.model import THE_END, CaptureProblem
from compiler_lens.recording.opening import Limits, blocks, head, lines
from compiler_lens.recording.shape import Count, Time

_NO_END = "it is still being written, or the process ended early"


def is_journal(path: Path) -> bool:
    """Return whether the file, gzipped or not, begins as a journal does. Raises what `opened` raises."""
    return head(path).startswith(f'{{"{MAGIC}"'.encode())


def journal_events(limits: Limits, problems: list[CaptureProblem]) -> Iterator[Event]:
    """Yield the events of a journal file, gzipped or not, as it is read; what is wrong with it goes to *problems*.

    A line that cannot be read is passed over. Raises `RecordingFileError` for a file that is none of ours, is of a
    newer format, or passes the limits.
    """
    try:
        first, _, _ = head(Path(limits.name)).partition(b"\n")
        _check_header(first, limits.name)
        yield from _events(lines(blocks(limits, problems, "journal"), limits), limits, problems)
    except OSError as error:
        raise RecordingFileError(f"cannot open {limits.name}: {error.strerror or error}") from error


def read_journal(path: Path) -> tuple[tuple[Event, ...], tuple[CaptureProblem, ...]]:
    """Return the events of a journal file, and what is wrong with it. Raises what `journal_events` raises."""
    problems: list[CaptureProblem] = []
    return tuple(journal_events(Limits(str(path)), problems)), tuple(problems)


def parse_journal(data: bytes, name: str) -> tuple[tuple[Event, ...], tuple[CaptureProblem, ...]]:
    """Return the events of a journal that may go on, but for lines that cannot be read, and a problem that says so."""
    problems: list[CaptureProblem] = []
    limits = Limits(name)
    events = tuple(_events(lines([data], limits), limits, problems, goes_on=True))
    return events, tuple(problems)


class _Lost(Struct):
    """Lines that could not be read."""

    count: int = 0
    size: int = 0  # bytes
    first: int = 0  # its number
    last: int = 0

    def add(self, number: int, line: bytes) -> None:
        self.first = self.first or number
        self.count, self.size, self.last = self.count + 1, self.size + len(line), number


def _events(
    journal: Iterator[bytes], limits: Limits, problems: list[CaptureProblem], *, goes_on: bool = False
) -> Iterator[Event]:
    line = next(journal, b"")
    is_closed = _check_header(line, limits.name) or goes_on
    texts: dict[int, str] = {}
    lost, number = _Lost(), 1
    for number, line in enumerate(journal, start=2):
        limits.check_events(number)
        if is_closing(line):
            is_closed = True
        elif line != b"\n":
            try:
                event = _event(line, texts)
            except (ValueError, KeyError, TypeError, RecursionError):
                lost.add(number, line)
                continue
            if event is not None:
                yield event
    if not line.endswith(b"\n"):
        end = "is cut off at its end"
        if lost.last == number:
            lost.count -= 1
            lost.size -= len(line)
            end = f"is damaged at line {number}: the {len(line):,} bytes from there on could not be read"
        problems.append(CaptureProblem(THE_END, f"{limits.name} {end}"))
    elif not is_closed:
        problems.append(CaptureProblem(THE_END, _NO_END))
    if lost.count:
        where = f"at line {lost.first}" if lost.count == 1 else f"in {lost.count:,} lines from line {lost.first} on"
        message = f"{limits.name} is damaged {where}: {lost.size:,} bytes could not be read"
        problems.append(CaptureProblem("journal", message))


def _check_header(line: bytes, name: str) -> bool:
    """Raise `RecordingFileError` for what is not a journal; return whether it may end without its closing line."""
    try:
        header = json.loads(line)
        version = header[MAGIC]
    except (ValueError, KeyError, TypeError, RecursionError):
        version = None
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
    """What a line may hold: an event, or a text by its number."""

    e: str = ""
    at: Time = 0.0
    run: Count | None = None
    id: tuple[Count | None, Count | None, Count | None] = NO_ID
    n: Count = 0
    m: dict[str, Any] = field(default_factory=dict)
    x: str | _Reference | None = None
    th: Count = 0
    c: int | bool = 0
    number: Count | None = field(default=None, name=REFERENCE)
    text: str | None = field(default=None, name="is")


_decode = Decoder(_JournalLine).decode


def _event(data: bytes, texts: dict[int, str]) -> Event | None:
    """The event in a line, or None for a text, which is kept. Raises all kinds of errors for what is neither."""
    try:
        line = _decode(data)
    except ValidationError:
        raise
    except ValueError:
        # msgspec knows neither NaN nor half characters, which Python writes.
        line = convert(json.loads(data.decode("utf-8", "surrogatepass")), _JournalLine)
    if line.number is not None and line.text is not None:
        texts[line.number] = line.text
        return None
    if not line.e:
        raise ValueError("neither an event nor a text")
    return Event(
        name=sys.intern(line.e),
        at=line.at,
        run=line.run,
        torch_id=line.id,
        attempt=line.n,
        meta={key: texts[v[REFERENCE]] if _refers(v) else v for key, v in line.m.items()},
        text=texts[line.x.number] if isinstance(line.x, _Reference) else line.x,
        thread=line.th,
        cached=bool(line.c),
    )


def _refers(value: Any) -> bool:
    return type(value) is dict and len(value) == 1 and REFERENCE in value
