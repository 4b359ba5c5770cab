"""Tables as lines: columns side by side, the flexible ones giving way where the page is narrow."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from rich.text import Text

from compiler_lens.render.console.page import DIM, MIN_WIDTH
from compiler_lens.views.text import one_line

_GAP = 2
_NARROWEST = 8


class Column(Struct, frozen=True):
    """How one column of a table looks."""

    header: str = ""
    right: bool = False  # numbers stand below one another
    flexible: bool = False  # may be cut
    style: str = ""
    middle: bool = False  # is cut in the middle: what tells names apart stands at their end


def table(columns: Sequence[Column], rows: Sequence[Sequence[str | Text]], width: int, indent: int = 2) -> list[Text]:
    """The rows as lines no longer than `width`, below a line of headers if there are any."""
    cells = [[_cell(value, column) for value, column in zip(row, columns, strict=True)] for row in rows]
    used = [any(cell.plain for cell in column) for column in zip(*cells, strict=True)]
    kept = [i for i, some in enumerate(used) if some]
    columns = [columns[i] for i in kept]
    cells = [[row[i] for i in kept] for row in cells]
    if any(column.header for column in columns):
        cells = [[Text(column.header, style=DIM) for column in columns], *cells]
    widths = _widths(columns, cells, max(width, MIN_WIDTH) - indent)
    return [_line(row, columns, widths, indent) for row in cells]


def _cell(value: str | Text, column: Column) -> Text:
    return value.copy() if isinstance(value, Text) else Text(one_line(value), style=column.style)


def _widths(columns: Sequence[Column], rows: Sequence[Sequence[Text]], room: int) -> list[int]:
    widths = [max((row[i].cell_len for row in rows), default=0) for i in range(len(columns))]
    over = sum(widths) + _GAP * (len(columns) - 1) - room
    flexible = [i for i, column in enumerate(columns) if column.flexible]
    while over > 0 and flexible:
        widest = max(flexible, key=lambda i: widths[i])
        others = [widths[i] for i in flexible if i != widest]
        # down to the next widest at most, so that all wide columns shrink together
        step = max(1, min(over, widths[widest] - max([*others, _NARROWEST])))
        if widths[widest] <= _NARROWEST:
            break
        widths[widest] -= step
        over -= step
    return widths


def _cut(cell: Text, width: int, middle: bool) -> Text:
    if middle and cell.cell_len > width:
        tail = width // 3
        cell = Text.assemble(cell[: width - tail - 1], "…", cell[-tail:])
    cell.truncate(width, overflow="ellipsis")
    return cell


def _line(row: Sequence[Text], columns: Sequence[Column], widths: Sequence[int], indent: int) -> Text:
    made = Text(" " * indent, no_wrap=True)
    for i, (whole, column, width) in enumerate(zip(row, columns, widths, strict=True)):
        cell = _cut(whole, width, column.middle)
        fill = " " * (width - cell.cell_len)
        made.append(" " * _GAP if i else "")
        made.append(fill if column.right else "")
        made.append_text(cell)
        made.append("" if column.right else fill)
    made.rstrip()
    return made
