"""A line that torch compiles for one size alone, in other words that it compiles for any size."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import site_at
from compiler_lens.facts.breaks.rewrites.syntax import calls_in
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.recording.source_text import Sources

OF_MATRICES = "`{of}` has two dimensions"


def for_any_size(cause: RecompileCause, known: Sources, own: Ownership) -> Iterator[tuple[Lines, str]]:
    """Yield lines in place of the one that needs a size as a number, with what they need.

    `fill_diagonal_` asks for sizes as numbers, as torch/_meta_registrations.py has no function for it (2.11 to 2.13).
    """
    at = cause.pinned
    site = site_at(known, at) if at and own.owns(at.file) else None
    if at is None or site is None:
        return
    for call in calls_in(site.statement):
        match call:
            case ast.Call(func=ast.Attribute(value=of, attr="fill_diagonal_"), args=[value], keywords=[]):
                whole, torch = site.atom(of), site.torch
                eye = f"{torch}.eye(*{whole}.shape, dtype={torch}.bool, device={whole}.device)"
                if found := site.edit([(call, f"{whole}.masked_fill_({eye}, {site.source(value)})")]):
                    yield Lines(at.file, at.line, found.before, found.after), OF_MATRICES.format(of=site.source(of))
