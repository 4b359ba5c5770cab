"""What a line of text is made of: pieces in a tone, values with their kind, and what leads somewhere."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from msgspec import Struct

from compiler_lens.recording.model import CompileId


class Tone(Enum):
    """What a piece of text is to its reader."""

    PLAIN = ""
    STRONG = "strong"
    QUIET = "quiet"
    CODE = "code"
    GOOD = "good"
    WARN = "warn"
    BAD = "bad"
    DO = "do"  # what to change


class Kind(Enum):
    """What a value is, and so how it is written, sorted and aligned."""

    TEXT = "text"
    CODE = "code"
    COUNT = "count"
    TIMES = "times"  # how often: a count that is not worth a word if it is 1
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    MICROSECONDS = "microseconds"
    DURATION = "duration"  # seconds that were measured: three digits
    BYTES = "bytes"
    FLOPS = "flops"
    BYTE_RATE = "bytes per second"
    FLOP_RATE = "floating-point operations per second"
    RUNS = "runs"  # how often in a call: whole, unless calls differ
    SHARE = "share"  # of one: 0.25 is 25 %
    RATIO = "ratio"  # how many times as much
    RATE = "rate"  # how many in a second
    GAIN = "gain"  # microseconds more or less than before; 0: no more than noise
    ERROR = "error"  # of one: what differs, by what it should be
    BAR = "bar"  # against the longest in its column; for who reads without colours the number stands beside it

    @property
    def is_figure(self) -> bool:
        """Whether it is a number, which stands to the right and is sorted by its size."""
        return self not in {Kind.TEXT, Kind.CODE}

    @property
    def is_right(self) -> bool:
        """Whether it stands to the right of its column, so that digits stand below one another."""
        return self.is_figure and self not in {Kind.BAR, Kind.TIMES}


class Located(Protocol):
    """Anything with a place in a file."""

    @property
    def file(self) -> str: ...
    @property
    def line(self) -> int: ...


# -- parts of a line of text


class Span(Struct, frozen=True):
    """Text in a tone."""

    text: str
    tone: Tone


class At(Struct, frozen=True):
    """A line of a file, `model.py:41`: leads to it."""

    place: Located
    tone: Tone = Tone.PLAIN
    short: bool = False  # where there is little room: without the package of a package's file


class Places(Struct, frozen=True):
    """Lines of files, the first of them: `model.py:22, 24 +2`."""

    places: tuple[Located, ...]
    most: int = 3
    narrow: int = 3  # of them where there is little room
    tone: Tone = Tone.PLAIN


class File(Struct, frozen=True):
    """A file, as short as it is clear."""

    path: str
    tone: Tone = Tone.PLAIN


class Compiled(Struct, frozen=True):
    """A compile id, `[0/1]`: leads to its graphs."""

    compile_id: CompileId
    tone: Tone = Tone.QUIET


class KernelName(Struct, frozen=True):
    """A kernel: leads to its own view."""

    name: str
    index: int  # in `Recording.kernels`
    tone: Tone = Tone.STRONG


class ToView(Struct, frozen=True):
    """What another view, or a card of it, is called here: leads there."""

    words: str
    view: str
    card: int = 0  # 0: to the view
    tone: Tone = Tone.PLAIN


class Web(Struct, frozen=True):
    """A page of somebody else's, which leads there by its title; where nothing can lead, its address is shown."""

    title: str
    address: str
    tone: Tone = Tone.QUIET


class RecordingName(Struct, frozen=True):
    """What the recording was opened as."""

    tone: Tone = Tone.QUIET


class Figure(Struct, frozen=True):
    """A value that the renderer writes."""

    value: float | None
    kind: Kind
    tone: Tone = Tone.PLAIN
    about: bool = False  # not known for sure


Part = str | Span | At | Places | File | Compiled | KernelName | ToView | Web | RecordingName | Figure
Parts = tuple[Part, ...]
Text = Part | Parts | None


class Stacked(Struct, frozen=True):
    """What stands in a cell, and what stands beneath it where there is room; of bars two."""

    upper: Text | float
    beneath: Text | float
    found_by: str = ""  # what else readers find it by


Cell = Text | float | Stacked  # a number is written as its column's kind says; None is an empty cell


def quiet(text: str) -> Span:
    """Make a remark."""
    return Span(text, Tone.QUIET)


def strong(text: str) -> Span:
    """Make text that stands out."""
    return Span(text, Tone.STRONG)


def code(text: str) -> Span:
    """Make a piece of code."""
    return Span(text, Tone.CODE)


def coded(text: str) -> Parts:
    """Return a text whose backticks mark code as parts, without them."""
    pieces = text.split("`")
    return tuple(code(piece) if i % 2 else piece for i, piece in enumerate(pieces) if piece)


def sequence(parts: Sequence[Part], separator: Part = ", ") -> Parts:
    """Return parts with a separator between them."""
    joined: list[Part] = []
    for part in parts:
        joined += [separator, part] if joined else [part]
    return tuple(joined)
