"""Writing files: each whole or not at all, and never over one that we did not write."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import zlib
from collections.abc import Mapping
from contextlib import suppress
from enum import Enum
from pathlib import Path

from compiler_lens.recording.errors import UsageError


class Product(Enum):
    """What we write; its value is what a message calls it."""

    RECORDING = "a recording"
    PAGE = "a page"
    PICTURE = "a picture"


# How each begins, in any format that it is written in.
_BEGINS: Mapping[Product, re.Pattern[bytes]] = {
    Product.RECORDING: re.compile(rb'\{"compiler_lens"'),
    Product.PAGE: re.compile(rb"<!doctype html>\n<html [^<]*<head>.*? compiler_lens</title>", re.DOTALL),
    Product.PICTURE: re.compile(
        rb'<svg xmlns="http://www.w3.org/2000/svg" class="clg|digraph level \{|\x89PNG.{37}Software\0compiler_lens',
        re.DOTALL,
    ),
}
_HEAD = 1 << 12  # bytes of a file that are looked at
_HEAD_OF_PAGE = 1 << 16  # its title may hold a long path
_GZIP = b"\x1f\x8b"
# The file may be written, but none can be made beside it, or put in its place (a mount point).
_IN_PLACE = frozenset((errno.EACCES, errno.EPERM, errno.EROFS, errno.EBUSY))


def check_is_ours(descriptor: int, target: object, product: Product) -> None:
    """Raise `UsageError` for an open file that holds anything but such a product of ours."""
    size = _HEAD_OF_PAGE if product is Product.PAGE else _HEAD
    head = os.pread(descriptor, size, 0)
    if head.startswith(_GZIP):
        with suppress(zlib.error):
            head = zlib.decompressobj(wbits=31).decompress(head, size)
    if head and not _BEGINS[product].match(head):
        raise UsageError(
            f"{target} is there and is not {product.value} of compiler_lens: "
            "name another file, or write over it with --force (in Python: overwrite=True)"
        )


def check_may_be_written(target: Path, product: Product, *, overwrite: bool = False) -> None:
    """Raise `UsageError` for a file that is there and is not ours, or is just being made; OSError for an unreadable."""
    if overwrite or not target.is_file():  # devices and pipes hold nothing
        return
    descriptor = os.open(target, os.O_RDONLY | os.O_CLOEXEC)
    try:
        check_is_ours(descriptor, target, product)
        if _is_locked(descriptor):
            raise UsageError(f"{target} is being recorded to: name another file")
    finally:
        os.close(descriptor)


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        pass
    return False


def write_whole(path: str | os.PathLike[str], content: bytes, product: Product, *, overwrite: bool = False) -> Path:
    """Write a file; one that is there stays as it is until all of the new one is written.

    Raises `UsageError` where a file is there that is not ours, unless it is to be overwritten, and OSError.
    """
    target = Path(path)
    check_may_be_written(target, product, overwrite=overwrite)
    if target.is_file() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
    if target.exists() and not target.is_file():
        target.write_bytes(content)
        return target
    try:
        put_in_place(Path(os.path.realpath(target)), content)  # a link goes on leading there
    except OSError as error:
        if error.errno not in _IN_PLACE or not target.exists():
            raise
        target.write_bytes(content)
    return target


def put_in_place(target: Path, content: bytes, mode: int | None = None) -> None:
    """Write a file beside its name, and put it there when it is whole, with the mode of the one that was there.

    Raises OSError.
    """
    beside = target.with_name(f".compiler_lens-{secrets.token_hex(8)}.tmp")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666 if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is None and target.exists():
                os.fchmod(descriptor, stat.S_IMODE(target.stat().st_mode))
            file.write(content)
        beside.replace(target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
