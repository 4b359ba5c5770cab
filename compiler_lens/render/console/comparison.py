"""Two texts, side by side where there is room, else as a unified diff."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff

from rich.text import Text

from compiler_lens.render.console.page import BAD, DIM, GOOD, PLACE, WARN
from compiler_lens.views.document import Comparison

_SIDE_BY_SIDE = 120  # columns
_MARKS = {"equal": (" ", ""), "replace": ("|", WARN), "delete": ("<", BAD), "insert": (">", GOOD)}
_CONTEXT = 3
_COMPARED = 4_000  # lines: difflib takes the square of them


def comparison_lines(block: Comparison, width: int) -> list[Text]:
    """Return the lines of both texts, none of them cut: whoever compares code wants all of it."""
    left, right = block.before, block.after
    is_beside = width >= _SIDE_BY_SIDE and left and right and max(len(left), len(right)) <= _COMPARED
    return list(_beside(left, right, width) if is_beside else _unified(left, right))


def _beside(left: Sequence[str], right: Sequence[str], width: int) -> Iterator[Text]:
    half = (width - 3) // 2
    yield _whole(f"{'before':<{half}}   after", PLACE)
    for tag, b0, b1, a0, a1 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        mark, style = _MARKS[tag]
        for i in range(max(b1 - b0, a1 - a0)):
            one = left[b0 + i] if b0 + i < b1 else ""
            other = right[a0 + i] if a0 + i < a1 else ""
            for at in range(0, max(len(one), len(other), 1), half):
                yield _whole(f"{one[at : at + half]:<{half}} {mark} {other[at : at + half]}".rstrip(), style)


def _unified(left: Sequence[str], right: Sequence[str]) -> Iterator[Text]:
    if not (left and right):
        sign, style = ("-", BAD) if left else ("+", GOOD)
        yield from (_whole(f"{sign}{one}", style) for one in left or right)
        return
    styles = {"-": BAD, "+": GOOD, "@": DIM}
    for one in unified_diff(left, right, "before", "after", n=_CONTEXT, lineterm=""):
        yield _whole(one, styles.get(one[:1], ""))


def _whole(text: str, style: str = "") -> Text:
    made = Text(text, style=style, no_wrap=True)
    made.overflow = "ignore"
    return made
