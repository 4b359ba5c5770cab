"""A page for a recording: how wide, with colours or not, and how its files are called."""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from compiler_lens.recording.model import Recording
from compiler_lens.render.console.page import MIN_WIDTH, Page, terminal
from compiler_lens.render.names import FileNames

_PLAIN_WIDTH = 80  # of a file or a pipe, as terminals had it
_WIDEST = 140  # longer lines are hard to read

# What rich puts around the text; the colours are the notebook's own where we set none.
_PRE = '<pre style="line-height:1.3;white-space:pre;overflow-x:auto">{code}</pre>'


def page_for(recording: Recording, *, width: int | None = None, color: bool | None = None, path: str = "REC") -> Page:
    """The page that a recording is shown on; what is not given is asked of standard output."""
    return Page(
        width=max(width, MIN_WIDTH) if width else terminal_width(),
        target=_quoted(path),
        color=wants_color() if color is None else color,
        names=FileNames.of(recording),
    )


def terminal_width() -> int:
    """Columns of the terminal, `COLUMNS` if that is set, 80 where there is no terminal."""
    return max(MIN_WIDTH, min(shutil.get_terminal_size((_PLAIN_WIDTH, 24)).columns, _WIDEST))


def wants_color() -> bool:
    """Whether standard output is a terminal that shows colours, and NO_COLOR is not set; rich knows the customs."""
    asked = Console(force_jupyter=False)
    return asked.is_terminal and not asked.no_color and not asked.is_dumb_terminal


def html_of(lines: Iterable[Text], page: Page) -> str:
    """The lines as escaped HTML with inline styles."""
    console = terminal(page.width)
    console.record = True
    for one in lines:
        console.print(one, overflow="ellipsis", no_wrap=True, crop=False)
    return console.export_html(inline_styles=True, code_format=_PRE)


def _quoted(path: str) -> str:
    from shlex import quote

    return path if path in {"", "REC"} else quote(path)
