"""Two ways to compute the same, of which a program takes what the data says is faster: compiled code takes one."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.nothing import always, left_to_eager
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in
from compiler_lens.recording.model import BreakCause

_NEVER = (
    ast.Return, ast.Break, ast.Continue, ast.Raise, ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr, ast.Delete,
    ast.Global, ast.Nonlocal, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom,
)  # fmt: skip
_LEAST = 2  # calls on each side: of less `torch.where` chooses, or the sides are for different things
_WHY = "does not ask, and always takes the {side} way, which gives the same"


def first_way(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Have compiled code always do what stands under a test, where the other side may compute the same."""
    test = _between(site)
    return always(site, test, _WHY.format(side="first")) if test is not None else None


def second_way(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Have compiled code always do what stands under `else`, where the first side may compute the same."""
    test = _between(site)
    return left_to_eager(site, test, _WHY.format(side="second")) if test is not None else None


def _between(site: Site) -> ast.expr | None:
    """Return what chooses between two ways that give values to the same names, as far as these are read later."""
    node = site.statement
    if not isinstance(node, ast.If) or not node.orelse or site.edited(node).startswith("elif"):
        return None
    if isinstance(node.orelse[0], ast.If) or any(isinstance(n, _NEVER) for n in ast.walk(node)):
        return None
    one, other = (_computed(block) for block in (node.body, node.orelse))
    if one is None or other is None or not one & other:
        return None
    end = node.end_lineno or node.lineno
    if any(read.lineno > end for name in one ^ other for read in site.loads(name)):
        return None
    return node.test


def _computed(block: Sequence[ast.stmt]) -> set[str] | None:
    """Return the names that a block gives values to; None where it may do something else, or does little."""
    names = set[str]()
    for node in (n for one in block for n in ast.walk(one)):
        if isinstance(node, ast.Expr | ast.With | ast.Try | ast.While):
            return None
        if isinstance(node, ast.Attribute | ast.Subscript) and isinstance(node.ctx, ast.Store):
            return None
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    calls = [call for one in block for call in calls_in(one)]
    in_place = any(called(call).endswith("_") for call in calls)
    return None if in_place or len(calls) < _LEAST else names
