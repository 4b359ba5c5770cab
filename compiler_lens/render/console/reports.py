"""What a user asks for as text: the first screen, a view, what differs between two recordings, what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from shlex import quote
from typing import TYPE_CHECKING

from msgspec.structs import replace
from rich.text import Text

from compiler_lens.facts.program.select import EVERYTHING, Selection, select_launches
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.render.console.document import block_lines
from compiler_lens.render.console.page import Page, html_of, page_for, page_of, render
from compiler_lens.render.names import FileNames
from compiler_lens.views.registry import REPORT, checked_view
from compiler_lens.views.text import short_paths

if TYPE_CHECKING:
    from compiler_lens.facts.measured.fix import Fix
    from compiler_lens.facts.measured.modes import Comparison
    from compiler_lens.facts.measured.what_if import WhatIf
    from compiler_lens.facts.program.ownership import UserPaths
    from compiler_lens.views.diff.views import Compared
    from compiler_lens.views.document import Block

_SCREEN = 60  # lines


def report(
    recording: Recording,
    *,
    width: int | None = None,
    color: bool | None = None,
    path: str = "REC",
    user_paths: UserPaths = (),
) -> str:
    """Return one screen that says what was compiled, what was not, and what to do next.

    `width` and `color` default to what standard output can show; `path` is the recording's file, for the commands
    that the report suggests; `user_paths` are the user's own besides what is not installed.
    """
    return report_on(page_for(recording, width=width, color=color, path=path), recording, user_paths)


def report_on(page: Page, recording: Recording, user_paths: UserPaths = ()) -> str:
    """Return the same on a page of the caller's."""
    return render(_first_screen(recording, page, user_paths), page)


def html_fragment(recording: Recording) -> str:
    """Return the report as a piece of HTML, for a notebook's `_repr_html_`."""
    page = page_for(recording, width=100, color=True, path="REC")
    return html_of(_first_screen(recording, page), page)


def _first_screen(recording: Recording, page: Page, user_paths: UserPaths = ()) -> list[Text]:
    """The report, with as much of everything as one screen holds."""
    from compiler_lens.views import screen

    selection = Selection(user_paths=user_paths, kept={})
    lines: list[Text] = []
    for room in screen.ROOMS:
        lines = block_lines(screen.screen(recording, selection, room), page)
        if len(lines) <= _SCREEN:
            break
    return lines


def view(recording: Recording, name: str, page: Page, selection: Selection = EVERYTHING) -> str:
    """Return one of the views behind the report, whole or of a part of the recording."""
    from compiler_lens.views.headline import not_whole

    shown = checked_view(name).document(recording, selection).blocks
    warned = () if name == REPORT else not_whole(recording)  # the report says it itself
    return render(block_lines((*warned, *shown), page), page)


def profile_report(
    recording: Recording, *, width: int | None = None, color: bool | None = None, path: str = "", part: str = ""
) -> str:
    """Return the last profile of a recording as text, or a part of it by name.

    `path` is where it can be asked for more, if it is in a file. Raises `UsageError` where there is no such part.
    """
    from compiler_lens.views.profile import document

    page = page_for(recording, width=width, color=color, path=path)
    selection = select_launches(recording, part) if part else EVERYTHING
    return render(block_lines(document(recording, selection, kept=bool(path)).blocks, page), page)


def diff_report(
    compared: Compared, view: str = "", name: str = "", *, width: int | None = None, color: bool | None = None
) -> str:
    """Return one view as text; `width` in columns and `color` default to what standard output can show."""
    from compiler_lens.views.diff.views import SUMMARY, Asked, diff_view

    found = diff_view(view or SUMMARY)
    page, other = (page_for(one, width=width, color=color) for one in (compared.after, compared.before))
    target = " ".join(given if given in {"BEFORE", "AFTER"} else quote(given) for given in compared.names)
    page = replace(page, target=target, verb="diff", names=other.names.joined(page.names))
    asked = Asked(compared.result, compared.before, compared.after, compared.names, name, page.width // 2 - 6)
    return render(block_lines(found.blocks(asked), page), page)


def modes_report(result: Comparison, *, width: int | None = None, color: bool | None = None) -> str:
    """Return a comparison as text; `width` in columns and `color` default to what standard output can show."""
    from compiler_lens.views.measured import modes

    return _measured(modes.blocks(result), [row.failure_line for row in result.rows], width, color)


def what_if_report(result: WhatIf, *, width: int | None = None, color: bool | None = None) -> str:
    """Return trials as text; `width` in columns and `color` default to what standard output can show."""
    from compiler_lens.views.measured import what_if

    places = [left.line for trial in result.trials for left in trial.left]
    return _measured(what_if.blocks(result), [*places, *(trial.error_line for trial in result.trials)], width, color)


def fix_report(
    result: Fix, *, width: int | None = None, color: bool | None = None, is_written: bool = False, kept: str = ""
) -> str:
    """Return what was tried as text; `width` in columns and `color` default to what standard output can show.

    Without `is_written` it ends with how to get the best: with the patch of it that was `kept`, or by trying again.
    """
    from compiler_lens.views.measured import fix

    offers = [offer for trial in result.tried for offer in trial.offers]
    targets = [one.at for one in (*(left.target for left in result.not_tried), *(offer.target for offer in offers))]
    errors = [seen.error_line for seen in (result.first, *(trial.observed for trial in result.tried))]
    found = [one.place for one in result.first.findings]
    last = result.best.observed if result.best else result.first
    left = [*(one.at for one in last.targets), *(part.place for one in last.eager for part in one.parts)]
    return _measured(
        fix.blocks(result, is_written=is_written, kept=kept), [*targets, *errors, *found, *left], width, color
    )


def _measured(
    blocks: Sequence[Block], places: Iterable[SourceLine | None], width: int | None, color: bool | None
) -> str:
    names = FileNames(short_paths(at.file for at in places if at and is_own(at.file)))
    page = page_of(names, width=width, color=color)
    return render(block_lines(blocks, page), page)
