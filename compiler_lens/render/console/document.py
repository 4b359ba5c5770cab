"""A Document as lines for a terminal; nothing in them can act on it."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from rich.cells import cell_len
from rich.text import Text

from compiler_lens.render.console import code
from compiler_lens.render.console.page import DIM, MIN_WIDTH, PLACE, STYLES, Page, line, one_line_kept, paragraph, title
from compiler_lens.render.figures import written
from compiler_lens.views import document as doc
from compiler_lens.views import parts
from compiler_lens.views.parts import Kind, Tone
from compiler_lens.views.text import clean, one_line, plural

_TREE_STEP = 2
_FOLD_STEP = 2
_BAR = 24  # columns
_LONGEST = 4_000  # characters of a text
_ROOMY = 100  # columns
_GAP = 2
_SPACE = re.compile(r"\s+")
# After which the code in a cell may go on below; the latter within a name, where a line would else be half empty.
_JOINT = re.compile(r"[.(,](?!\s)")
_WITHIN_A_NAME = re.compile(r"_")
_NARROWEST = 8  # columns of a column that gives way


def block_lines(blocks: Sequence[doc.Block], page: Page, above: Sequence[Text] = ()) -> list[Text]:
    """Return the lines of blocks below those `above`, with room before a section."""
    lines = list(above)
    for block in blocks:
        if lines and isinstance(block, (doc.Section, doc.Gap)):
            lines.append(Text())
        lines += _block(block, page)
    return lines


def _block(block: doc.Block, page: Page) -> list[Text]:  # noqa: C901, PLR0911, PLR0912 -- one for each type of block
    match block:
        case doc.Gap() | doc.Timeline():
            return []
        case doc.Line():
            made = Text(" " * block.indent, no_wrap=True).append_text(text_of((*block.parts, *block.note), page))
            made.overflow = "ignore" if block.whole else None
            return [made]
        case doc.Paragraph():
            text = text_of(block.parts, page)
            text.style = STYLES[block.tone]
            return paragraph(text, page.width, block.indent, limit=block.limit)
        case doc.Quoted():
            return _quoted(block, page)
        case doc.Command():
            typed = block.arguments if isinstance(block.arguments, str) else text_of(block.arguments, page).plain
            options = "" if block.verb else page.options  # another command has others
            command = " ".join(filter(None, ("compiler-lens", block.verb or page.verb, page.target, typed, options)))
            made = line((block.label, DIM), (command, PLACE), indent=block.indent)
            made.overflow = "ignore"  # never cut, however long the recording's path is
            return [made]
        case doc.Table():
            return _table(block, page)
        case doc.Fields():
            return _fields(block, page)
        case doc.Excerpt():
            return code.excerpt_lines(block)
        case doc.Change():
            return code.change_lines(block)
        case doc.Listing():
            return code.code_lines(block.code, page, block.language)
        case doc.Annotated():
            return code.source_lines(block, page)
        case doc.Comparison():
            return list(code.comparison_lines(block.before, block.after, page.width))
        case doc.Tree():
            return _branches(block.branches, block.indent, page)
        case doc.Tiles():
            rows = tuple((one.label, one.value, one.note) for one in block.tiles)
            return _table(doc.Table((doc.Column(), doc.Column(), doc.Column()), rows), page)
        case doc.Card():
            number = f"{block.number}. " if block.number and block.is_counted else ""
            head = Text.assemble((number, DIM), text_of((*block.head, *block.note), page), no_wrap=True)
            return [*paragraph(head, page.width, block.indent), *block_lines(block.blocks, page)]
        case doc.Steps():
            return _steps(block, page)
        case doc.Verdict():
            news = Text.assemble((block.news, f"bold {STYLES[block.tone]}"), text_of(block.rest, page))
            return paragraph(news, page.width, 0, limit=block.limit)
        case doc.KeyFigures():
            return paragraph(text_of((*parts.sequence(block.figures), "."), page), page.width, 0)
        case doc.Columns():
            return block_lines(block.sections, page)
        case doc.Lead() | doc.Aside():
            return block_lines(block.blocks, page)
        case doc.Section():
            return block_lines(block.blocks, page, [title(block.title, block.summary)] if block.title else [])
        case doc.Fold():
            head = Text(" " * block.indent, no_wrap=True).append_text(text_of(block.head, page))
            told = Text(" " * (block.indent + _FOLD_STEP) + block.summary, style=DIM, no_wrap=True)
            return block_lines(block.blocks, page, [head, told])


def text_of(given: parts.Parts, page: Page) -> Text:
    """Return parts as one text."""
    made = Text(no_wrap=True)
    for part in given:
        tone = Tone.PLAIN if isinstance(part, str) else part.tone
        made.append(one_line_kept(_words(part, page), _LONGEST), style=STYLES[tone] or None)
    return made


def _words(part: parts.Part, page: Page) -> str:  # noqa: C901, PLR0911 -- one for each type of part
    match part:
        case str():
            return part
        case parts.Span(text=text):
            return text
        case parts.At(place=place):
            return page.names.short_at(place) if part.short else page.names.at(place)
        case parts.Places(places=places):
            most = part.most if page.width >= _ROOMY else part.narrow
            told = [page.names.short_at(at) for at in places[:1]]
            for before, at in itertools.pairwise(places[:most]):
                told.append(str(at.line) if at.file == before.file else page.names.short_at(at))
            more = len(places) - most
            return ", ".join(told) + (f" +{more:,}" if more > 0 else "")
        case parts.File(path=path):
            return page.names.file(path)
        case parts.Compiled(compile_id=compile_id):
            return f"[{compile_id}]"
        case parts.KernelName(name=name):
            return name
        case parts.ToView(words=words):
            return words
        case parts.Web(address=address):
            return address
        case parts.RecordingName():
            return page.target
        case parts.Figure(value=value, kind=kind):
            return ("~" if part.about else "") + written(value, kind)


def _quoted(block: doc.Quoted, page: Page) -> list[Text]:
    """Each line folded to the width, with its own indentation kept."""
    lines: list[Text] = []
    for raw in clean(block.text[:20_000]).splitlines():
        body = raw.lstrip()
        lines += paragraph(body, page.width, block.indent + min(len(raw) - len(body), 8), STYLES[block.tone])
    return lines


def _table(block: doc.Table, page: Page) -> list[Text]:
    """Columns side by side, the flexible ones giving way where the page is narrow."""
    rows = block.rows[: block.most or None]
    columns: list[doc.Column] = []
    cells: list[list[Text]] = []  # of each column, below its heading
    for number, column in enumerate(block.columns):
        longest = 0.0
        if column.kind is Kind.BAR:
            longest = max((v for row in block.rows if isinstance(v := row[number], (int, float))), default=0.0)
        made = [_cell(row[number], column, page, longest) for row in rows] if page.width >= column.room else []
        if any(cell.plain for cell in made):
            columns.append(column)
            name = column.short if column.short and page.width < _ROOMY else column.name
            is_said = column.headless or column.kind in {Kind.TIMES, Kind.BAR}  # its cells say it
            cells.append([Text("" if is_said else name, style=DIM), *made])
    if not any(column[0].plain for column in cells):
        cells = [column[1:] for column in cells]
    widths = [max(cell.cell_len for cell in column) for column in cells]
    _give_way(widths, [i for i, one in enumerate(columns) if one.flexible], max(page.width, MIN_WIDTH) - block.indent)
    shown = [_folded(row, columns, widths, block.indent) for row in zip(*cells, strict=True)]
    begin = len(shown) - len(rows)  # a heading, or none
    lines = [line for row in shown[:begin] for line in row]
    for number, row in enumerate(shown[begin:]):
        lines += [*row, *block_lines(block.beneath[number] if number < len(block.beneath) else (), page)]
    more = len(block.rows) - len(rows)
    if more > 0:
        rest = plural(more, f"more {block.noun}") if block.noun else f"{more:,} more"
        lines.append(Text(f"{' ' * block.indent}… {rest} in --json", style=DIM))
    return lines


def _cell(value: parts.Cell, column: doc.Column, page: Page, longest: float) -> Text:
    if isinstance(value, parts.Stacked):
        value = value.upper
    if isinstance(value, tuple):
        return text_of(value, page)
    if value is None or isinstance(value, str):
        told = value or (column.missing if column.kind.is_figure else "")
    elif isinstance(value, (int, float)):
        if column.kind is Kind.BAR:
            return Text("█" * round(_BAR * value / longest), style="blue") if longest else Text()
        told = written(value, column.kind)
    else:
        made = text_of((value,), page)
        made.style = STYLES[column.tone]
        return made
    return Text(one_line(told), style=STYLES[column.tone])


def _give_way(widths: list[int], flexible: Sequence[int], room: int) -> None:
    """Make the widest of the flexible columns narrower, until all have room or none can be narrower."""
    over = sum(widths) + _GAP * (len(widths) - 1) - room
    while over > 0 and flexible:
        widest = max(flexible, key=lambda i: widths[i])
        if widths[widest] <= _NARROWEST:
            break
        others = [widths[i] for i in flexible if i != widest]
        # down to the next widest at most, so that all wide columns shrink together
        step = max(1, min(over, widths[widest] - max([*others, _NARROWEST])))
        widths[widest] -= step
        over -= step


def _folded(cells: Sequence[Text], columns: Sequence[doc.Column], widths: Sequence[int], indent: int) -> list[Text]:
    """Return a row, and below it what goes on of cells that fold, a little further in."""
    parts = [
        _wrapped(cell, width) if column.folds and cell.cell_len > width else [cell]
        for cell, column, width in zip(cells, columns, widths, strict=True)
    ]
    rows = itertools.zip_longest(*parts, fillvalue=Text())
    return [_row(row, columns, widths, indent) for row in rows]


def _wrapped(cell: Text, width: int) -> list[Text]:
    lines: list[Text] = []
    room = width
    while cell:
        end = len(cell) if cell.cell_len <= room else _fitting(cell.plain, room)
        lines.append(Text.assemble(" " * _FOLD_STEP if lines else "", cell[:end]))
        lines[-1].rstrip()
        rest = cell.plain[end:]
        cell, room = cell[end + len(rest) - len(rest.lstrip()) :], max(width - _FOLD_STEP, 1)
    return lines


def _fitting(text: str, room: int) -> int:
    """Return how many characters of a text go into a line: up to a space, or to where a name has a joint."""
    most = next(n for n in range(len(text), 0, -1) if n == 1 or cell_len(text[:n]) <= room)
    if text[most].isspace():
        return most
    start, joint, within = (
        max((found.end() for found in at.finditer(text, 0, most)), default=0) for at in (_SPACE, _JOINT, _WITHIN_A_NAME)
    )
    word = text[start:].split(maxsplit=1)[0]
    if start and cell_len(word) <= room - _FOLD_STEP:  # it fits into the next line whole
        return start
    joint = max(start, joint)
    return max(joint, within) or most if joint < most / 2 else joint


def _row(cells: Sequence[Text], columns: Sequence[doc.Column], widths: Sequence[int], indent: int) -> Text:
    made = Text(" " * indent, no_wrap=True)
    for i, (whole, column, width) in enumerate(zip(cells, columns, widths, strict=True)):
        cell, tail = whole, width // 3
        if column.middle and cell.cell_len > width:
            cell = Text.assemble(cell[: width - tail - 1], "…", cell[-tail:])
        cell.truncate(width, overflow="ellipsis")
        fill = " " * (width - cell.cell_len)
        made.append(" " * _GAP if i else "")
        made.append(fill if column.kind.is_right else "")
        made.append_text(cell)
        made.append("" if column.kind.is_right else fill)
    made.rstrip()
    return made


def _fields(block: doc.Fields, page: Page) -> list[Text]:
    lines: list[Text] = []
    for field in block.fields:
        own = block_lines(field.blocks, page)
        if own:
            label = " " * block.indent, (f"{field.label:<{block.width}}", DIM)
            own[0] = Text.assemble(*label, own[0][block.indent + block.width :], no_wrap=True)
        lines += own
    return lines


def _steps(block: doc.Steps, page: Page) -> list[Text]:
    lines: list[Text] = []
    for number, step in enumerate(block.steps, 1):
        first, *rest = block_lines(step.blocks, page)
        lines += [Text.assemble(f"{number}. ".rjust(block.indent), first[block.indent :], no_wrap=True), *rest]
    return lines


def _branches(branches: Sequence[doc.Branch], indent: int, page: Page) -> list[Text]:
    lines: list[Text] = []
    for branch in branches:
        text = text_of(branch.parts, page)
        if branch.limit == 1:
            lines.append(Text(" " * indent, no_wrap=True).append_text(text))
        else:
            lines += paragraph(text, page.width, indent, limit=branch.limit)
        lines += _branches(branch.children, indent + _TREE_STEP, page)
    return lines
