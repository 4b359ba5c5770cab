"""What the expression that broke shows by its own syntax: what a branch is there for, what asks for a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.remedies import Shown
from compiler_lens.facts.breaks.rewrites.site import Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import called
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

_NUMBERS = frozenset({"item", "tolist", "int", "float", "bool"})
_OF_SIZES = frozenset(
    {"split", "split_with_sizes", "view", "reshape", "expand", "repeat", "zeros", "ones", "new_zeros"}
)


def shown_at(sources: Sources, at: SourceLine, column: int | None = None) -> Shown | None:
    """Return what a line shows; None where its text is not known, or shows nothing of the kind.

    Args:
        sources: the texts of files.
        at: the line.
        column: where in it, without its indent, the expression that broke begins; None where that is not known.

    """
    try:
        site = site_at(sources, at)
        return _shown(site, column) if site else None
    except RecursionError:  # an expression nested deeper than Python's stack
        return None


def _shown(site: Site, column: int | None) -> Shown | None:
    statement, asks = site.statement, list(_around(site, column))
    match statement:
        case ast.Assert(msg=ast.expr() as message) if not isinstance(message, ast.Constant):
            return Shown.MESSAGE
        case ast.While(test=test) if column is None or test in asks:
            return Shown.WHILE
        case ast.If(test=test) if column is None or test in asks:
            return _arm(statement)
    is_called = False
    for node in asks:
        found = _asked(node)
        if found and not (is_called and found in {Shown.IN, Shown.LOGICAL}):
            return found
        is_called |= called(node) in _NUMBERS
    return None


def _around(site: Site, column: int | None) -> Iterator[ast.AST]:
    """Yield the expressions that begin at a column, and all around them in the statement, from within."""
    line = site.text.split("\n")[site.line - 1]
    begin = None if column is None else (site.line, len(line) - len(line.lstrip()) + column)
    here = [n for n in ast.walk(site.statement) if isinstance(n, ast.expr) and (n.lineno, n.col_offset) == begin]
    node: ast.AST | None = here[-1] if here else None
    while node is not None and node is not site.statement:
        yield node
        node = site.parents().get(node)


def _asked(node: ast.AST) -> Shown | None:
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return Shown.IN
        case ast.BoolOp():
            return Shown.LOGICAL
        case ast.Slice() if any(isinstance(n, ast.Name) for n in ast.walk(node)):
            return Shown.SLICE
        case ast.JoinedStr():
            return Shown.TEXT
        case ast.Call() if called(node) in _OF_SIZES and any(called(n) == "tolist" for n in ast.walk(node)):
            return Shown.SIZES
    return None


def _arm(node: ast.If) -> Shown:
    match node:
        case ast.If(body=[ast.Raise(), *_], orelse=[]):
            return Shown.RAISES
        case ast.If(body=[*_, ast.Break()], orelse=[]):
            return Shown.STOPS
        case ast.If(  # `mask.sum() == 0`, `mask.sum() < 1`, `not mask.any()`
            test=ast.UnaryOp(op=ast.Not())
            | ast.Compare(ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)])
            | ast.Compare(ops=[ast.Lt()], comparators=[ast.Constant(value=1)]),
            body=[ast.Continue(), *_],
            orelse=[],
        ):
            return Shown.SAVES_WORK
    return Shown.BRANCH
