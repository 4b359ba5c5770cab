"""The mean of what is above a limit, or of the largest few where too few are: of the first so many, in order."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, dotted, of_torch
from compiler_lens.recording.model import BreakCause

_PRICE = "`{}` has one dimension, and is sorted at each call; `{}` is a tensor then"
_MOST = 10  # statements


def hardest(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `hard = x[x > t]`, `if hard.numel() < n: hard, _ = x.topk(n)`, and the mean of that, for all of `x`.

    Of a number of rows that `n` is made of, in the statement that breaks, a sum of the mask is as good.
    """
    statements = [site.statement, *site.following[:_MOST]]
    begin = next((n for n, one in enumerate(statements) if _above(one)), None)
    if begin is None or len(statements) < begin + 3 or not all(isinstance(one, SIMPLE) for one in statements[:begin]):
        return None
    chosen, asked, last = statements[begin : begin + 3]
    name, tensor, above = _above(chosen) or ("", None, None)
    least = _at_least(asked, name, tensor) if tensor is not None else None
    value = last.value if isinstance(last, ast.Return) else None
    if tensor is None or above is None or least is None or not _is_mean(value, name):
        return None
    if len(site.loads(name)) != 2 or site.escapes(name):  # noqa: PLR2004 -- in the test, and in the mean
        return None
    first = _counting(site, statements[0]) if begin else []
    if first is None:
        return None
    ordered, kept, places = map(site.free, ("ordered", "kept", "places"))
    x, torch = site.source(tensor), site.torch
    return site.rewrite(
        [
            *first,
            *(line for one in statements[1:begin] for line in site.dedented(one)),
            f"{ordered} = {x}.sort(descending=True).values",
            f"{kept} = {torch}.clamp(({site.source(above)}).sum(), min={site.source(least)})",
            f"{places} = {torch}.arange(len({ordered}), device={ordered}.device)",
            f"return {torch}.where({places} < {kept}, {ordered}, 0).sum() / {kept}",
        ],
        _PRICE.format(x, site.source(least)),
        last=last,
    )


def _above(one: ast.stmt) -> tuple[str, ast.expr, ast.expr] | None:
    """Return the names, and the test, of `hard = x[x > t]`."""
    match one:
        case ast.Assign(
            targets=[ast.Name(id=name)],
            value=ast.Subscript(value=tensor, slice=ast.Compare(left=left, ops=[ast.Gt() | ast.GtE()]) as above),
        ) if dotted(tensor) and ast.dump(left) == ast.dump(tensor):
            return name, tensor, above
    return None


def _at_least(one: ast.stmt, name: str, tensor: ast.expr) -> ast.expr | None:
    """Return `n` of `if hard.numel() < n: hard, _ = x.topk(n)`."""
    match one:
        case ast.If(
            test=ast.Compare(left=count, ops=[ast.Lt() | ast.LtE()], comparators=[least]),
            body=[ast.Assign(targets=[target], value=value)],
            orelse=[],
        ) if _is_count(count, name):
            pass
        case _:
            return None
    match target, value:
        case ast.Tuple(elts=[ast.Name(id=given), ast.Name()]), ast.Call() as call:
            pass
        case ast.Name(id=given), ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0)):
            pass
        case ast.Name(id=given), ast.Attribute(value=ast.Call() as call, attr="values"):
            pass
        case _:
            return None
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    args = call.args if of_torch(call) or owner is None else [owner, *call.args]
    is_topk = called(call) == "topk" and len(args) == 2 and not call.keywords and given == name  # noqa: PLR2004
    return least if is_topk and [ast.dump(a) for a in args] == [ast.dump(tensor), ast.dump(least)] else None


def _is_count(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr="numel" | "size")):
            return of == name
        case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=of)]):
            return of == name
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id=of), attr="shape")):
            return of == name
    return False


def _is_mean(node: ast.expr | None, name: str) -> bool:
    match node:
        case ast.Call(args=[ast.Name(id=of)], keywords=[]) if of_torch(node):
            return of == name and called(node) == "mean"
        case ast.Call(func=ast.Attribute(value=ast.Name(id=of), attr="mean"), args=[], keywords=[]):
            return of == name
    return False


def _counting(site: Site, one: ast.stmt) -> Sequence[str] | None:
    """Return `n = y[m].numel() // 16` with the sum of the mask in place of the count; None of another statement."""
    changes: list[Change] = []
    for node in ast.walk(one):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Subscript(slice=mask), attr="numel"), args=[]):
                changes.append((node, f"({site.source(mask)}).sum()"))
    return site.dedented(one, changes) if changes else None
