"""Text that is safe to show anywhere, and numbers with their units."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile
from operator import eq

# Complete terminal escape sequences; an unfinished one loses its ESC only, so that it hides nothing behind it.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # colours, cursor
    r"|\x1b\][^\x07\x1b\n]{0,500}(?:\x07|\x1b\\)"  # title, hyperlink, clipboard
    r"|\x1b[ -/]{0,8}[0-Z\\^-~]",
)

# Control characters but tab and newline; marks that turn the direction of writing; invisible tag characters.
_INVISIBLE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\U000e0000-\U000e007f]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")  # half characters: JSON may carry them, no encoding can write them

_LONGEST_WORD = 400  # characters: whole guards are shorter
_LONG_WORD = re.compile(rf"(?<!\S)(\S{{{_LONGEST_WORD}}})\S+")

UNKNOWN = "-"
_TIMES = "\N{MULTIPLICATION SIGN}"

# Where a figure of three digits moves on to the next form: what would be rounded up to that counts as there.
_AS_SECONDS = 0.0995
_AS_ONE_SECOND = 0.9995
_AS_TENTHS = 9.995
_AS_MINUTES = 119.95
_ONE_MILLISECOND = 0.0005
_ONE_PERCENT = 0.5
_AS_MILLISECONDS = 0.1
_KIBI = 1024
_KILO = 1000


def clean(text: str) -> str:
    """Text of somebody else's without anything that could steer a terminal; keeps newlines, tabs become spaces."""
    if text.isprintable():
        return text
    text = _INVISIBLE.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n").replace("\r", "\n")))
    return _SURROGATES.sub("\ufffd", text).expandtabs(4)


def readable(text: str) -> str:
    """Return cleaned text for a reader, whom the rest of a name of 20,000 characters would not help."""
    text = clean(text)
    return text if len(text) <= _LONGEST_WORD else _LONG_WORD.sub(r"\1…", text)


def one_line(text: str, limit: int = 400) -> str:
    """Cleaned text on one line, white space folded, cut to `limit` characters."""
    text = " ".join(readable(text[: 4 * limit]).split())
    return text if len(text) <= limit else text[: limit - 1] + "…"


def number(count: int | None) -> str:
    """12,345; a dash for what is not known."""
    return UNKNOWN if count is None else f"{count:,}"


def plural(count: int, noun: str, several: str = "") -> str:
    """1 graph, 2 graphs."""
    return f"{count:,} {noun if count == 1 else several or noun + 's'}"


def joined(items: Sequence[str], most: int) -> str:
    """Return `a, b, c, …`: no more than `most` of them."""
    return ", ".join(items[:most]) + (", …" if len(items) > most else "")


def times(count: int) -> str:
    """How often: a multiplication sign and the count."""
    return f"{_TIMES}{count:,}"


def seconds(value: float | None) -> str:
    """A duration with its unit: 34 ms, 2.31 s, 17.4 s, 3 min 05 s."""
    if value is None:
        return UNKNOWN
    if value < _AS_SECONDS:
        return "<1 ms" if 0 < value < _ONE_MILLISECOND else f"{value * 1000:.0f} ms"
    if value < _AS_TENTHS:
        return f"{value:.2f} s"
    if value < _AS_MINUTES:
        return f"{value:.1f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes:,} min {rest:02d} s"


def milliseconds(value: float | None) -> str:
    """A kernel's time, given in milliseconds, with its unit: 8.2 µs, 0.124 ms, 12.4 ms."""
    if value is None:
        return UNKNOWN
    return f"{value * 1000:.1f} µs" if value < _AS_MILLISECONDS else f"{value:.3g} ms"


def microseconds(value: float | None) -> str:
    """A time measured in microseconds, with its unit: 8.2 µs, 0.124 ms."""
    return UNKNOWN if value is None else milliseconds(value / 1000)


def duration(value: float) -> str:
    """A measured time, given in seconds, with its unit and three digits: 8.21 µs, 0.124 ms, 12.4 ms, 1.25 s."""
    if value >= _AS_ONE_SECOND:
        return seconds(value)
    return f"{value * 1e6:.3g} µs" if value < 1e-4 else f"{value * 1e3:.3g} ms"  # noqa: PLR2004


def per_second(rate: float) -> str:
    """How many in a second, with three digits: no machine runs so evenly that a fourth means something."""
    if not rate:
        return ""
    decimals = 2 - math.floor(math.log10(rate))
    return f"{round(rate, decimals):,.{max(decimals, 0)}f}"


def flops(count: float) -> str:
    """Return a count of floating-point operations with its unit: 512 FLOPs, 17.2 GFLOPs."""
    for unit in ("FLOPs", "kFLOPs", "MFLOPs", "GFLOPs"):
        if count < _KILO:
            return f"{count:.3g} {unit}"
        count /= _KILO
    return f"{count:,.3g} TFLOPs"


def rate(value: float | None, unit: str) -> str:
    """Return bytes or operations per second, three digits: 1.23 TB/s."""
    if value is None:
        return UNKNOWN
    for prefix, size in (("T", 1e12), ("G", 1e9)):
        if value >= size:
            return f"{value / size:.3g} {prefix}{unit}"
    return f"{value / 1e6:.3g} M{unit}"


def how_often(value: float) -> str:
    """Return how often something happens in a call: whole, unless calls differ."""
    return f"{value:,.0f}" if abs(value - round(value)) < 0.005 else f"{value:,.2f}"  # noqa: PLR2004


def nbytes(value: float | None) -> str:
    """An amount of memory with its unit: 512 B, 1.5 KiB, 12.0 MiB."""
    if value is None:
        return UNKNOWN
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < _KIBI:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _KIBI
    return f"{value:.1f} TiB"


def percent(part: float, whole: float) -> str:
    """A share: 68 %; `<1 %` for what is little but not nothing."""
    share = 100 * part / whole if whole else 0.0
    return "<1 %" if 0 < share < _ONE_PERCENT else f"{share:.0f} %"


def short_paths(files: Iterable[str]) -> Mapping[str, str]:
    """For each file the shortest ending of its path that no other file here shares: `model.py`, `a/model.py`."""
    paths = {file: file.replace("\\", "/").strip("/").split("/")[::-1] for file in set(files)}
    ordered = sorted(paths, key=paths.__getitem__)  # what shares the most stands side by side
    shared = [0, *(sum(takewhile(bool, map(eq, paths[one], paths[two]))) for one, two in pairwise(ordered)), 0]
    short: dict[str, str] = {}
    for file, both in zip(ordered, pairwise(shared), strict=False):
        path, depth = paths[file], max(both) + 1
        short[file] = "/".join(reversed(path[:depth])) if depth <= len(path) else file
    return short
