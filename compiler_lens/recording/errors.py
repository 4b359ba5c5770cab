"""Every error that we raise at a user. Standard library only.

LensError
├── CaptureError            torch does not offer what we need
│   └── PayloadError        an event has a shape that we do not know
├── RecordingFileError      not a recording, newer than us, or unreadable
└── UsageError              what was asked for does not exist
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


def visible(text: str, *, keeps_lines: bool = False) -> str:
    """Return a text with whatever could act on a terminal written out, `\\x1b`: a file's name, an error's message."""
    kept = "\n" if keeps_lines else ""
    return "".join(one if one.isprintable() or one == kept else repr(one)[1:-1] for one in text)


class LensError(Exception):
    """Base of all errors of ours: the message says what is wrong and what to do about it.

    It names what was asked for, and files: as a string it is safe to print, whatever these are called.
    """

    exit_code = 1

    def __str__(self) -> str:
        return visible(super().__str__(), keeps_lines=True)


class CaptureError(LensError):
    """Something of the compiler stack could not be captured."""


class PayloadError(CaptureError):
    """An event of torch's has a shape that its reader does not know."""


class RecordingFileError(LensError):
    """A file is missing, is not a recording, or was written by a newer compiler_lens."""


class UsageError(LensError):
    """The user asked for something that is not there: a compile id, a kernel, a view."""

    exit_code = 2


@contextmanager
def writing(target: object, kind: type[LensError] = RecordingFileError) -> Iterator[None]:
    """Raise an error of this kind where *target* cannot be written."""
    try:
        yield
    except OSError as error:
        raise kind(f"cannot write {target}: {error.strerror or error}") from error
