"""A power that Python's `math` computes of a number that changes with each call: by the operator, which torch traces.

`math.pow` and `math.exp` want a number that is known when torch compiles, so each one is compiled apart; `x ** y` of a
number that is an input of the graph is computed when the graph runs (torch/fx/experimental/sym_node.py, math_ops).
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import Change, Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, dotted
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.floats import lines_of
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.dimensions import dimensions
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.recording.source_text import Sources

BY_OPERATOR = (
    "`**` of a negative number and a fraction is complex, where `math.pow` raises an error, and of ints it is an int"
)
_NUMBERS = frozenset({
    CauseClass.INT_ARGUMENT, CauseClass.FLOAT_ARGUMENT, CauseClass.MODULE_ATTRIBUTE, CauseClass.OBJECT_ATTRIBUTE,
    CauseClass.GLOBAL, CauseClass.CLOSURE,
})  # fmt: skip


def pinned_at(recording: Recording) -> tuple[SourceLine, ...]:
    """Return the lines that need the one value that a size or a number had."""
    pins = (pin.line for one in dimensions(recording) if one.pinned for pin in one.pins)
    return tuple(dict.fromkeys(filter(None, pins)))


def by_operator(cause: RecompileCause, pins: Iterable[SourceLine], known: Sources, own: Ownership) -> Iterator[Lines]:
    """Yield lines that need the one value of a number for a power, with an operator in place of the function.

    Args:
        cause: why something was compiled again.
        pins: by `pinned_at`, of the whole recording.
        known: the texts of files.
        own: whose they are.
    """
    if cause.cause not in _NUMBERS:
        return
    every = (_in_file(at, known) for at in (*lines_of(cause), *pins))
    for at in dict.fromkeys(every):
        site = site_at(known, at) if own.owns(at.file) else None
        found = site.edit(list(_changes(site))) if site else None
        if found:
            yield Lines(at.file, at.line, found.before, found.after)


def _in_file(at: SourceLine, known: Sources) -> SourceLine:
    """Return a line with its file's whole name: a guard's text has it without what torch strips from its begin."""
    whole = next((file for file in known.texts if file.endswith(at.file)), at.file)
    return at if at.file in known.texts else replace(at, file=whole)


def _changes(site: Site) -> Iterator[Change]:
    for call in calls_in(site.statement):
        match call:
            case ast.Call(func=function, args=[base, exponent], keywords=[]) if dotted(function) == "math.pow":
                new = f"{site.atom(base)} ** {site.atom(exponent)}"
            case ast.Call(func=function, args=[exponent], keywords=[]) if dotted(function) == "math.exp":
                new = f"math.e ** {site.atom(exponent)}"
            case _:
                continue
        parent = site.parents().get(call)
        is_alone = isinstance(parent, (ast.stmt, ast.Call, ast.keyword)) or (
            isinstance(parent, ast.BinOp) and isinstance(parent.op, (ast.Add, ast.Sub))
        )
        yield call, new if is_alone else f"({new})"
