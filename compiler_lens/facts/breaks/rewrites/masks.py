"""Rewrites of sizes that depend on values: masks as indices, and the indices of chosen rows."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from functools import lru_cache

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import sides, syntax
from compiler_lens.facts.breaks.rewrites.assignments import is_repeatable
from compiler_lens.facts.breaks.rewrites.groups import every_group, places_of
from compiler_lens.facts.breaks.rewrites.ranks import rank
from compiler_lens.facts.breaks.rewrites.site import Change, Site, number_at
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, dotted, is_number, loads, of_torch
from compiler_lens.recording.model import BreakCause

_MOST_READS = 16
_NAN = "gradients are nan where a row that is not chosen has no finite value or slope"
_MOST_BETWEEN = 60  # statements
SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def masked(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite a size that depends on values: a mask used as an index, or the indices of its true places."""
    if not isinstance(site.statement, SIMPLE) or "aten." not in cause.context:
        return None
    return (
        _masked_write(site, is_bool="nonzero" in cause.context)
        or _masked_reduction(site)
        or _chosen_rows(site)
        or every_group(site)
    )


def masked_row(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite `x[m] = row`, of which the row's gradient has as many rows as the mask has true places."""
    is_written = isinstance(site.statement, ast.Assign) and "aten.nonzero" in cause.context
    return _masked_write(site, is_bool=True) if is_written else None


def _masked_reduction(site: Site) -> Rewrite | None:
    changes: list[Change] = []
    needs: dict[str, None] = {}  # in order
    torch = site.torch
    selections = [n for n in ast.walk(site.statement) if isinstance(n, ast.Subscript) and is_mask(site, n.slice)]
    for node in syntax.calls_in(site.statement):
        name = called(node)
        if name not in ("sum", "mean", "max", "min") or node.keywords or (selected := _selection(node)) is None:
            continue
        tensor, mask = selected
        if _is_of_numpy(site, tensor):
            return None
        x, m = site.source(tensor), site.source(mask)
        if not is_mask(site, mask) or (name == "mean" and not (dotted(tensor) and is_repeatable(site, mask))):
            return None
        if not _same_shape(site, tensor, mask):
            needs[f"`{m}` has the shape of `{x}`"] = None
        fill = {"max": 'float("-inf")', "min": 'float("inf")'}.get(name, "0")
        if name in ("max", "min"):
            needs[f"`{x}` is of a floating dtype, and the mask is nowhere empty"] = None
        new = f"{torch}.where({m}, {x}, {fill}).{name}()"
        if name == "mean":
            needs[f"`{x}` is of a floating dtype, and its device has float64"] = None
            total = f"{torch}.where({m}, {x}, 0).sum(dtype={torch}.float64)"  # a sum in float16 ends at 65504
            new = f"({total} / {site.atom(mask)}.sum()).to({x}.dtype)"
        changes.append((node, new))
    inside = {n for call, _ in changes for n in ast.walk(call)}
    return site.edit(changes, "; ".join(needs)) if inside.issuperset(selections) else None


def _is_of_numpy(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is an array of numpy's, as far as the function's text shows."""
    names = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return _has_numpy(node) or (site.function is not None and not names.isdisjoint(_arrays(site.function)))


@lru_cache(maxsize=16)
def _arrays(function: syntax.Function) -> frozenset[str]:
    assigned = (n for n in ast.walk(function) if isinstance(n, ast.Assign) and _has_numpy(n.value))
    return frozenset(name for one in assigned for name in syntax.targets(one))


def _has_numpy(node: ast.expr) -> bool:
    calls = syntax.calls_in(node)
    return any(dotted(call.func).split(".")[0] in ("np", "numpy") or called(call) == "numpy" for call in calls)


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


def is_mask(site: Site, node: ast.expr) -> bool:
    """Return whether an index is a tensor of bools for sure, not one of numbers."""
    if isinstance(node, ast.Name) and site.function and node.id in syntax.parameters(site.function):
        return False  # assigned at some places only
    match site.value_of(node.id) if isinstance(node, ast.Name) else node:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return is_mask(site, operand)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return is_mask(site, left) and is_mask(site, right)
        case ast.expr() as value:
            return syntax.is_boolean(value)
    return False


def _same_shape(site: Site, tensor: ast.expr, mask: ast.expr) -> bool:
    """Return whether the mask compares the tensor itself with a number, or asks something of each element."""
    if isinstance(mask, ast.Name) and not _is_as_it_was(site, tensor, mask.id):
        return False
    match site.value_of(mask.id) if isinstance(mask, ast.Name) else mask:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return _same_shape(site, tensor, operand)
        case ast.BinOp(left=one, op=ast.BitAnd() | ast.BitOr(), right=other):
            return _same_shape(site, tensor, one) and _same_shape(site, tensor, other)
        case ast.Compare(left=left, comparators=[other, *_]):
            return ast.dump(left) == ast.dump(tensor) and is_number(other)
        case ast.Call(func=ast.Attribute(value=owner, attr=name), args=[]):
            return name not in ("any", "all") and ast.dump(owner) == ast.dump(tensor)
    return False


def _is_as_it_was(site: Site, tensor: ast.expr, mask: str) -> bool:
    """Whether a tensor has no other value since a mask was made of it."""
    if not isinstance(tensor, ast.Name):
        return True
    made = next(iter(site.uses().stores.get(mask, ())), 0)
    return not any(made <= line < site.line for line in site.uses().stores.get(tensor.id, ()))


def _masked_write(site: Site, *, is_bool: bool) -> Rewrite | None:
    """Write `x[m] = x[m] * 2` and `x[m] *= 2` for the whole tensor, chosen by `torch.where`.

    Torch looks for the places of a mask alone: with `is_bool` the only index of a statement is one, whatever its text.
    """
    sign = ""
    match site.statement:
        case ast.Assign(targets=[ast.Subscript(value=tensor, slice=mask)], value=given):
            pass
        case ast.AugAssign(target=ast.Subscript(value=tensor, slice=mask), op=op, value=given) if type(op) in SIGNS:
            sign = SIGNS[type(op)]
        case _:
            return None
    indices = {ast.dump(n.slice) for n in ast.walk(site.statement) if isinstance(n, ast.Subscript)}
    is_only = is_bool and len(indices) == 1 and not isinstance(mask, (ast.Tuple, ast.Slice, ast.Constant))
    is_only = is_only and dotted(mask) not in site.given_otherwise
    is_row = not sign and _is_row(site, given, mask)
    is_known = is_row or _is_elementwise(given, mask)
    if not is_known or not (is_only or is_mask(site, mask)) or not dotted(tensor):
        return None
    if not is_repeatable(site, mask):
        return None
    whole = "[..., None]" if is_row else to_rows(site, tensor, mask)
    x, m = site.source(tensor), f"{site.atom(mask)}{whole}" if whole else site.source(mask)
    selected = [n for n in ast.walk(given) if isinstance(n, ast.Subscript) and _is_selected(n, mask)]
    value = _of_whole(site, given, selected, mask, whole)
    if sign:
        is_linear = sign in "+-" or is_number(given)
        first = x if is_linear else _filled(site, tensor, mask, whole)
        value = f"{first} {sign} {value if is_number(given) else f'({value})'}"
    elif not (selected or is_row):
        number = sides.without_sign(given)
        if not isinstance(number, ast.Constant) or not is_number(number):
            return None
        if isinstance(number.value, float):
            value = f"{site.torch}.full_like({x}, {value})"  # else an integer tensor becomes a floating one
    others = [n.value for n in selected if ast.dump(n.value) != ast.dump(tensor)]
    needs = [
        "" if is_mask(site, mask) else f"`{site.source(mask)}` is a tensor of bools in each call",
        "" if whole else _of_shapes(site, [tensor, *others], mask),
        f"`{x}` has one dimension more than `{site.source(mask)}`" if is_row else "",
    ]
    is_division = sign == "/" or any(_is_floating(n) for n in ast.walk(given))
    if is_division and (selected or sign):
        needs.append(f"`{x}` is of a floating dtype")
    attributes = dict.fromkeys(dotted(n) for n in ast.walk(given) if dotted(n).startswith("self."))
    read = {dotted(n.value) for n in selected}
    others_read = [name for name in attributes if name not in read and not is_row]
    needs += [f"`{name}` is a number, or a tensor without dimensions" for name in others_read]
    return site.rewrite([f"{x}.copy_({site.torch}.where({m}, {value}, {x}))"], sides.joined(*needs))


def _of_shapes(site: Site, tensors: Sequence[ast.expr], mask: ast.expr) -> str:
    """Return which tensors have to have the shape of the mask, and one dtype, where the text does not show it."""
    names = list(dict.fromkeys(site.source(one) for one in tensors))
    unsure = [site.source(one) for one in tensors if not _same_shape(site, one, mask)]
    if len(names) > 1:
        return f"{' and '.join(f'`{name}`' for name in names)} have the shape of `{site.source(mask)}`, and one dtype"
    return f"`{site.source(mask)}` has the shape of `{names[0]}`" if unsure else ""


def _is_row(site: Site, given: ast.expr, mask: ast.expr) -> bool:
    """Return whether a value is one row, which each row that a mask chooses gets."""
    chosen = (n for n in ast.walk(given) if isinstance(n, ast.Subscript))
    return rank(site, given) == 1 and not any(_is_selected(one, mask) for one in chosen)


def to_rows(site: Site, tensor: ast.expr, mask: ast.expr) -> str:
    """Return what a mask of rows needs to be one of all elements: `[:, None]`; nothing of one that is."""
    own, whole = rank(site, mask), rank(site, tensor)
    if own is None or whole is None or not 0 < own < whole:
        return ""
    return f"[{', '.join([':'] * own + ['None'] * (whole - own))}]"


def _of_whole(site: Site, given: ast.expr, selected: Sequence[ast.Subscript], mask: ast.expr, whole: str) -> str:
    """Return a value for the whole tensors.

    What is not selected has no gradient, and what is written in place cannot be what a gradient needs: but for sums of
    them the places that are not selected have a 1, in a new tensor.
    """
    if _is_linear(given):
        return site.source(given, [(n, site.source(n.value)) for n in selected])
    return site.source(given, [(n, _filled(site, n.value, mask, whole)) for n in selected])


def _filled(site: Site, tensor: ast.expr, mask: ast.expr, whole: str = "") -> str:
    inverse = f"~{site.source(mask)}" if isinstance(mask, (ast.Name, ast.Call)) else f"~({site.source(mask)})"
    match mask:
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            inverse = site.atom(operand) if whole else site.source(operand)
    return f"{site.source(tensor)}.masked_fill({inverse}{whole}, 1)"


def _is_linear(node: ast.expr) -> bool:
    """Whether a gradient through a value needs none of its values."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            return _is_linear(left) and _is_linear(right)
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            return (is_number(left) and _is_linear(right)) or (is_number(right) and _is_linear(left))
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return is_number(right) and _is_linear(left)
        case ast.UnaryOp(operand=operand):
            return _is_linear(operand)
    return not isinstance(node, ast.Call) and not (isinstance(node, ast.BinOp))


_INTEGRAL = frozenset({"abs", "clamp", "masked_fill", "mul", "neg", "relu", "sign", "square"})


def _is_floating(node: ast.AST) -> bool:
    """Whether a part of a value makes a floating tensor of one of integers, or an error."""
    match node:
        case ast.BinOp(op=ast.Div() | ast.Pow()) | ast.Constant(value=float()):
            return True
        case ast.Call():
            return called(node) not in _INTEGRAL
        case ast.Attribute():
            return dotted(node).startswith("self.")
    return False


def _is_selected(node: ast.Subscript, mask: ast.expr) -> bool:
    return ast.dump(node.slice) == ast.dump(mask) and bool(dotted(node.value))


def _is_elementwise(node: ast.expr, mask: ast.expr) -> bool:
    """Whether a value is computed from the places in the mask element by element."""
    match node:
        case ast.BinOp(left=left, right=right):
            parts = [left, right]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.Subscript() if _is_selected(node, mask):
            return True
        case ast.Call(func=function, args=args, keywords=keywords) if called(node) in syntax.ELEMENTWISE:
            is_method = syntax.is_method(node)
            if not is_method and not of_torch(node):
                return False
            owner = [function.value] if is_method and isinstance(function, ast.Attribute) else []
            parts = [*owner, *args, *(k.value for k in keywords)]
        case _:
            return is_number(node) or dotted(node).startswith("self.")
    return all(_is_elementwise(part, mask) for part in parts)


def _chosen_rows(site: Site) -> Rewrite | None:
    """Write `i = torch.where(m)[0]` and then `out.index_add_(0, i, expert(x[i]))` for all rows, with a mask."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=index) | ast.Tuple(elts=[ast.Name(id=index)])], value=value):
            mask, every = places_of(value), site.loads(index)
        case _:
            return None
    if site.function is None or site.escapes(index) or mask is None or not is_mask(site, mask):
        return None
    if len(every) > _MOST_READS:
        return None
    users = sorted({n for read in every if (n := number_at(site.following, read.lineno)) is not None})
    guards: set[int] = set()
    for n in users:
        match site.following[n]:
            case ast.If(test=test, body=[ast.Continue(), *_], orelse=[]) if loads(test, index):
                guards.add(n)  # `if i.numel() == 0: continue`
    reads = sum(len(loads(site.following[n], index)) for n in users)
    if len(users) != len(guards) + 1 or users[-1] in guards or users[-1] > _MOST_BETWEEN or reads != len(every):
        return None
    between = [s for n, s in enumerate(site.following[: users[-1]]) if n not in guards]
    last = site.following[users[-1]]
    line, computed = _dense(site, last, index, mask)
    if not line or not all(isinstance(s, SIMPLE) for s in between):
        return None
    needs = [
        f"`{site.source(mask)}` has one dimension and the tensors two, of one floating dtype",
        "all rows are then computed, each by itself",
        "" if computed is None or sides.has_finite_gradient(computed) else _NAN,
        "parameters have a gradient of zeros in place of none where no row is chosen" if guards else "",
    ]
    return site.rewrite([*map(site.edited, between), line], sides.joined(*needs), last=last)


def _dense(site: Site, statement: ast.stmt, index: str, mask: ast.expr) -> tuple[str, ast.expr | None]:
    """Return the statement that adds or writes rows, for all rows, and what it computes; empty if it is another one."""
    match statement:
        case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=out), "index_add_"), [ast.Constant(0), rows, value], [])):
            pass
        case ast.AugAssign(ast.Subscript(ast.Name(id=out), rows), ast.Add(), value):
            pass
        case ast.Assign([ast.Subscript(ast.Name(id=out), rows)], value):
            pass
        case _:
            return "", None
    if not isinstance(rows, ast.Name) or rows.id != index:
        return "", None
    changes: list[Change] = []
    for node in ast.walk(value):
        match node:
            case ast.Subscript(value=tensor, slice=ast.Name(id=name)) if name == index:
                is_written = dotted(tensor) == out  # in place: a gradient may need what was there
                changes.append((node, f"{out}.clone()" if is_written else site.source(tensor)))
            case ast.Subscript(slice=ast.Tuple(elts=[ast.Name(id=name) as of_rows, _])) if name == index:
                changes.append((of_rows, ":"))
            case ast.Call() if called(node) in ("sum", "mean", "max", "min", "softmax", "cumsum", "sort"):
                return "", None
    of_out = sum(text == f"{out}.clone()" for _, text in changes)
    if len(changes) != len(loads(value, index)) or len(loads(value, out)) != of_out:
        return "", None
    is_written = isinstance(statement, ast.Assign)
    all_rows = f"{site.source(value, changes)}, {out if is_written else '0'}"
    new = f"{site.torch}.where({site.atom(mask)}.unsqueeze(-1), {all_rows})"
    return (f"{out}.copy_({new})" if is_written else f"{out} += {new}"), value
