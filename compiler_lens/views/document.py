"""What a view says, before anybody decides how it looks.

A view is a function from facts to a `Document`; a renderer is a function from a `Document` to text, to a part of a
page or to JSON. A value stands here as what it is, with its kind: a renderer formats it. A link says what it points to,
never an address.

In texts, backticks mark code. All texts may come from somebody else: renderers clean them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from msgspec import Struct, field

from compiler_lens.recording.model import CompileId
from compiler_lens.views.parts import Cell, Kind, Part, Parts, Span, Tone, ToView

Row = TypeVar("Row")

# -- blocks


class Line(Struct, frozen=True):
    """One line, cut where there is no room."""

    parts: Parts
    indent: int = 0  # columns
    whole: bool = False  # never cut: something to type or to ask for
    note: Parts = ()  # at the end of the line


class Paragraph(Struct, frozen=True):
    """Text that is folded to the width."""

    parts: Parts
    indent: int = 0
    tone: Tone = Tone.PLAIN  # of what has none of its own
    limit: int = 0  # lines; 0: as many as it takes


class Quoted(Struct, frozen=True):
    """Somebody else's text: its lines stay apart, and keep their indentation."""

    text: str
    indent: int = 0
    tone: Tone = Tone.PLAIN


class Gap(Struct, frozen=True):
    """Room between two blocks."""


class Command(Struct, frozen=True):
    """What to type for more, after `compiler-lens show REC`."""

    label: str
    arguments: str | Parts
    indent: int = 2
    verb: str = ""  # in place of `show`: another command that takes the recording


class Column(Struct, frozen=True):
    """One column of a table."""

    name: str = ""
    kind: Kind = Kind.TEXT
    tone: Tone = Tone.PLAIN
    flexible: bool = False  # may be cut
    folds: bool = False  # goes on below in place of being cut: what tells its cells apart may stand anywhere
    middle: bool = False  # is cut in the middle: what tells names apart stands at their end
    choice: bool = False  # has few values: readers may choose one
    headless: bool = False  # its name is left out where the cells speak for themselves
    missing: str = ""  # what stands where a figure is not known
    beneath: str = ""  # the name of what stands beneath in its cells
    short: str = ""  # its name where there is little room
    unseen: str = ""  # its name for who hears the table, where others need none
    room: int = 0  # columns of the terminal from which on there is room for it


class Table(Struct, frozen=True):
    """Rows of cells; a column that is empty in every row is left out."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    indent: int = 2
    title: str = ""  # its name where tables can be told apart only by it
    most: int = 0  # rows to show where there is little room; 0: all
    noun: str = ""  # what a row is, for what is said of the rest
    is_short: bool = False  # a few rows to read, not to search
    beneath: tuple[tuple[Block, ...], ...] = ()  # what stands below each row


class Field(Struct, frozen=True):
    """A label, and what stands beside it."""

    label: str
    blocks: tuple[Block, ...]
    is_action: bool = False  # what to do: first in a page


class Fields(Struct, frozen=True):
    """Fields below one another."""

    fields: tuple[Field, ...]
    indent: int = 4
    width: int = 9  # of the labels, columns


class Excerpt(Struct, frozen=True):
    """Lines of a file around one."""

    lines: tuple[str, ...]
    first: int  # number of the first of them
    marked: int = 0  # the line it is about
    columns: tuple[int, int] | None = None  # of what it is about in that line; None: all of it


class Change(Struct, frozen=True):
    """Code to write, and what it stands for; with no `before`, only code."""

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    indent: int = 15


class Listing(Struct, frozen=True):
    """Code, whole."""

    code: str
    language: str = "python"


class Mark(Struct, frozen=True):
    """A sign beside a line of source."""

    sign: str
    tone: Tone
    words: str


class LineNote(Struct, frozen=True):
    """What is to be said below a line of source."""

    mark: Mark
    column: int  # of the marks, from 0
    head: ToView
    between: str  # of the head and the words
    words: str | Span
    limit: int = 1  # lines


class KernelPart(Struct, frozen=True):
    """A kernel that works for a line, and how much of it does."""

    index: int  # in `Recording.kernels`
    backward: bool
    launches: str  # how many of its launches; empty where it has one
    share: str  # of their ops
    microseconds: float | None  # in one call


class SourceStory(Struct, frozen=True):
    """What stands beside a line that a reader chooses."""

    above: tuple[Block, ...]
    kernels: tuple[KernelPart, ...]  # the slowest first
    below: tuple[Block, ...]


class SourceRow(Struct, frozen=True):
    """A line of source of which something is known."""

    code: str  # where the file's text is not known
    marks: tuple[Mark | None, ...]
    ids: tuple[CompileId, ...]  # of the graphs that it is in
    tone: Tone
    notes: tuple[LineNote, ...]
    story: SourceStory | None = None


class Annotated(Struct, frozen=True):
    """A file line by line, with marks beside its lines and notes below them."""

    file: str
    summary: str
    text: tuple[str, ...]  # every line; empty: not known
    rows: Mapping[int, SourceRow]
    legend: tuple[Mark, ...]  # all marks that there are
    bounds: tuple[int, int] = (0, 0)  # the first and the last line of what was asked for; 0: none of it is known
    shown: tuple[int, ...] = ()  # those lines of it that stand there where there is little room
    names: Mapping[int, str] = field(default_factory=dict)  # of functions, by their first lines
    breaks: int = 0


class Comparison(Struct, frozen=True):
    """Two texts line by line, of which one stands for the other."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    language: str = "python"


