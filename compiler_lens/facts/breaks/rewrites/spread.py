"""Rows that a mask chooses, and what is computed of them and written in their places: of all rows, chosen afterwards.

Whether each row is computed by itself, a trial has to show.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.assignments import is_repeatable
from compiler_lens.facts.breaks.rewrites.masks import SIGNS, to_rows
from compiler_lens.facts.breaks.rewrites.nothing import any_of
from compiler_lens.facts.breaks.rewrites.ranks import rank
from compiler_lens.facts.breaks.rewrites.rows import weighed
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import dotted
from compiler_lens.recording.model import BreakCause
from compiler_lens.recording.source_text import expression

_MOST = 40  # statements
_PRICE = (
    "all rows are computed, each by itself, also those that `{}` leaves out; a gradient is nan where one of these has"
    " no finite value or slope"
)


def spread(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `y = f(x[m])` and then `out[m] = g(y)` for all rows, of which `m` chooses."""
    mask = _mask_in(site.statement)
    if site.function is None or mask is None or "aten.nonzero" not in cause.context:
        return None
    if weighed(site, cause) is not None:  # each row is known to be computed by itself
        return None
    statements: list[ast.stmt] = []
    for one in (site.statement, *site.following[:_MOST]):
        statements.append(one)
        if _written(one, mask) is not None:
            break
    return _spread(site, statements, mask)


def spread_branch(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write the same in place of `if m.any():`, which asks for nothing then."""
    match site.statement:
        case ast.If(test=test, body=body, orelse=[]) if not site.edited(site.statement).startswith("elif"):
            mask = any_of(site, test)
            return _spread(site, body, mask) if mask is not None and site.function is not None else None
    return None


def _mask_in(statement: ast.stmt) -> ast.expr | None:
    """Return the one index of a statement that may be a mask."""
    subscripts = [n for n in ast.walk(statement) if isinstance(n, ast.Subscript)]
    indices = {ast.dump(n.slice): n.slice for n in subscripts if not isinstance(n.slice, (ast.Tuple, ast.Slice))}
    found = [one for one in indices.values() if not isinstance(one, (ast.Constant, ast.UnaryOp)) or _is_inverse(one)]
    return found[0] if len(found) == 1 else None


def _is_inverse(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert)


def _written(one: ast.stmt, mask: ast.expr) -> tuple[ast.expr, str, ast.expr] | None:
    """Return what a statement writes to where the mask is true, by which sign, and what it writes."""
    match one:
        case ast.Assign(targets=[ast.Subscript(value=tensor, slice=where)], value=value):
            sign = ""
        case ast.AugAssign(target=ast.Subscript(value=tensor, slice=where), op=op, value=value) if type(op) in SIGNS:
            sign = SIGNS[type(op)]
        case _:
            return None
    return (tensor, sign, value) if ast.dump(where) == ast.dump(mask) and dotted(tensor) else None


def _spread(site: Site, statements: Sequence[ast.stmt], mask: ast.expr) -> Rewrite | None:
    written = [_written(one, mask) for one in statements]
    names = _computed(site, statements)
    if written[-1] is None or names is None or not is_repeatable(site, mask):
        return None
    chosen, of_mask = _chosen(statements, mask), {n.id for n in ast.walk(mask) if isinstance(n, ast.Name)}
    if chosen is None or not of_mask.isdisjoint(names):
        return None
    dims, lines = rank(site, mask), list[str]()
    tensors = frozenset(dotted(write[0]) for write in written if write)
    for one, write in zip(statements, written, strict=True):
        within = set(ast.walk(one))
        rows = [n for n in chosen if n in within and isinstance(n.ctx, ast.Load)]
        changes: list[Change] = [(n, _all_rows(site, n.value, mask, dims, tensors)) for n in rows]
        if write is None:
            lines += site.dedented(one, changes)
            continue
        tensor, sign, value = write
        if not (rows or names.intersection(n.id for n in ast.walk(value) if isinstance(n, ast.Name))):
            return None
        lines.append(_whole(site, tensor, sign, site.source(value, changes), (mask, dims)))
    return site.rewrite(lines, _PRICE.format(site.source(mask)), last=_last(site, statements))


def _last(site: Site, statements: Sequence[ast.stmt]) -> ast.stmt:
    """Return up to which statement a rewrite goes: of a branch's body it is the branch."""
    return statements[-1] if statements[0] is site.statement else site.statement


def _computed(site: Site, statements: Sequence[ast.stmt]) -> set[str] | None:
    """Return the names that statements assign, and nothing else reads; None where they do anything else."""
    inside = {n for one in statements for n in ast.walk(one)}
    found = set[str]()
    for one in statements:
        match one:
            case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
                continue
            case ast.Assign(targets=[ast.Name() | ast.Tuple() as target]):
                found |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
            case _:
                return None
    is_within = all(inside.issuperset(site.loads(name)) and not site.escapes(name) for name in found)
    return found if is_within else None


def _chosen(statements: Sequence[ast.stmt], mask: ast.expr) -> list[ast.Subscript] | None:
    """Return all that the mask chooses of; None where it is asked for something else, too."""
    nodes = [n for one in statements for n in ast.walk(one)]
    alike = [n for n in nodes if isinstance(n, ast.expr) and ast.dump(n) == ast.dump(mask)]
    found = [n for n in nodes if isinstance(n, ast.Subscript) and ast.dump(n.slice) == ast.dump(mask)]
    return found if len(alike) == len(found) else None


def _all_rows(site: Site, tensor: ast.expr, mask: ast.expr, dims: int | None, written: frozenset[str]) -> str:
    # What is written in place cannot be what a gradient needs.
    rows = f"{site.source(tensor)}.clone()" if dotted(tensor) in written else site.source(tensor)
    if dims == 1:
        return rows
    return f"{_atom(rows)}.flatten(0, {f'{site.atom(mask)}.dim() - 1' if dims is None else dims - 1})"


def _whole(site: Site, tensor: ast.expr, sign: str, rows: str, of: tuple[ast.expr, int | None]) -> str:
    """Return what writes rows of the whole tensor where a mask is true."""
    mask, dims = of
    x, m, more = site.source(tensor), site.atom(mask), rank(site, tensor)
    in_shape = rows if dims == 1 else f"{_atom(rows)}.unflatten(0, {m}.shape)"
    before = x if sign in "+-" else f"{x}.clone()"
    new = f"{before} {sign} {_atom(in_shape)}" if sign else in_shape
    if dims is None or more is None:
        first, known = ("-1", 1) if dims == 1 else (f"*{m}.shape", f"{m}.dim()")
        wide = f"{m}.view({first}, *[1] * ({x}.dim() - {known}))"
    else:
        rows_of = to_rows(site, tensor, mask)
        wide = f"{m}{rows_of}" if rows_of else site.source(mask)
    return f"{x}.copy_({site.torch}.where({wide}, {new}, {x}))"


def _atom(text: str) -> str:
    node = expression(text)
    return text if isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript)) else f"({text})"
