"""Recordings as text for a terminal, and the same for a notebook."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from compiler_lens.facts.program.select import EVERYTHING, Selection
from compiler_lens.recording.model import Recording

if TYPE_CHECKING:
    from rich.text import Text

    from compiler_lens.facts.program.ownership import UserPaths
    from compiler_lens.render.console.page import Page

__all__ = ["html_fragment", "profile_report", "report", "view"]

_SCREEN = 60  # lines


def _import_rich() -> None:
    """It draws a random number when it is imported: the program must not draw others because of a report."""
    before = random.getstate()
    import rich.style  # noqa: F401

    random.setstate(before)


_import_rich()


def report(
    recording: Recording,
    *,
    width: int | None = None,
    color: bool | None = None,
    path: str = "REC",
    user_paths: UserPaths = (),
) -> str:
    """One screen that says what was compiled, what was not, and what to do next.

    `width` and `color` default to what standard output can show; `path` is the recording's file, for the commands
    that the report suggests; `user_paths` are the user's own besides what is not installed.
    """
    from compiler_lens.render.console.open_page import page_for
    from compiler_lens.render.console.page import render

    page = page_for(recording, width=width, color=color, path=path)
    return render(_first_screen(recording, page, user_paths), page)


def view(recording: Recording, name: str, page: Page, selection: Selection = EVERYTHING) -> str:
    """One of the views behind the report, whole or of a part of the recording."""
    from compiler_lens.render.console.document import document_lines
    from compiler_lens.render.console.page import render
    from compiler_lens.views.registry import checked_view

    return render(document_lines(checked_view(name).document(recording, selection), page), page)


def profile_report(
    recording: Recording, *, width: int | None = None, color: bool | None = None, path: str = "", part: str = ""
) -> str:
    """Return the last profile of a recording as text, or a part of it by name.

    `path` is where it can be asked for more, if it is in a file. Raises `UsageError` where there is no such part.
    """
    from compiler_lens.facts.program.select import select_launches
    from compiler_lens.render.console.document import document_lines
    from compiler_lens.render.console.open_page import page_for
    from compiler_lens.render.console.page import render
    from compiler_lens.views.profile import document

    page = page_for(recording, width=width, color=color, path=path)
    selection = select_launches(recording, part) if part else EVERYTHING
    return render(document_lines(document(recording, selection, kept=bool(path)), page), page)


def html_fragment(recording: Recording) -> str:
    """The report as a piece of HTML, for a notebook's `_repr_html_`."""
    from compiler_lens.render.console.open_page import html_of, page_for

    page = page_for(recording, width=100, color=True, path="REC")
    return html_of(_first_screen(recording, page), page)


def _first_screen(recording: Recording, page: Page, user_paths: UserPaths = ()) -> list[Text]:
    """The report, with as much of everything as one screen holds."""
    from compiler_lens.render.console.document import block_lines
    from compiler_lens.views import report

    selection = Selection(user_paths=user_paths, kept={})
    lines: list[Text] = []
    for room in report.ROOMS:
        lines = block_lines(report.screen(recording, selection, room), page)
        if len(lines) <= _SCREEN:
            break
    return lines
