"""Two texts line by line: what is equal, what stands for what, and what differs within a line."""

from __future__ import annotations

import re
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import accumulate
from typing import Any

from compiler_lens.render.page.pool import Pool
from compiler_lens.views.document import Comparison

Stretch = tuple[str, int, int, int, int]  # "=" equal, "~" line by line, "-" only before, "+" only after
Spans = list[list[int]]  # where in a line something differs: begin, end

_TAGS = {"equal": "=", "delete": "-", "insert": "+"}
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"\w+")
_TOKEN = re.compile(r"\w+|\s+|.")
_TOKENS = 400  # of a line that is looked into
_LOOKED = 1_000  # characters of a line that tell whether it is like another
COMPARED = 4_000  # lines of a text that are aligned
_SAME = 0.6  # lines that share less are two lines, not one that changed
_CELLS = 600  # pairs of lines that are looked at for that
_WORK = 12_000_000  # equal lines that are looked at to find the longest stretches of them
_LENGTHS = 60_000_000  # squared lengths of changed lines: beyond, they are not looked into


def stretches(left: Sequence[str], right: Sequence[str]) -> list[Stretch]:
    """Return both texts from top to bottom. Very long ones are not aligned: one after the other."""
    if max(len(left), len(right)) > COMPARED or not (left and right):
        sides: list[Stretch] = [("-", 0, len(left), 0, 0), ("+", len(left), len(left), 0, len(right))]
        return [one for one in sides if one[1] < one[2] or one[3] < one[4]]
    found: list[Stretch] = []
    for tag, b0, b1, a0, a1 in _opcodes(left, right):
        is_replaced = tag == "replace"
        for one in _replaced(left[b0:b1], right[a0:a1], b0, a0) if is_replaced else ((_TAGS[tag], b0, b1, a0, a1),):
            if found and found[-1][0] == one[0] and found[-1][2] == one[1] and found[-1][4] == one[3]:
                kind, b, _, a, _ = found.pop()  # neighbours of one kind in one
                found.append((kind, b, one[2], a, one[4]))
            else:
                found.append(one)
    return found


def _opcodes(left: Sequence[str], right: Sequence[str]) -> Iterator[Stretch]:
    b = a = 0
    for i, j, size in [*_equal(left, right), (len(left), len(right), 0)]:
        if b < i or a < j:
            yield "replace" if b < i and a < j else "delete" if b < i else "insert", b, i, a, j
        b, a = i + size, j + size
        if size:
            yield "equal", i, b, j, a


def _equal(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int, int]]:
    """What difflib finds equal, the longest first: where lines are alike, it may take their number cubed. No more."""
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    often = Counter(right)
    cost = [0, *accumulate(1 + often[line] for line in left)]
    work, found, waiting = _WORK, [], deque([(0, len(left), 0, len(right))])
    while waiting:
        b0, b1, a0, a1 = waiting.popleft()
        work -= cost[b1] - cost[b0]
        if work < 0 or b0 == b1 or a0 == a1:
            continue
        i, j, size = matcher.find_longest_match(b0, b1, a0, a1)
        if size:
            found.append((i, j, size))
            waiting += ((b0, i, a0, j), (i + size, b1, j + size, a1))
    return sorted(found)


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


def _alike(left: Sequence[str], right: Sequence[str]) -> Iterator[tuple[int, int]]:
    """The lines that share most of their words, in order: as much as there is to share."""
    if not (left and right) or len(left) * len(right) > _CELLS:
        return
    words = [[Counter(_WORD.findall(line[:_LOOKED])) for line in side] for side in (left, right)]
    best = [[0.0] * (len(right) + 1) for _ in range(len(left) + 1)]
    shares = [[0.0] * len(right) for _ in left]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            one, other = words[0][i], words[1][j]
            share = 2 * (one & other).total() / max(1, one.total() + other.total())
            shares[i][j] = share if share > _SAME else 0.0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], best[i + 1][j + 1] + shares[i][j])
    i = j = 0
    while i < len(left) and j < len(right):
        if shares[i][j] and best[i][j] == best[i + 1][j + 1] + shares[i][j]:
            yield i, j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1


def within(one: str, other: str) -> tuple[Spans, Spans]:
    """Return where two lines differ from each other; nothing where they differ all over."""
    left, right = _TOKEN.findall(one), _TOKEN.findall(other)
    if max(len(left), len(right)) > _TOKENS:
        return [], []
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    spans: tuple[Spans, Spans] = ([], [])
    for tag, b0, b1, a0, a1 in matcher.get_opcodes():
        for into, tokens, first, last in ((spans[0], left, b0, b1), (spans[1], right, a0, a1)):
            if tag == "equal" or first == last:
                continue
            begin, end = sum(map(len, tokens[:first])), sum(map(len, tokens[:last]))
            if into and into[-1][1] == begin:
                into[-1][1] = end
            else:
                into.append([begin, end])
    return spans


def comparison_data(block: Comparison, pool: Pool) -> dict[str, Any]:
    """Return what the page's script needs to show two texts beside each other: stretches, and marks within lines."""
    texts = {"before": pool.add("\n".join(block.before)), "after": pool.add("\n".join(block.after))}
    both = block.before, block.after
    if both not in pool.compared:  # layers that are alike have the same code
        pool.compared[both] = compared(*both)
    return {**texts, "language": block.language, **pool.compared[both]}


def compared(left: Sequence[str], right: Sequence[str]) -> dict[str, Any]:
    """Return the stretches of two texts, and marks within their lines."""
    rows = stretches(left, right)
    changed = [(b0 + i, a0 + i) for tag, b0, b1, a0, _ in rows if tag == "~" for i in range(b1 - b0)]
    lengths = accumulate(max(len(left[b]), len(right[a])) ** 2 for b, a in changed)
    looked = (pair for pair, length in zip(changed, lengths, strict=True) if length <= _LENGTHS)
    return {"rows": rows, "marks": {f"{b}": within(left[b], right[a]) for b, a in looked}}
