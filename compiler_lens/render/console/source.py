"""A file with a gutter, as lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from compiler_lens.recording.ids import CompileId
from compiler_lens.render.console.page import DIM, STYLES, Page, line, paragraph, title
from compiler_lens.views.document import Annotated, LineNote, Mark
from compiler_lens.views.parts import Span, Tone
from compiler_lens.views.text import clean

_SHORT = 4  # a stretch that is not worth folding
_IDS = 3


def source_lines(block: Annotated, page: Page) -> list[Text]:
    """Return a file's title and legend, then its lines, long stretches without any facts folded."""
    lines = [title(page.path(block.file), block.summary)]
    if not block.text:
        lines.append(line(("its text is not in the recording: these are the lines that torch gave", DIM), indent=2))
    if not block.bounds[0]:
        return lines
    return [*lines, *_legend(block, page), Text(), *_rows(block, page)]


def _legend(block: Annotated, page: Page) -> list[Text]:
    used = {mark for row in block.rows.values() for mark in row.marks}
    lines: list[Text] = []
    for mark in block.legend:
        if mark in used:
            part = line((mark.sign, STYLES[mark.tone]), (f" {mark.words}", DIM))
            if lines and lines[-1].cell_len + part.cell_len + 3 <= page.width:
                lines[-1].append("   ").append_text(part)
            else:
                lines.append(line("  ", part))
    return lines


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
    for mark in row.marks if row else _NO_MARKS:
        made.append(mark.sign if mark else " ", style=STYLES[mark.tone] if mark else "")
    room = max(page.width - made.cell_len - 1 - (right + 2 if right else 0), 8)
    text = block.text[number - 1] if number <= len(block.text) else row.code if row else ""
    code = Text(clean(text[: 4 * page.width]).replace("\n", " ").rstrip(), style=STYLES[row.tone] if row else DIM)
    ids = _ids(row.ids) if row else ""
    code.truncate(room, overflow="ellipsis", pad=bool(ids))
    made.append(" ").append_text(code)
    return made.append(f"  {ids:>{right}}", style=DIM) if ids else made


_NO_MARKS: Sequence[Mark | None] = (None, None, None)


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
    told = paragraph(words, page.width, indent + len(head), STYLES[tone], note.limit)
    yield line((head, style), told[0][indent + len(head) :], indent=indent)
    yield from told[1:]
