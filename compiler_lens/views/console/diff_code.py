"""Two kernels' code, side by side where there is room, else as a unified diff; names and numbers aside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher, unified_diff

from rich.text import Text

from compiler_lens.facts.compare.model import Case, LaunchRef
from compiler_lens.facts.compare.source import call, readable
from compiler_lens.recording.model import Kernel, Recording
from compiler_lens.render.console.page import BAD, DIM, GOOD, PLACE, WARN, Page, line
from compiler_lens.views.text import clean

_SIDE_BY_SIDE = 120  # columns
_MARKS = {"equal": (" ", ""), "replace": ("|", WARN), "delete": ("<", BAD), "insert": (">", GOOD)}
_CONTEXT = 3
SAME_CODE = "the same code, names and numbers aside"
COMPARED = 4_000  # lines: difflib takes the square of them


def case_code(case: Case, before: Recording, after: Recording, page: Page) -> list[Text]:
    """The code of what a case has on each side."""
    left = side_code(case.before, lambda one: _kernel(one, before))
    right = side_code(case.after, lambda one: _kernel(one, after))
    if left == right:
        return [line((SAME_CODE, DIM), indent=2), *map(_whole, left)]
    wide = page.width >= _SIDE_BY_SIDE and left and right and max(len(left), len(right)) <= COMPARED
    return list(_beside(left, right, page.width) if wide else _unified(left, right))


def side_code(side: Sequence[LaunchRef], kernel_of: Callable[[LaunchRef], Kernel | None]) -> list[str]:
    """The lines of the code of all that one side of a case has; of a library's kernel, its call."""
    lines: list[str] = []
    for one in side:
        if kernel := kernel_of(one):
            text = readable(kernel) or f"{kernel.name}({call(kernel, kernel.launches[one.launch])})"
            lines += [*([""] if lines else []), *clean(text).splitlines()]
    return lines


def _kernel(one: LaunchRef, recording: Recording) -> Kernel | None:
    where = one.compile_id, one.direction, one.ordinal, one.kernel
    return next((k for k in recording.kernels if (k.compile_id, k.direction, k.ordinal, k.name) == where), None)


def _beside(left: Sequence[str], right: Sequence[str], width: int) -> Iterator[Text]:
    half = (width - 3) // 2
    yield _whole(f"{'before':<{half}}   after", PLACE)
    for tag, b0, b1, a0, a1 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        mark, style = _MARKS[tag]
        for i in range(max(b1 - b0, a1 - a0)):
            one = left[b0 + i] if b0 + i < b1 else ""
            other = right[a0 + i] if a0 + i < a1 else ""
            for first, second in _wrapped(one, other, half):
                yield _whole(f"{first:<{half}} {mark} {second}".rstrip(), style)


def _wrapped(one: str, other: str, width: int) -> Iterator[tuple[str, str]]:
    """Long lines go on below: whoever compares code wants all of it."""
    for at in range(0, max(len(one), len(other), 1), width):
        yield one[at : at + width], other[at : at + width]


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
