"""What comes out of a file that somebody gave us: only a regular file, unpacked while it is read, up to a limit.

Whoever reads one asks for its `head` first: 4 KiB say whether it is what it should be.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from compiler_lens.recording.errors import RecordingFileError
from compiler_lens.recording.model import CaptureProblem

MAX_SIZE = 1 << 30  # bytes of text: the events of 10,000 large compilations or so
_GZIP = b"\x1f\x8b"
_NOT_GZIP = (gzip.BadGzipFile, EOFError, zlib.error)
_HEAD = 4096
_BLOCK = 1 << 20
_BYTES_OF_AN_EVENT = 256  # at least, on average: real recordings have 500 and more
_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe: write what comes out of it to a file first",
    stat.S_IFSOCK: "a socket",
}


class Limits(Struct, frozen=True):
    """How much of a file is read: a small one may unpack to, or stand for, more than the machine can hold."""

    name: str  # the file's path
    size: int = sys.maxsize  # bytes, unpacked

    def check_size(self, size: int) -> None:
        """Raise `RecordingFileError` for more bytes than are read of a file."""
        if size > self.size:
            raise self._passed(f"holds more than {self.size:,} bytes of text", size)

    def check_line(self, size: int) -> None:
        """Raise `RecordingFileError` for a line, or a record of a log, that takes more than a quarter of them."""
        if size > self.size // 4:
            raise self._passed(f"has a line of more than {self.size // 4:,} bytes", 4 * size)

    def check_events(self, count: int) -> None:
        """Raise `RecordingFileError` for more events than real recordings of that size have."""
        if count > self.size // _BYTES_OF_AN_EVENT:
            raise self._passed(f"has more than {count - 1:,} events", 2 * self.size)

    def _passed(self, what: str, needed: int) -> RecordingFileError:
        megabytes = -(-max(needed, 2 * self.size) >> 20)
        return RecordingFileError(
            f"{self.name} {what}: more than is read of a file that may be hostile. If you trust it, give --max-size"
            f" {megabytes}M, or max_size={megabytes << 20} to compiler_lens.load"
        )


def opened(path: Path) -> BinaryIO:
    """Open a regular file, and wait for nothing.

    Raises:
        RecordingFileError: it is something else, which may never end.
        OSError: it cannot be opened.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        raise RecordingFileError(f"cannot open {path}: it is {_KINDS.get(kind, 'a device')}")
    return os.fdopen(descriptor, "rb", buffering=0)


def head(path: Path) -> bytes:
    """Return the first 4 KiB of a file, unpacked if it is gzipped. Raises what `opened` raises."""
    with opened(path) as file:
        data = file.read(_HEAD)
        if not data.startswith(_GZIP):
            return data
        file.seek(0)
        data = b""
        with gzip.open(file) as unpacked, suppress(*_NOT_GZIP):
            while more := unpacked.read1(_HEAD - len(data)):
                data += more
    return data


def blocks(limits: Limits, problems: list[CaptureProblem], where: str) -> Iterator[bytes]:
    """Yield a file's bytes, unpacked if it is gzipped. What cannot be unpacked ends it, and is a problem.

    Raises what `opened` raises, and `RecordingFileError` for more bytes than *limits* allow.
    """
    size = 0
    with opened(Path(limits.name)) as file:
        is_gzipped = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        if not is_gzipped:
            limits.check_size(os.fstat(file.fileno()).st_size)
        with gzip.open(file) if is_gzipped else file as unpacked:
            # Unlike read, read1 of a gzipped file keeps nothing back when the next one fails.
            read = unpacked.read1 if isinstance(unpacked, gzip.GzipFile) else unpacked.read
            try:
                while block := read(_BLOCK):
                    size += len(block)
                    limits.check_size(size)
                    yield block
            except _NOT_GZIP as error:
                problems.append(CaptureProblem(where, f"{limits.name} cannot be unpacked to its end: {error}"))


def lines(parts: Iterable[bytes], limits: Limits) -> Iterator[bytes]:
    """Yield the lines of a file with their ends. Raises `RecordingFileError` for one that is too long."""
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
                yield b"".join(begun)
                begun, size = [], 0
    if begun:
        yield b"".join(begun)
