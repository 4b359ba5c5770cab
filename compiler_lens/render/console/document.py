"""A Document as lines for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from compiler_lens.render.console import columns
from compiler_lens.render.console.code import code_lines
from compiler_lens.render.console.comparison import comparison_lines
from compiler_lens.render.console.page import (
    BAD,
    CODE,
    DIM,
    GOOD,
    PLACE,
    STYLES,
    Page,
    command,
    one_line_kept,
    paragraphs,
    title,
)
from compiler_lens.render.console.page import paragraph as folded
from compiler_lens.render.console.source import source_lines
from compiler_lens.render.figures import written
from compiler_lens.views.document import (
    Annotated,
    Aside,
    Block,
    Branch,
    Card,
    Change,
    Column,
    Columns,
    Command,
    Comparison,
    Document,
    Excerpt,
    Fields,
    Fold,
    Gap,
    KeyFigures,
    Lead,
    Line,
    Listing,
    Paragraph,
    Quoted,
    Section,
    Steps,
    Table,
    Tiles,
    Timeline,
    Tree,
    Verdict,
)
from compiler_lens.views.parts import (
    At,
    Cell,
    Compiled,
    Figure,
    File,
    KernelName,
    Kind,
    Part,
    Parts,
    Places,
    RecordingName,
    Span,
    Stacked,
    Tone,
    ToView,
    Web,
    sequence,
)
from compiler_lens.views.text import clean, plural

_TREE_STEP = 2
_FOLD_STEP = 2
_BAR = 24  # columns
_LONGEST = 4_000  # characters of a text
_LONGEST_SOURCE = 200  # of a line of source
_ROOMY = 100  # columns


def document_lines(document: Document, page: Page) -> list[Text]:
    """Return a document's lines; nothing in them can act on a terminal."""
    return block_lines(document.blocks, page)


def block_lines(blocks: Sequence[Block], page: Page, above: Sequence[Text] = ()) -> list[Text]:
    """Return the lines of blocks below those `above`, with room before a section."""
    lines = list(above)
    for block in blocks:
        if lines and isinstance(block, (Section, Gap)):
            lines.append(Text())
        lines += _block(block, page)
    return lines


def _block(block: Block, page: Page) -> list[Text]:  # noqa: C901, PLR0911, PLR0912 -- one for each type of block
    match block:
        case Gap():
            return []
        case Line():
            return [_line(block, page)]
        case Paragraph():
            text = text_of(block.parts, page)
            text.style = STYLES[block.tone]
            return folded(text, page.width, block.indent, limit=block.limit)
        case Quoted():
            return paragraphs(block.text, page.width, block.indent, STYLES[block.tone])
        case Command():
            typed = block.arguments if isinstance(block.arguments, str) else text_of(block.arguments, page).plain
            return [command(block.label, page.show(typed), block.indent)]
        case Table():
            return _table(block, page)
        case Fields():
            return _fields(block, page)
        case Excerpt():
            return _excerpt(block)
        case Change():
            return _change(block)
        case Listing():
            return code_lines(block.code, page, block.language)
        case Annotated():
            return source_lines(block, page)
        case Comparison():
            return comparison_lines(block, page.width)
        case Tree():
            return _branches(block.branches, block.indent, page)
        case Tiles():
            tiles = ((one.label, text_of((one.value,), page), one.note) for one in block.tiles)
            return columns.table([columns.Column(), columns.Column(), columns.Column()], list(tiles), page.width)
        case Lead():
            return block_lines(block.blocks, page)
        case Card():
            number = f"{block.number}. " if block.number and block.is_counted else ""
            head = Text.assemble((number, DIM), text_of((*block.head, *block.note), page), no_wrap=True)
            return [*folded(head, page.width, block.indent), *block_lines(block.blocks, page)]
        case Steps():
            return _steps(block, page)
        case Verdict():
            news = Text.assemble((block.news, f"bold {STYLES[block.tone]}"), text_of(block.rest, page))
            return folded(news, page.width, 0, limit=block.limit)
        case KeyFigures():
            return folded(text_of((*sequence(block.figures), "."), page), page.width, 0)
        case Columns():
            return block_lines(block.sections, page)
        case Aside():
            return block_lines(block.blocks, page)
        case Section():
            return block_lines(block.blocks, page, [title(block.title, block.summary)] if block.title else [])
        case Fold():
            head = Text(" " * block.indent, no_wrap=True).append_text(text_of(block.head, page))
            told = Text(" " * (block.indent + _FOLD_STEP) + block.summary, style=DIM, no_wrap=True)
            return block_lines(block.blocks, page, [head, told])
        case Timeline():
            return []


def text_of(parts: Parts, page: Page) -> Text:
    """Return parts as one text."""
    made = Text(no_wrap=True)
    for part in parts:
        tone = Tone.PLAIN if isinstance(part, str) else part.tone
        made.append(one_line_kept(_words(part, page), _LONGEST), style=STYLES[tone] or None)
    return made


def _words(part: Part, page: Page) -> str:  # noqa: C901, PLR0911 -- one for each type of part
    match part:
        case str():
            return part
        case Span(text=text):
            return text
        case At(place=place):
            return page.name(place) if part.short else page.at(place)
        case Places():
            return _places(part, page)
        case File(path=path):
            return page.path(path)
        case Compiled(compile_id=compile_id):
            return f"[{compile_id}]"
        case KernelName(name=name):
            return name
        case ToView(words=words):
            return words
        case Web(address=address):
            return address
        case RecordingName():
            return page.target
        case Figure(value=value, kind=kind):
            return ("~" if part.about else "") + written(value, kind)


