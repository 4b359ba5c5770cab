"""Code as lines: whole, beside other code, a file with a gutter, an excerpt, a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher, unified_diff

from rich.cells import cell_len
from rich.text import Text

from compiler_lens.recording.ids import CompileId
from compiler_lens.render.console.page import BAD, CODE, DIM, GOOD, PLACE, STYLES, WARN, Page, line, paragraph, title
from compiler_lens.views.document import Annotated, Change, Excerpt, LineNote
from compiler_lens.views.parts import Span, Tone
from compiler_lens.views.text import clean

_HIGHLIGHTED = 200_000  # characters: more takes pygments longer than a reader waits
_LONGEST_LINE = 2_000
_LONGEST_QUOTED = 200  # of a line of an excerpt
_SIDE_BY_SIDE = 120  # columns
_MARKS = {"equal": (" ", ""), "replace": ("|", WARN), "delete": ("<", BAD), "insert": (">", GOOD)}
_CONTEXT = 3
_COMPARED = 4_000  # lines: difflib takes the square of them
_SHORT = 4  # a stretch that is not worth folding
_IDS = 3


def code_lines(code: str, page: Page, language: str = "python") -> list[Text]:
    """Return the lines of some code, highlighted where the page has colours.

    They are never cut: whoever asks for source wants all of it.
    """
    text = clean(code).rstrip("\n")
    made = [Text(one) for one in text.split("\n")]
    if page.color and len(text) <= _HIGHLIGHTED and max(map(len, made)) <= _LONGEST_LINE:
        from rich.syntax import Syntax

        highlighted = Syntax("", language, theme="ansi_dark", background_color="default").highlight(text)
        highlighted.rstrip()
        made = list(highlighted.split("\n", allow_blank=True))
    for one in made:
        one.no_wrap, one.overflow = True, "ignore"
    return made


def excerpt_lines(block: Excerpt) -> list[Text]:
    """Return lines of a file with their numbers, and a mark below the one it is about."""
    digits = len(str(block.first + len(block.lines) - 1))
    lines: list[Text] = []
    for number, text in enumerate(block.lines, block.first):
        is_it = number == block.marked
        shown = clean(text[:_LONGEST_QUOTED]).rstrip()
        made = Text(f"    {'>' if is_it else ' '} {number:>{digits}} | ", style=PLACE if is_it else DIM, no_wrap=True)
        lines.append(made.append(shown, style=CODE if is_it else DIM))
        if is_it:
            start, end = block.columns or (len(shown) - len(shown.lstrip()), len(shown))
            marks = " " * cell_len(shown[:start]) + "^" * max(cell_len(shown[start:end]), 1)
            lines.append(Text(f"      {' ' * digits} | {marks}", style=BAD, no_wrap=True))
    return lines


def change_lines(block: Change) -> list[Text]:
    """Return code to write; what it stands for before it, both then with a sign."""
    signs = [("- ", CODE, block.before), ("+ ", GOOD, block.after)] if block.before else [("", CODE, block.after)]
    room = " " * block.indent
    return [
        Text(f"{room}{sign}{clean(text)}", style=style, no_wrap=True) for sign, style, texts in signs for text in texts
    ]


# -- two texts


def comparison_lines(left: Sequence[str], right: Sequence[str], width: int) -> Iterator[Text]:
    """Yield the lines of both texts, side by side where there is room, else as a unified diff.

    None is cut: whoever compares code wants all of it.
    """
    if not (left and right):
        sign, style = ("-", BAD) if left else ("+", GOOD)
        yield from (_whole(f"{sign}{one}", style) for one in left or right)
    elif width >= _SIDE_BY_SIDE and max(len(left), len(right)) <= _COMPARED:
        half = (width - 3) // 2
        yield _whole(f"{'before':<{half}}   after", PLACE)
        for tag, b0, b1, a0, a1 in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
            mark, style = _MARKS[tag]
            for i in range(max(b1 - b0, a1 - a0)):
                one = left[b0 + i] if b0 + i < b1 else ""
                other = right[a0 + i] if a0 + i < a1 else ""
                for at in range(0, max(len(one), len(other), 1), half):
                    yield _whole(f"{one[at : at + half]:<{half}} {mark} {other[at : at + half]}".rstrip(), style)
    else:
        styles = {"-": BAD, "+": GOOD, "@": DIM}
        for one in unified_diff(left, right, "before", "after", n=_CONTEXT, lineterm=""):
            yield _whole(one, styles.get(one[:1], ""))


def _whole(text: str, style: str = "") -> Text:
    return Text(text, style=style, no_wrap=True, overflow="ignore")


# -- a file with a gutter


def source_lines(block: Annotated, page: Page) -> list[Text]:
    """Return a file's title and legend, then its lines, long stretches without any facts folded."""
    lines = [title(page.names.file(block.file), block.summary)]
    if not block.text:
        lines.append(line(("its text is not in the recording: these are the lines that torch gave", DIM), indent=2))
    if not block.bounds[0]:
        return lines
    used = {mark for row in block.rows.values() for mark in row.marks}
    legend: list[Text] = []
    for mark in block.legend:
        if mark in used:
            part = line((mark.sign, STYLES[mark.tone]), (f" {mark.words}", DIM))
            if legend and legend[-1].cell_len + part.cell_len + 3 <= page.width:
                legend[-1].append("   ").append_text(part)
            else:
                legend.append(line("  ", part))
    return [*lines, *legend, Text(), *_rows(block, page)]


