"""Every error that we raise at a user. Imports nothing.

LensError
├── CaptureError            torch does not offer what we need
│   └── PayloadError        an event has a shape that we do not know
├── RecordingFileError      not a recording, newer than us, or unreadable
└── UsageError              what was asked for does not exist
"""


class LensError(Exception):
    """Base of all errors of ours: the message says what is wrong and what to do about it."""

    exit_code = 1


class CaptureError(LensError):
    """Something of the compiler stack could not be captured."""


class PayloadError(CaptureError):
    """An event of torch's has a shape that its reader does not know."""


class RecordingFileError(LensError):
    """A file is missing, is no recording, or was written by a newer compiler_lens."""


class UsageError(LensError):
    """The user asked for something that is not there: a compile id, a kernel, a view."""

    exit_code = 2
