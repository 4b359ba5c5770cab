"""What a program prints, compared between its runs: what follows from results outside of compiled calls shows there.

Numbers may follow from the clock, or count what torch compiles, so another number is told; other words are not the same
program. What differs between two runs of the program as it is says nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import isclose, isnan

from msgspec import Struct

_MOST = 1 << 20  # characters of what is compared
_ADDRESS = re.compile(r"\b0x[0-9a-f]+")
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d+)?(?![\w])|\b(?:nan|inf)\b", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:/[a-z]+)?")
_OF_TIMES = frozenset({
    "took", "time", "times", "elapsed", "s", "sec", "secs", "second", "seconds", "ms", "us", "min", "minutes", "it/s",
    "iter/s", "samples/s", "tokens/s", "img/s", "steps/s", "fps", "ms/iter", "ms/step", "s/it", "speed", "throughput",
    "eta", "latency", "duration", "compiled", "compile", "recompiles", "graphs", "mb", "gb", "mib", "gib",
})  # fmt: skip
_CLOSE = 1e-3  # of two numbers that are rounded as they are printed


class OtherWords(Struct, frozen=True):
    """The first that a run prints otherwise than the program as it is."""

    before: str = ""  # the line as it is; empty: there is one more
    after: str = ""  # the line in its place; empty: there is none
    is_number: bool = False  # numbers alone differ, or their order

    @property
    def may_be_a_time(self) -> bool:
        """Whether the line has a word for how long something took, or how fast it was."""
        return not _OF_TIMES.isdisjoint(_WORD.findall(self.before.lower()))


class Known(Struct, frozen=True):
    """What the program as it is prints, as far as that is the same in two runs."""

    lines: tuple[str, ...]
    unsure: frozenset[str] = frozenset()  # lines without their numbers, which differ

    def other(self, printed: str, *, may_lack: bool = False, may_move: bool = False) -> OtherWords | None:
        """Return what a run prints otherwise; None where it prints the same.

        Args:
            printed: all of it.
            may_lack: lines may be missing.
            may_move: lines may come in another order.
        """
        if len(printed) > _MOST:
            return None
        before, after = self._sure(self.lines), self._sure(_lines(printed))
        words, new = Counter(map(_words, before)), Counter(map(_words, after))
        added, lost = new - words, words - new
        if added or (lost and not may_lack):
            return OtherWords(_first(before, lost), _first(after, added))
        if not may_lack and not may_move and (moved := _at_another_place(before, after)):
            return moved
        return _other_number(before, after)

    def _sure(self, lines: Iterable[str]) -> list[str]:
        return [line for line in lines if _words(line) not in self.unsure]


def known(first: str, again: str) -> Known | None:
    """Return what two runs of the program as it is print alike; None where not even their words are the same."""
    if max(len(first), len(again)) > _MOST:
        return None
    lines, others = _lines(first), _lines(again)
    if Counter(map(_words, lines)) != Counter(map(_words, others)):
        return None
    numbers, other_numbers = _by_words(lines), _by_words(others)
    unsure = {words for words, found in numbers.items() if found != other_numbers[words]}
    return Known(tuple(lines), frozenset(unsure))


def _lines(printed: str) -> list[str]:
    return [_ADDRESS.sub("0x", line.rstrip()) for line in re.split(r"[\r\n]+", printed) if line.strip()]


def _words(line: str) -> str:
    """A line without its numbers, and the spaces in which a tensor keeps room for signs."""
    return "".join(_NUMBER.sub("#", line).split())


def _by_words(lines: Iterable[str]) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        found[_words(line)].append(line)
    return found


def _first(lines: Iterable[str], among: Mapping[str, int]) -> str:
    return next((line for line in lines if _words(line) in among), "")


def _at_another_place(before: Sequence[str], after: Sequence[str]) -> OtherWords | None:
    pairs = zip(before, after, strict=True)
    return next((OtherWords(one, other, is_number=True) for one, other in pairs if _words(one) != _words(other)), None)


def _other_number(before: Sequence[str], after: Sequence[str]) -> OtherWords | None:
    """The first line whose numbers are others; where lines are missing, than those of any line that may be it."""
    expected = _by_words(before)
    for words, lines in _by_words(after).items():
        others = expected[words]
        is_whole = len(others) == len(lines)
        left = iter(others)
        for at, line in enumerate(lines):
            one = next(left) if is_whole else next((one for one in left if _is_close(one, line)), None)
            if one is None or not _is_close(one, line):
                return OtherWords(others[at], line, is_number=True)
    return None


def _is_close(one: str, other: str) -> bool:
    pairs = zip(_NUMBER.findall(one), _NUMBER.findall(other), strict=True)
    return one == other or all(_is_same(*pair) for pair in pairs)


def _is_same(one: str, other: str) -> bool:
    """Whether two numbers are the same up to a rounding that shows; whole numbers are not rounded."""
    if one == other or one.lstrip("+-").isdigit() or other.lstrip("+-").isdigit():
        return one == other
    values = float(one), float(other)
    shown = max(_last_place(one), _last_place(other))
    return all(map(isnan, values)) or isclose(*values, rel_tol=_CLOSE, abs_tol=1.01 * shown)


def _last_place(number: str) -> float:
    digits, _, exponent = number.lower().partition("e")
    return float(10 ** (int(exponent or 0) - len(digits.partition(".")[2]))) if digits[-1:] not in "nf" else 0.0
