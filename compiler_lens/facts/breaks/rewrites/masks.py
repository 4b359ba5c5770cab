"""Rewrites of sizes that depend on values: masks as indices, and the indices of chosen rows."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.rewrites.conditions import is_boolean
from compiler_lens.facts.breaks.rewrites.site import Change, Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import (
    called,
    calls_in,
    dotted,
    is_elementwise,
    is_method,
    is_number,
    is_simple,
    loads,
    of_torch,
)
from compiler_lens.recording.model import BreakCause

_MOST_READS = 16
_MOST_BETWEEN = 60  # statements


def masked(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite a size that depends on values: a mask used as an index, or the indices of its true places."""
    if not is_simple(site.statement):
        return None
    return _masked_write(site) or _masked_reduction(site) or _chosen_rows(site) if "aten." in cause.context else None


def _masked_reduction(site: Site) -> Rewrite | None:
    changes: list[Change] = []
    needs: list[str] = []
    selections = [n for n in ast.walk(site.statement) if isinstance(n, ast.Subscript) and _is_mask(site, n.slice)]
    for node in calls_in(site.statement):
        name = called(node)
        if name not in ("sum", "mean", "max", "min") or node.keywords or (selected := _selection(node)) is None:
            continue
        tensor, mask = selected
        if not _is_mask(site, mask):
            return None
        if not _same_shape(site, tensor, mask):
            needs.append(f"`{site.source(mask)}` has the shape of `{site.source(tensor)}`")
        if name in ("max", "min"):
            needs.append("the tensor is of a floating dtype, and the mask is nowhere empty")
        if name == "mean":
            if not dotted(tensor):
                return None
            needs.append("the tensor is real, and its device has float64")
        changes.append((node, _reduced(site, name, tensor, mask)))
    inside = {n for call, _ in changes for n in ast.walk(call)}
    return site.edit(changes, "; ".join(dict.fromkeys(needs))) if inside.issuperset(selections) else None


def _selection(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """Return `x` and `m` of `x[m].sum()`, `torch.sum(x[m])` and `torch.masked_select(x, m).sum()`."""
    match call:
        case ast.Call(args=[inner]) if of_torch(call):
            pass
        case ast.Call(func=ast.Attribute(value=inner), args=[]) if not of_torch(call):
            pass
        case _:
            return None
    match inner:
        case ast.Subscript(value=tensor, slice=mask):
            return tensor, mask
        case ast.Call(func=ast.Attribute(attr="masked_select"), args=[tensor, mask], keywords=[]) if of_torch(inner):
            return tensor, mask
        case ast.Call(func=ast.Attribute(value=tensor, attr="masked_select"), args=[mask], keywords=[]):
            return None if of_torch(inner) else (tensor, mask)
    return None


def _reduced(site: Site, name: str, tensor: ast.expr, mask: ast.expr) -> str:
    torch, x, m = site.torch, site.source(tensor), site.source(mask)
    fill = {"max": 'float("-inf")', "min": 'float("inf")'}.get(name, "0")
    if name == "mean":  # a sum in float16 ends at 65504
        count = m if isinstance(mask, (ast.Name, ast.Call)) else f"({m})"
        return f"({torch}.where({m}, {x}, 0).sum(dtype={torch}.float64) / {count}.sum()).to({x}.dtype)"
    return f"{torch}.where({m}, {x}, {fill}).{name}()"


def _is_mask(site: Site, node: ast.expr) -> bool:
    value = site.value_of(node.id) if isinstance(node, ast.Name) else node
    return value is not None and is_boolean(value)


def _same_shape(site: Site, tensor: ast.expr, mask: ast.expr) -> bool:
    """Return whether the mask compares the tensor itself with a number, or asks something of each element."""
    match site.value_of(mask.id) if isinstance(mask, ast.Name) else mask:
        case ast.Compare(left=left, comparators=[other, *_]):
            return ast.dump(left) == ast.dump(tensor) and is_number(other)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]):
            return name not in ("any", "all") and ast.dump(owner) == ast.dump(tensor)
    return False


def _masked_write(site: Site) -> Rewrite | None:
    """Write `x[m] = x[m] * 2` and `x[m] *= 2` for the whole tensor, chosen by `torch.where`."""
    sign: str | None = None
    match site.statement:
        case ast.Assign(targets=[ast.Subscript(value=tensor, slice=mask)], value=given):
            pass
        case ast.AugAssign(target=ast.Subscript(value=tensor, slice=mask), op=op, value=given):
            sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(op), "")
        case _:
            return None
    value = _whole(site, given, mask)
    if value is None or not _is_mask(site, mask) or not dotted(tensor) or sign == "":
        return None
    x, m = site.source(tensor), site.source(mask)
    if sign:
        value = f"{x} {sign} {value if is_number(given) else f'({value})'}"
    elif not any(_is_selected(n, mask) for n in ast.walk(given)):
        if not _is_made_of_numbers(given):
            return None
        if any(isinstance(n, ast.Constant) and isinstance(n.value, float) for n in ast.walk(given)):
            value = f"{site.torch}.full_like({x}, {value})"  # else an integer tensor becomes a floating one
    needs = "" if _same_shape(site, tensor, mask) else f"`{m}` has the shape of `{x}`"
    return site.rewrite([f"{x}.copy_({site.torch}.where({m}, {value}, {x}))"], needs)


