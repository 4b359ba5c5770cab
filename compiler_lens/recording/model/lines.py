"""Lines of the user's program, and how links to them are known."""

from __future__ import annotations

from enum import Enum

from msgspec import Struct

from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.shape import Count


class SourceLine(Struct, frozen=True, gc=False):
    """A line of Python. `code` is empty where torch did not give its text."""

    file: str
    line: Count
    function: str = ""
    code: str = ""

    @property
    def place(self) -> SourcePlace:
        """Where it is."""
        return SourcePlace(self.file, self.line)


class SourceFile(Struct, frozen=True):
    """A file of Python as it was when it was compiled."""

    file: str
    text: str
    read_from: str = ""  # the reader's file that a log's text was taken from; empty: the text is recorded


class Trust(Enum):
    """How a link between two things is known."""

    EXACT = "exact"  # from live compiler objects, in this process or in the one that filled the cache
    TEXT = "text"  # read from comments and names in torch's own text
    UNKNOWN = "unknown"
