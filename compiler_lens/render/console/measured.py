"""Trials of settings and comparisons of modes, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from compiler_lens.facts.measured.modes import Comparison
from compiler_lens.facts.measured.what_if import WhatIf
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.render.console.document import block_lines
from compiler_lens.render.console.open_page import terminal_width, wants_color
from compiler_lens.render.console.page import MIN_WIDTH, Page, render
from compiler_lens.render.names import FileNames
from compiler_lens.views.document import Block
from compiler_lens.views.measured import modes, what_if
from compiler_lens.views.text import short_paths


def modes_report(result: Comparison, *, width: int | None = None, color: bool | None = None) -> str:
    """Return a comparison as text; `width` in columns and `color` default to what standard output can show."""
    return _text(modes.blocks(result), [row.failure_line for row in result.rows], width, color)


def what_if_report(result: WhatIf, *, width: int | None = None, color: bool | None = None) -> str:
    """Return trials as text; `width` in columns and `color` default to what standard output can show."""
    places = [left.line for trial in result.trials for left in trial.left]
    return _text(what_if.blocks(result), [*places, *(trial.error_line for trial in result.trials)], width, color)


def _text(blocks: Sequence[Block], places: Iterable[SourceLine | None], width: int | None, color: bool | None) -> str:
    page = Page(
        width=max(width, MIN_WIDTH) if width else terminal_width(),
        color=wants_color() if color is None else color,
        names=FileNames(short_paths(at.file for at in places if at and is_own(at.file))),
    )
    return render(block_lines(blocks, page), page)