def _is_made_of_numbers(node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.USub() | ast.UAdd(), operand=operand):
            return _is_made_of_numbers(operand)
    return is_number(node)


def _whole(site: Site, value: ast.expr, mask: ast.expr) -> str | None:
    """A value computed from the places in the mask, element by element, as computed from all places."""
    subscripts = (n for n in ast.walk(value) if isinstance(n, ast.Subscript))
    changes: list[Change] = [(n, site.source(n.value)) for n in subscripts if _is_selected(n, mask)]
    return site.source(value, changes) if _is_elementwise(site, value, mask) else None


def _is_selected(node: ast.AST, mask: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and ast.dump(node.slice) == ast.dump(mask) and bool(dotted(node.value))


def _is_elementwise(site: Site, node: ast.expr, mask: ast.expr) -> bool:
    parts: list[ast.expr]
    match node:
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.Call(func=function, args=args, keywords=keywords) if is_elementwise(node):
            owner = [function.value] if is_method(node) and isinstance(function, ast.Attribute) else []
            parts = [*owner, *args, *(k.value for k in keywords)]
        case _:
            return is_number(node) or _is_selected(node, mask) or dotted(node).startswith("self.")
    return all(_is_elementwise(site, part, mask) for part in parts)


def _chosen_rows(site: Site) -> Rewrite | None:
    """Write `i = torch.where(m)[0]` and then `out.index_add_(0, i, expert(x[i]))` for all rows, with a mask."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=index) | ast.Tuple(elts=[ast.Name(id=index)])], value=value):
            mask = _places_of(value)
        case _:
            return None
    every = site.loads(index)
    if site.function is None or mask is None or not _is_mask(site, mask) or len(every) > _MOST_READS:
        return None
    users = sorted({n for read in every if (n := site.number_of(read)) is not None})
    guards = {n for n in users if _asks_for_none(site.following[n], index)}
    reads = sum(len(loads(site.following[n], index)) for n in users)
    if len(users) != len(guards) + 1 or users[-1] in guards or users[-1] > _MOST_BETWEEN or reads != len(every):
        return None
    between = [s for n, s in enumerate(site.following[: users[-1]]) if n not in guards]
    last = site.following[users[-1]]
    line = _dense(site, last, index, mask)
    if not line or not all(is_simple(s) for s in between):
        return None
    needs = f"`{site.source(mask)}` has one dimension and the tensors two; all rows are then computed, each by itself"
    return site.rewrite([*map(site.edited, between), line], needs, last=last)


def _places_of(node: ast.expr) -> ast.expr | None:
    """Return the mask of `torch.where(m)[0]`, `m.nonzero().squeeze(-1)` and their like."""
    match node:
        case ast.Subscript(value=inner):
            node = inner
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze" | "flatten" | "view" | "reshape")):
            node = inner
    match node:
        case ast.Call(func=ast.Attribute(attr="where"), args=[mask]) if of_torch(node):
            return mask
        case ast.Call(func=ast.Attribute(attr="nonzero"), args=[mask, *_]) if of_torch(node):
            return mask
        case ast.Call(func=ast.Attribute(value=mask, attr="nonzero")):
            return mask
    return None


def _asks_for_none(statement: ast.stmt, index: str) -> bool:
    """Return whether a statement is like `if i.numel() == 0: continue`."""
    match statement:
        case ast.If(test=test, body=[ast.Continue(), *_], orelse=[]):
            return bool(loads(test, index))
    return False


def _dense(site: Site, statement: ast.stmt, index: str, mask: ast.expr) -> str:
    """Return the statement that adds or writes rows, for all rows; empty if it is another one."""
    adds = not isinstance(statement, ast.Assign)
    match statement:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=out), attr="index_add_"),
                args=[ast.Constant(value=0), ast.Name(id=rows), value],
                keywords=[],
            )
        ):
            pass
        case ast.AugAssign(ast.Subscript(ast.Name(id=out), ast.Name(id=rows)), ast.Add(), value):
            pass
        case ast.Assign([ast.Subscript(ast.Name(id=out), ast.Name(id=rows))], value):
            pass
        case _:
            return ""
    all_rows = _all_rows(site, value, index) if rows == index else ""
    if not all_rows:
        return ""
    m = site.source(mask) if isinstance(mask, (ast.Name, ast.Call)) else f"({site.source(mask)})"
    new = f"{site.torch}.where({m}.unsqueeze(-1), {all_rows}, {'0' if adds else out})"
    return f"{out} += {new}" if adds else f"{out}.copy_({new})"


def _all_rows(site: Site, value: ast.expr, index: str) -> str:
    changes: list[Change] = []
    for node in ast.walk(value):
        match node:
            case ast.Subscript(value=tensor, slice=ast.Name(id=name)) if name == index:
                changes.append((node, site.source(tensor)))
            case ast.Subscript(slice=ast.Tuple(elts=[ast.Name(id=name) as rows, _])) if name == index:
                changes.append((rows, ":"))
    reduces = any(called(n) in ("sum", "mean", "max", "min", "softmax", "cumsum", "sort") for n in ast.walk(value))
    return "" if reduces or len(changes) != len(loads(value, index)) else site.source(value, changes)
