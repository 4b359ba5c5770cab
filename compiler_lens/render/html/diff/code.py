"""Two texts line by line: what is equal, what stands for what, and what differs within a line."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Any

from compiler_lens.render.console.diff_code import COMPARED

Stretch = tuple[str, int, int, int, int]  # "=" equal, "~" line by line, "-" only before, "+" only after
Spans = list[list[int]]  # where in a line something differs: begin, end

_TAGS = {"equal": "=", "delete": "-", "insert": "+"}
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|\s+|.")
_TOKENS = 400  # of a line that is looked into
_LOOKED = 1_000  # characters of a line that tell whether it is like another
_SAME = 0.6  # lines that share less are two lines, not one that changed
_CELLS = 600  # pairs of lines that are looked at for that


def stretches(left: Sequence[str], right: Sequence[str]) -> list[Stretch]:
    """Both texts from top to bottom. Very long ones are not aligned: one after the other."""
    if max(len(left), len(right)) > COMPARED or not (left and right):
        sides: list[Stretch] = [("-", 0, len(left), 0, 0), ("+", len(left), len(left), 0, len(right))]
        return [one for one in sides if one[1] < one[2] or one[3] < one[4]]
    return list(_joined([part for one in _opcodes(left, right) for part in _stretch(left, right, one)]))


def _opcodes(left: Sequence[str], right: Sequence[str]) -> list[Stretch]:
    return SequenceMatcher(None, left, right, autojunk=False).get_opcodes()  # type: ignore[return-value]


def _stretch(left: Sequence[str], right: Sequence[str], found: Stretch) -> list[Stretch]:
    tag, b0, b1, a0, a1 = found
    if tag == "replace":
        return list(_replaced(left[b0:b1], right[a0:a1], b0, a0))
    return [(_TAGS[tag], b0, b1, a0, a1)]


def _replaced(left: Sequence[str], right: Sequence[str], b: int, a: int) -> Iterator[Stretch]:
    """Lines that are each other but for their numbers are aligned; of the rest, those that are alike."""
    blurred = [[_NUMBER.sub("0", line) for line in side] for side in (left, right)]
    for tag, b0, b1, a0, a1 in _opcodes(*blurred):
        if tag == "equal":
            yield "~", b + b0, b + b1, a + a0, a + a1
        else:
            yield from _paired(left[b0:b1], right[a0:a1], b + b0, a + a0)


def _paired(left: Sequence[str], right: Sequence[str], b: int, a: int) -> Iterator[Stretch]:
    at = (0, 0)
    for i, j in [*_alike(left, right), (len(left), len(right))]:
        if at[0] < i:
            yield "-", b + at[0], b + i, a + at[1], a + at[1]
        if at[1] < j:
            yield "+", b + i, b + i, a + at[1], a + j
        if i < len(left) and j < len(right):
            yield "~", b + i, b + i + 1, a + j, a + j + 1
        at = i + 1, j + 1


def _alike(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """The lines that share most of their words, in order: as much as there is to share."""
    if not (left and right) or len(left) * len(right) > _CELLS:
        return []
    words = [[Counter(_WORD.findall(line[:_LOOKED])) for line in side] for side in (left, right)]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    shares = [[_share(one, other) for other in words[1]] for one in words[0]]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + shares[i][j])
    return list(_path(best, shares))


def _path(best: Sequence[Sequence[float]], shares: Sequence[Sequence[float]]) -> Iterator[tuple[int, int]]:
    i = j = 0
    while i < len(shares) and j < len(shares[0]):
        if shares[i][j] and best[i][j] == best[i + 1][j + 1] + shares[i][j]:
            yield i, j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1


def _share(one: Counter[str], other: Counter[str]) -> float:
    """How much of two lines is the same; too little is nothing."""
    share = 2 * (one & other).total() / max(1, one.total() + other.total())
    return share if share > _SAME else 0.0


def _joined(found: Sequence[Stretch]) -> Iterator[Stretch]:
    """Neighbours of one kind in one."""
    last: Stretch | None = None
    for one in found:
        if last and last[0] == one[0] and last[2] == one[1] and last[4] == one[3]:
            last = (last[0], last[1], one[2], last[3], one[4])
            continue
        if last:
            yield last
        last = one
    if last:
        yield last


def within(one: str, other: str) -> tuple[Spans, Spans]:
    """Where two lines differ from each other; nothing where they differ all over."""
    left, right = _TOKEN.findall(one), _TOKEN.findall(other)
    if max(len(left), len(right)) > _TOKENS:
        return [], []
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    spans: tuple[Spans, Spans] = ([], [])
    for tag, b0, b1, a0, a1 in matcher.get_opcodes():
        if tag == "equal":
            continue
        for into, tokens, first, last in ((spans[0], left, b0, b1), (spans[1], right, a0, a1)):
            if first < last:
                _add(into, sum(map(len, tokens[:first])), sum(map(len, tokens[:last])))
    return spans


def _add(spans: Spans, begin: int, end: int) -> None:
    if spans and spans[-1][1] == begin:
        spans[-1][1] = end
    else:
        spans.append([begin, end])


def compared(left: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
    """What the page's script needs to show two texts beside each other: stretches, and marks within lines."""
    rows = stretches(left, right)
    marks = {
        f"{b0 + i}": within(left[b0 + i], right[a0 + i])
        for tag, b0, b1, a0, _ in rows
        if tag == "~"
        for i in range(b1 - b0)
    }
    return {"rows": rows, "marks": marks}
