"""What comes out of a file that somebody gave us: only a regular file, unpacked while it is read, up to a limit.

A file is opened once. Its first 4 KiB come by themselves: they say whether it is what it should be.
"""

from __future__ import annotations

import io
import os
import stat
import sys
import zlib
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from functools import partial
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.model import DAMAGE, CaptureProblem
from compiler_lens.recording.shape import MAX_NESTING, MAX_VALUES

MAX_SIZE = 1 << 30  # bytes of text: the events of 10,000 large compilations or so
_GZIP = b"\x1f\x8b"
_NOT_GZIP = (EOFError, zlib.error)
_HEAD = 4096
_BLOCK = 1 << 20
_PACKED = 1 << 13  # read at a time: what follows a part is copied once for each part
_BYTES_OF_A_LINE = 64  # that one of a text counts for at least: each may be a node, a guard, a statement
_BYTES_OF_AN_EVENT = 256  # at least, on average: real recordings have 500 and more
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe: write what comes out of it to a file first",
    stat.S_IFSOCK: "a socket",
}


class Limits(Struct, frozen=True):
    """How much of a file is read: a small one may unpack to, or stand for, more than the machine can hold."""

    name: str  # the file's path
    size: int = sys.maxsize  # bytes, unpacked; of a text each time that an event refers to it, and 64 for a line of it
    nesting: int = MAX_NESTING  # of a line

    def check_size(self, size: int) -> None:
        """Raise `RecordingFileError` for more bytes than are read of a file."""
        if size > self.size:
            raise self._passed(f"holds more than {self.size:,} bytes of text", size)

    @staticmethod
    def weight(size: int, lines: int) -> int:
        """Return the bytes that a text counts for, as so many of it stand for at least that much once it is read."""
        return max(size, _BYTES_OF_A_LINE * lines)

    def check_line(self, size: int) -> None:
        """Raise `RecordingFileError` for a line, or a record of a log, that takes more than a quarter of them."""
        if size > self.size // 4:
            raise self._passed(f"has a line of more than {self.size // 4:,} bytes", 4 * size)

    def check_events(self, count: int) -> None:
        """Raise `RecordingFileError` for more events than real recordings of that size have."""
        if count > self.size // _BYTES_OF_AN_EVENT:
            raise self._passed(f"has more than {count - 1:,} events", 2 * self.size)

    @property
    def values(self) -> int:
        """How many arrays, objects and strings one line may hold."""
        return max(self.size // (MAX_SIZE // MAX_VALUES), MAX_VALUES)

    @property
    def too_many(self) -> str:
        """What is said of a line that is not read, as it holds too many."""
        return f"more than {self.values:,} values (--max-size, or max_size of compiler_lens.load, allows more)"

    @property
    def too_deep(self) -> str:
        """What is said of a line that is not read, as arrays and objects are too deep in each other."""
        more = "--max-nesting, or max_nesting of compiler_lens.load, allows more"
        return f"nested more than {self.nesting} deep ({more})"

    def _passed(self, what: str, needed: int) -> RecordingFileError:
        megabytes = -(-max(needed, 2 * self.size) >> 20)
        return RecordingFileError(
            f"{self.name} {what}: more than is read of a file that may be hostile. If you trust it, give --max-size"
            f" {megabytes}M, or max_size={megabytes << 20} to compiler_lens.load"
        )


def opened(path: Path | str, *, below: int | None = None, follow: bool = True) -> BinaryIO:
    """Open a regular file, and wait for nothing.

    Args:
        path: the file.
        below: the descriptor of a folder that the path begins at.
        follow: whether the path may end in a link.

    Raises:
        RecordingFileError: it is something else, which may never end, or no file can have such a name.
        OSError: it cannot be opened.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags, dir_fd=below)
    except ValueError as error:  # a NUL, a character that the system's encoding has not
        raise RecordingFileError(f"cannot open {path}: {error}") from error
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise RecordingFileError(f"cannot open {path}: it is {_KINDS.get(kind, 'a device')}")
    return os.fdopen(descriptor, "rb", buffering=0)


def head(path: Path) -> bytes:
    """Return the first 4 KiB of a file, unpacked if it is gzipped. Raises what `opened` raises."""
    with closing(blocks(Limits(str(path)), [])) as parts:
        return next(parts)


def begun(limits: Limits, problems: list[CaptureProblem]) -> tuple[bytes, Iterator[bytes]]:
    """Return the first 4 KiB of a file, and all its blocks, these among them. Raises what `blocks` raises."""
    parts = blocks(limits, problems)
    start = next(parts)
    return start, chain((start,), parts)


def blocks(limits: Limits, problems: list[CaptureProblem]) -> Generator[bytes]:
    """Yield a file's first 4 KiB, or less if it is shorter, and then the rest of its bytes; unpacked if it is gzipped.

    What cannot be unpacked ends it, and is a problem. Raises what `opened` raises, and `RecordingFileError` for more
    bytes than *limits* allow.
    """
    with opened(Path(limits.name)) as file:
        start = file.read(_HEAD)
        if not start.startswith(_GZIP):
            yield start
            limits.check_size(os.fstat(file.fileno()).st_size)
            yield from _counted(iter(partial(file.read, _BLOCK), b""), len(start), limits)
            return
        file.seek(0)
        start = b""
        try:
            for block in _counted(_unpacked(file), 0, limits):
                if len(start) >= _HEAD:
                    yield block
                elif len(start := start + block) >= _HEAD:
                    yield start[:_HEAD]
                    yield start[_HEAD:]
        except _NOT_GZIP as error:
            if not start and not isinstance(error, EOFError):
                raise RecordingFileError(f"{limits.name} is not a recording: it cannot be unpacked: {error}") from error
            problems.append(CaptureProblem(DAMAGE, f"{limits.name} cannot be unpacked to its end: {error}"))
        if len(start) < _HEAD:
            yield start


def _counted(parts: Iterable[bytes], size: int, limits: Limits) -> Iterator[bytes]:
    for block in parts:
        size += len(block)
        limits.check_size(size)
        yield block


def _unpacked(file: BinaryIO) -> Iterator[bytes]:
    """What gzip packed, up to 1 MiB at a time. Each of several parts has to hold something; zeros only fill up a file.

    The module gzip reads empty parts and zeros one by one, for as long as they go on.
    """
    packed = file.read(_PACKED)
    while packed and not packed.startswith(b"\0"):
        part, is_empty = zlib.decompressobj(wbits=31), True
        while not part.eof:
            packed = packed or file.read(_PACKED)
            if not packed:
                yield part.flush()
                raise EOFError("it ends before the end of what is packed in it")
            undamaged = part.copy()
            try:
                block = part.decompress(packed, _BLOCK)
            except zlib.error:
                for at in range(len(packed)):  # up to the damage, where it is raised again
                    yield undamaged.decompress(packed[at : at + 1])
                raise
            packed = part.unconsumed_tail
            is_empty = is_empty and not block
            yield block
        if is_empty:
            raise zlib.error("it has an empty part")
        packed = part.unused_data or file.read(_PACKED)


def lines(parts: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    """Yield the lines of a file with their ends; keeps none. Raises `RecordingFileError` for one that is too long."""
    begun: list[bytes] = []
    size = 0
    for part in parts:
        for line in io.BytesIO(part):
            is_whole = line.endswith(b"\n")
            if is_whole and not begun:
                yield line
                continue
            begun.append(line)
            size += len(line)
            limits.check_line(size)
            if is_whole:
                begun[:], size = [b"".join(begun)], 0
                yield begun.pop()
    if begun:
        yield b"".join(begun)