class Branch(Struct, frozen=True):
    """A part of a tree."""

    parts: Parts
    children: tuple[Branch, ...] = ()
    limit: int = 0  # lines


class Tree(Struct, frozen=True):
    """What stands below what."""

    branches: tuple[Branch, ...]
    indent: int = 2
    is_counted: bool = False  # in an order that matters: numbered, where there is room


class Tile(Struct, frozen=True):
    """A figure that matters, with a word on it."""

    label: str
    value: Part
    note: str = ""


class Tiles(Struct, frozen=True):
    """Figures side by side."""

    tiles: tuple[Tile, ...]


class Lead(Struct, frozen=True):
    """What is said before a table, set apart from it."""

    blocks: tuple[Block, ...]


class Card(Struct, frozen=True):
    """One of several things of a kind, which other views lead to by its number; without one, a part of such a thing."""

    number: int
    head: Parts
    blocks: tuple[Block, ...]
    indent: int = 2
    note: Parts = ()  # goes on after the head
    is_counted: bool = True  # its number is shown


class Step(Struct, frozen=True):
    """Something to do, or to know."""

    blocks: tuple[Block, ...]
    tone: Tone = Tone.PLAIN  # how much it matters


class Steps(Struct, frozen=True):
    """What to do first, second and so on."""

    steps: tuple[Step, ...]
    is_counted: bool = True
    indent: int = 5  # of the blocks: their numbers stand before that


class Verdict(Struct, frozen=True):
    """What is to be said in one sentence, the news first."""

    news: str
    rest: Parts
    tone: Tone
    limit: int = 4  # lines


class KeyFigures(Struct, frozen=True):
    """What can be counted, beside one another."""

    figures: tuple[Part, ...]


class Columns(Struct, frozen=True):
    """Sections beside one another where there is room."""

    sections: tuple[Section, ...]


class Aside(Struct, frozen=True):
    """What only some readers want to see: a page folds it below its title."""

    title: str
    blocks: tuple[Block, ...]


class Fold(Struct, frozen=True):
    """What is opened one at a time where there can be many."""

    head: Parts
    summary: str
    blocks: tuple[Block, ...]
    indent: int = 2


class Bar(Struct, frozen=True):
    """A compilation in a timeline."""

    compile_id: CompileId
    name: str
    seconds: float | None
    parts: tuple[float, ...]  # seconds by phase
    graph_breaks: int
    is_recompile: bool


class Timeline(Struct, frozen=True):
    """The whole run, drawn: its compilations in order, as wide as they took long."""

    phases: tuple[str, ...]
    bars: tuple[Bar, ...]


class Section(Struct, frozen=True):
    """Blocks below a heading; without a title only room before them."""

    title: str
    blocks: tuple[Block, ...]
    summary: str = ""


Block = (
    Line | Paragraph | Quoted | Gap | Command | Table | Fields | Excerpt | Change | Listing | Annotated | Comparison
    | Tree | Tiles | Lead | Card | Fold | Timeline | Steps | Verdict | KeyFigures | Columns | Aside | Section
)  # fmt: skip


class Document(Struct, frozen=True):
    """What a view says of a recording.

    `data` has the same facts for programs: a frozen `Struct` whose type gives the JSON Schema of the view.
    """

    blocks: tuple[Block, ...]
    data: Any
    count: int | None = None  # how much there is, for a menu; 0: nothing to show; None: not counted


def line(*parts: Part, indent: int = 0, whole: bool = False) -> Line:
    """Make a line of parts, leaving out what is empty."""
    return Line(tuple(part for part in parts if part != ""), indent, whole)


def paragraph(*parts: Part, indent: int = 0, tone: Tone = Tone.PLAIN, limit: int = 0) -> Paragraph:
    """Make a paragraph of parts, leaving out what is empty."""
    return Paragraph(tuple(part for part in parts if part != ""), indent, tone, limit)


def table(
    rows: Iterable[Row], *columns: tuple[Column, Callable[[Row], Cell]], indent: int = 2, most: int = 0, noun: str = ""
) -> Table:
    """Make a table with a line for each of *rows*: each column beside the function that returns its cell."""
    cells = tuple(tuple(cell(row) for _, cell in columns) for row in rows)
    return Table(tuple(column for column, _ in columns), cells, indent, most=most, noun=noun)