def _places(part: Places, page: Page) -> str:
    most = part.most if page.width >= _ROOMY else part.narrow
    told: list[str] = []
    last = ""
    for at in part.places[:most]:
        told.append(str(at.line) if at.file == last else page.name(at))
        last = at.file
    more = len(part.places) - most
    return ", ".join(told) + (f" +{more:,}" if more > 0 else "")


def _line(block: Line, page: Page) -> Text:
    made = Text(" " * block.indent, no_wrap=True).append_text(text_of((*block.parts, *block.note), page))
    if block.whole:
        made.overflow = "ignore"
    return made


def _table(block: Table, page: Page) -> list[Text]:
    there = [(number, one) for number, one in enumerate(block.columns) if page.width >= one.room]
    looks = [
        columns.Column(_heading(one, page), one.kind.is_right, one.flexible, STYLES[one.tone], one.middle)
        for _, one in there
    ]
    longest = {number: _longest(block, number) for number, column in there if column.kind is Kind.BAR}
    shown = [
        [_cell(row[number], column, page, longest.get(number, 0.0)) for number, column in there]
        for row in block.rows[: block.most or None]
    ]
    lines = columns.table(looks, shown, page.width, block.indent) if shown else []
    if block.beneath:
        heads, lines = lines, lines[: len(lines) - len(shown)]
        for head, blocks in zip(heads[len(lines) :], block.beneath, strict=False):
            lines += [head, *block_lines(blocks, page)]
    more = len(block.rows) - len(shown)
    if more <= 0:
        return lines
    rest = plural(more, f"more {block.noun}") if block.noun else f"{more:,} more"
    return [*lines, Text(f"{' ' * block.indent}… {rest} in --json", style=DIM)]


def _longest(block: Table, number: int) -> float:
    return max((value for row in block.rows if isinstance(value := row[number], (int, float))), default=0.0)


def _heading(column: Column, page: Page) -> str:
    is_said = column.headless or column.kind in {Kind.TIMES, Kind.BAR}  # its cells say it
    name = column.short if column.short and page.width < _ROOMY else column.name
    return "" if is_said else name


def _cell(value: Cell, column: Column, page: Page, longest: float) -> str | Text:
    if isinstance(value, Stacked):
        value = value.upper
    if value is None or isinstance(value, str):
        return value or (column.missing if column.kind.is_figure else "")
    if isinstance(value, (int, float)):
        if column.kind is Kind.BAR:
            return Text("█" * round(_BAR * value / longest), style="blue") if longest else ""
        return written(value, column.kind)
    if isinstance(value, tuple):
        return text_of(value, page)
    made = text_of((value,), page)
    made.style = STYLES[column.tone]
    return made


def _fields(block: Fields, page: Page) -> list[Text]:
    lines: list[Text] = []
    start = block.indent + block.width
    for field in block.fields:
        own = block_lines(field.blocks, page)
        for number, one in enumerate(own):
            if number == 0:
                label = " " * block.indent, (f"{field.label:<{block.width}}", DIM)
                lines.append(Text.assemble(*label, one[start:], no_wrap=True))
            else:
                lines.append(one)
    return lines


def _steps(block: Steps, page: Page) -> list[Text]:
    lines: list[Text] = []
    for number, step in enumerate(block.steps, 1):
        first, *rest = block_lines(step.blocks, page)
        lines += [Text.assemble(f"{number}. ".rjust(block.indent), first[block.indent :], no_wrap=True), *rest]
    return lines


def _excerpt(block: Excerpt) -> list[Text]:
    digits = len(str(block.first + len(block.lines) - 1))
    lines: list[Text] = []
    for number, text in enumerate(block.lines, block.first):
        is_it = number == block.marked
        shown = clean(text[:_LONGEST_SOURCE]).rstrip()
        made = Text(f"    {'>' if is_it else ' '} {number:>{digits}} | ", style=PLACE if is_it else DIM, no_wrap=True)
        lines.append(made.append(shown, style=CODE if is_it else DIM))
        if is_it:
            start = len(shown) - len(shown.lstrip())
            marks = " " * start + "^" * len(shown.strip())
            lines.append(Text(f"      {' ' * digits} | {marks}", style=BAD, no_wrap=True))
    return lines


def _change(block: Change) -> list[Text]:
    """Code to write; what it stands for before it, both then with a sign."""
    room = " " * block.indent
    if not block.before:
        return [Text(room + clean(text), style=CODE, no_wrap=True) for text in block.after]
    removed = [Text(f"{room}- {clean(text)}", style=CODE, no_wrap=True) for text in block.before]
    return [*removed, *(Text(f"{room}+ {clean(text)}", style=GOOD, no_wrap=True) for text in block.after)]


def _branches(branches: Sequence[Branch], indent: int, page: Page) -> list[Text]:
    lines: list[Text] = []
    for branch in branches:
        text = text_of(branch.parts, page)
        if branch.limit == 1:
            lines.append(Text(" " * indent, no_wrap=True).append_text(text))
        else:
            lines += folded(text, page.width, indent, limit=branch.limit)
        lines += _branches(branch.children, indent + _TREE_STEP, page)
    return lines
