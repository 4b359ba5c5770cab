"""How many different values a tensor has, `len(torch.unique(labels))`, where that decides whether something raises."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import sides
from compiler_lens.facts.breaks.rewrites.branches import checked, raised
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import of_torch
from compiler_lens.recording.model import BreakCause

_PRICE = "it sorts, as `unique` does; of an empty tensor it counts one value"


def distinct(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Check on the device what `if len(torch.unique(x)) > n: raise` asks, by how often sorted values change."""
    match site.statement:
        case ast.If(test=ast.Compare() as asked, body=[ast.Raise(exc=ast.expr() as error)], orelse=[]):
            is_elif = site.edited(site.statement).startswith("elif")
            test = None if is_elif else _counted(site, asked)
            found = raised(site, asked, error, test) if test else None
        case ast.Assert(test=ast.Compare() as asked, msg=message):
            test = _counted(site, asked)
            found = checked(site, test, message, "AssertionError") if test else None
        case _:
            return None
    if found is None:
        return None
    return Rewrite(found.before, found.after, found.is_complete, sides.joined(_PRICE, found.needs))


def _counted(site: Site, asked: ast.Compare) -> str | None:
    """Return a comparison with a count that has a fixed size."""
    counts = [(node, tensor) for node in (asked.left, *asked.comparators) if (tensor := _of_unique(node)) is not None]
    changes = [
        (node, f"1 + ({site.atom(tensor)}.flatten().sort().values.diff() != 0).sum()") for node, tensor in counts
    ]
    return site.source(asked, changes) if len(changes) == 1 and len(asked.ops) == 1 else None


def _of_unique(node: ast.expr) -> ast.expr | None:
    """Return `x` of `len(torch.unique(x))`, `x.unique().numel()` and their like."""
    match node:
        case ast.Call(func=ast.Name(id="len"), args=[values], keywords=[]):
            return _values_of(values)
        case ast.Call(func=ast.Attribute(value=values, attr="numel" | "nelement"), args=[], keywords=[]):
            return _values_of(values)
        case ast.Call(func=ast.Attribute(value=values, attr="size"), args=[ast.Constant(value=0)], keywords=[]):
            return _values_of(values)
        case ast.Subscript(value=ast.Attribute(value=values, attr="shape"), slice=ast.Constant(value=0)):
            return _values_of(values)
    return None


def _values_of(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(attr="unique"), args=[of], keywords=[]) if of_torch(node):
            return of
        case ast.Call(func=ast.Attribute(value=of, attr="unique"), args=[], keywords=[]):
            return of
    return None