def _rows(block: Annotated, page: Page) -> Iterator[Text]:
    first, end = block.bounds
    digits = len(str(end))
    known = (block.rows[number] for number in block.shown if number in block.rows)
    right = max((len(_ids(row.ids)) for row in known), default=0)
    last = first - 1
    for number in (*block.shown, None):
        upto = end + 1 if number is None else number
        if block.text and upto - last - 1 > _SHORT:
            inside = block.names.get(upto, "")
            yield line((f"{'⋮':>{digits}} {upto - last - 1:,} lines", DIM), (f"  {inside}", DIM), indent=2)
        elif block.text:
            for skipped in range(last + 1, upto):
                yield _row(block, skipped, digits, right, page)
        if number is not None:
            yield _row(block, number, digits, right, page)
            for note in block.rows[number].notes if number in block.rows else ():
                yield from _note(note, digits, page)
            last = number


def _row(block: Annotated, number: int, digits: int, right: int, page: Page) -> Text:
    row = block.rows.get(number)
    made = Text(f"  {number:>{digits}} ", style=DIM, no_wrap=True)
    for mark in row.marks if row else (None, None, None):
        made.append(mark.sign if mark else " ", style=STYLES[mark.tone] if mark else "")
    room = max(page.width - made.cell_len - 1 - (right + 2 if right else 0), 8)
    text = block.text[number - 1] if number <= len(block.text) else row.code if row else ""
    code = Text(clean(text[: 4 * page.width]).replace("\n", " ").rstrip(), style=STYLES[row.tone] if row else DIM)
    ids = _ids(row.ids) if row else ""
    code.truncate(room, overflow="ellipsis", pad=bool(ids))
    made.append(" ").append_text(code)
    return made.append(f"  {ids:>{right}}", style=DIM) if ids else made


def _ids(ids: Sequence[CompileId]) -> str:
    more = f" +{len(ids) - _IDS}" if len(ids) > _IDS else ""
    return " ".join(map(str, ids[:_IDS])) + more


def _note(note: LineNote, digits: int, page: Page) -> Iterator[Text]:
    """Below the mark that it is of; what follows its first line begins where its words do."""
    style = STYLES[note.head.tone]
    head = f"{note.mark.sign} {note.head.words}{note.between}"
    words, tone = (note.words.text, note.words.tone) if isinstance(note.words, Span) else (note.words, Tone.PLAIN)
    indent = digits + 3 + note.column
    if note.limit == 1:
        yield line((head, style), (words, STYLES[tone]), indent=indent)
        return
    told = paragraph(words, page.width, indent + len(head), STYLES[tone], note.limit) or [Text()]
    yield line((head, style), told[0][indent + len(head) :], indent=indent)
    yield from told[1:]
