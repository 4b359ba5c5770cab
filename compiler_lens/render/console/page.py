"""From lines to text: everything that comes out here is clean, fits the width, and has colours only if asked for."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterable, Mapping
from shlex import quote
from typing import TYPE_CHECKING

from msgspec import Struct, field
from rich.cells import set_cell_size
from rich.color import ColorSystem
from rich.text import Text

from compiler_lens.recording.model import Recording
from compiler_lens.render.names import FileNames
from compiler_lens.views.parts import Tone
from compiler_lens.views.text import one_line

if TYPE_CHECKING:
    from rich.console import Console  # which takes as long to import as all else of rich

GOOD, WARN, BAD = "green", "yellow", "bold red"
PLACE, CODE, DIM = "bold", "cyan", "dim"

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
_PLAIN_WIDTH = 80  # of a file or a pipe, as terminals had it
_WIDEST = 140  # longer lines are hard to read

# What rich puts around the text; the colours are the notebook's own where we set none.
_PRE = '<pre style="line-height:1.3;white-space:pre;overflow-x:auto">{code}</pre>'


class Page(Struct, frozen=True):
    """What the lines of a view need to know of where they go."""

    width: int
    target: str = "REC"  # what to type after `compiler-lens VERB`
    verb: str = "show"
    options: str = ""  # and at the end
    color: bool = False
    names: FileNames = field(default_factory=FileNames)


def page_for(
    recording: Recording,
    *,
    width: int | None = None,
    color: bool | None = None,
    path: str = "REC",
    options: Iterable[str] = (),
) -> Page:
    """Return the page that a recording is shown on; what is not given is asked of standard output.

    `options` are those that it was read with: commands that the page suggests repeat them.
    """
    return page_of(FileNames.of(recording), width=width, color=color, path=path, options=options)


def page_of(
    names: FileNames, *, width: int | None, color: bool | None, path: str = "REC", options: Iterable[str] = ()
) -> Page:
    """Return a page on which files have these names; what is not given is asked of standard output.

    Its width is that of the terminal, or `COLUMNS`, or 80 where there is no terminal. It has colours if standard output
    is a terminal that shows them, and NO_COLOR is not set.
    """
    if width is None or not width:
        width = min(shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns, _WIDEST)
    if color is None:
        from rich.console import Console

        asked = Console(force_jupyter=False)  # rich knows the customs
        color = asked.is_terminal and not asked.no_color and not asked.is_dumb_terminal
    target = path if path in {"", "REC"} else quote(path)
    return Page(max(width, MIN_WIDTH), target, options=" ".join(map(quote, options)), color=color, names=names)


def line(*parts: Part, indent: int = 0) -> Text:
    """Return one line from parts; strings are cleaned, so that nothing in them can act."""
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
    """Return a text cleaned, on one line, with the spaces at its ends kept: they separate it from its neighbours."""
    inner = one_line(text, limit)
    head = " " * (len(text) - len(text.lstrip(" ")))
    return head + inner + (" " * (len(text) - len(text.rstrip(" "))) if inner else "")


def title(name: str, summary: str = "") -> Text:
    """Return the heading of a section."""
    return line((name, PLACE), (f"  {summary}" if summary else "", DIM))


def paragraph(text: str | Text, width: int, indent: int, style: str = "", limit: int = 0) -> list[Text]:
    """Return text folded to the width; with `limit`, no more lines than that, the last one cut."""
    body = text if isinstance(text, Text) else Text(one_line(text, 4000), style=style)
    room = max(width - indent, MIN_WIDTH // 2)
    lines = [body] if body else []
    if "\n" in body.plain or body.cell_len > room:
        # Only lines that are justified ask a console.
        lines = list(body.wrap(None, room, no_wrap=False, overflow="fold"))  # type: ignore[arg-type]
    for one in lines:
        one.rstrip()
    if limit and len(lines) > limit:
        rest = Text(" ").join(lines[limit - 1 :])
        rest.truncate(room, overflow="ellipsis")
        lines = [*lines[: limit - 1], rest]
    return [Text(" " * indent, no_wrap=True).append_text(part) for part in lines]


def render(lines: Iterable[Text], page: Page) -> str:
    """Return the finished text, each line ending in a newline."""
    made = []
    console = _terminal(page.width) if page.color else None
    for one in lines:
        text = one.plain
        if console is not None:
            fitting = one.copy()
            if one.overflow != "ignore" and one.cell_len > page.width:
                fitting.truncate(page.width - 1)
                fitting.rstrip()
                fitting.append("…")
            segments = fitting.render(console, end="")
            styled = [style.render(t, color_system=ColorSystem.STANDARD) if style else t for t, style, _ in segments]
            made.append("".join(styled))
        elif one.overflow == "ignore" or (len(text) <= page.width and text.isascii()) or one.cell_len <= page.width:
            made.append(text.rstrip())
        else:
            made.append(f"{set_cell_size(text, page.width - 1).rstrip()}…")
    return "".join(f"{one}\n" for one in made)


def html_of(lines: Iterable[Text], page: Page) -> str:
    """Return lines as escaped HTML with inline styles."""
    console = _terminal(page.width)
    console.record = True
    for one in lines:
        console.print(one, overflow="ellipsis", no_wrap=True, crop=False)
    return console.export_html(inline_styles=True, code_format=_PRE)


def _terminal(width: int) -> Console:
    """A console that writes colours, whatever the environment says: that was decided before."""
    from rich.console import Console

    return Console(
        file=io.StringIO(), width=width, force_terminal=True, color_system="standard", legacy_windows=False,
        _environ={}, markup=False, emoji=False, highlight=False,
    )  # fmt: skip
