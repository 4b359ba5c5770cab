"""From lines to text: everything that comes out here is clean, fits the width, and has colours only if asked for."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct, field
from rich.cells import set_cell_size
from rich.color import ColorSystem
from rich.console import Console
from rich.text import Text

from compiler_lens.render.names import FileNames
from compiler_lens.views.parts import Located, Tone
from compiler_lens.views.text import clean, one_line

GOOD, WARN, BAD = "green", "yellow", "bold red"
TITLE, PLACE, CODE, DIM = "bold", "bold", "cyan", "dim"

STYLES: Mapping[Tone, str] = {
    Tone.PLAIN: "",
    Tone.STRONG: PLACE,
    Tone.QUIET: DIM,
    Tone.CODE: CODE,
    Tone.GOOD: GOOD,
    Tone.WARN: WARN,
    Tone.BAD: BAD,
    Tone.DO: GOOD,
}

Part = str | tuple[str, str] | Text  # text, text with a style, or text that is clean and styled already

MIN_WIDTH = 40


class Page(Struct, frozen=True):
    """What the lines of a view need to know of where they go."""

    width: int
    target: str = "REC"  # what to type after `compiler-lens VERB`
    verb: str = "show"
    color: bool = False
    names: FileNames = field(default_factory=FileNames)

    def at(self, place: Located) -> str:
        """`model.py:41`, the file as short as it is clear."""
        return self.names.at(place)

    def name(self, place: Located) -> str:
        """`model.py:41`, without the package of a package's file: where there is little room."""
        return self.names.short_at(place)

    def path(self, file: str) -> str:
        """A file as short as it is clear; a file of a package by its package."""
        return self.names.file(file)

    def show(self, rest: str = "") -> str:
        """The command that shows more."""
        return f"compiler-lens {self.verb} {self.target} {rest}".rstrip()


def line(*parts: Part, indent: int = 0) -> Text:
    """One line from parts; strings are cleaned, so that nothing in them can act."""
    made = Text(" " * indent, no_wrap=True)
    for part in parts:
        if isinstance(part, Text):
            made.append_text(part)
        elif isinstance(part, tuple):
            made.append(one_line_kept(part[0]), style=part[1])
        else:
            made.append(one_line_kept(part))
    return made


def one_line_kept(text: str, limit: int = 400) -> str:
    """Cleaned, on one line, with the spaces at its ends kept: they separate it from its neighbours."""
    inner = one_line(text, limit)
    head = " " * (len(text) - len(text.lstrip(" ")))
    return head + inner + (" " * (len(text) - len(text.rstrip(" "))) if inner else "")


def title(name: str, summary: str = "") -> Text:
    """The heading of a section."""
    return line((name, TITLE), (f"  {summary}" if summary else "", DIM))


def command(told: str, typed: str, indent: int = 2) -> Text:
    """A line with something to type: never cut, however long the recording's path is."""
    made = line((told, DIM), (typed, PLACE), indent=indent)
    made.overflow = "ignore"
    return made


def paragraph(text: str | Text, width: int, indent: int, style: str = "", limit: int = 0) -> list[Text]:
    """Text folded to the width; with `limit`, no more lines than that, the last one cut."""
    body = text if isinstance(text, Text) else Text(one_line(text, 4000), style=style)
    room = max(width - indent, MIN_WIDTH // 2)
    if body and "\n" not in body.plain and body.cell_len <= room:
        made = Text(" " * indent, no_wrap=True).append_text(body)
        made.rstrip()
        return [made]
    console = Console(width=room, file=io.StringIO(), _environ={})
    lines = list(body.wrap(console, room, no_wrap=False, overflow="fold")) if body else []
    for one in lines:
        one.rstrip()
    if limit and len(lines) > limit:
        rest = Text(" ").join(lines[limit - 1 :])
        rest.truncate(room, overflow="ellipsis")
        lines = [*lines[: limit - 1], rest]
    return [Text(" " * indent, no_wrap=True).append_text(part) for part in lines]


def paragraphs(text: str, width: int, indent: int, style: str = "") -> list[Text]:
    """Text of several lines, each folded to the width with its own indentation kept."""
    made: list[Text] = []
    for raw in clean(text[:20_000]).splitlines():
        body = raw.lstrip()
        made += paragraph(body, width, indent + min(len(raw) - len(body), 8), style)
    return made


def render(lines: Iterable[Text], page: Page) -> str:
    """The finished text, each line ending in a newline."""
    if not page.color:
        return "".join(_plain(one, page.width) + "\n" for one in lines)
    console = terminal(page.width)
    return "".join(_coloured(one, page.width, console) + "\n" for one in lines)


def terminal(width: int) -> Console:
    """A console that writes colours, whatever the environment says: that was decided before."""
    return Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system="standard", legacy_windows=False,
        _environ={}, markup=False, emoji=False, highlight=False,
    )  # fmt: skip


def _coloured(one: Text, width: int, console: Console) -> str:
    if one.overflow != "ignore":
        one = one.copy()
        one.truncate(width, overflow="ellipsis")
    parts = one.render(console, end="")
    return "".join(style.render(text, color_system=ColorSystem.STANDARD) if style else text for text, style, _ in parts)


def _plain(one: Text, width: int) -> str:
    text = one.plain
    if one.overflow == "ignore" or (len(text) <= width and text.isascii()) or one.cell_len <= width:
        return text.rstrip()
    return set_cell_size(text, width - 1).rstrip() + "…"


def joined(items: Sequence[str], most: int) -> str:
    """`a, b, c, …`: no more than `most` of them."""
    return ", ".join(items[:most]) + (", …" if len(items) > most else "")
