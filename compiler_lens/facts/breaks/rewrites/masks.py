"""Rewrites of sizes that depend on values: masks as indices, and the indices of chosen rows."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.rewrites.conditions import is_boolean
from compiler_lens.facts.breaks.rewrites.site import Change, Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import (
    called,
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
    """For a size that depends on values: a mask used as an index, or the indices of its true places."""
    if not is_simple(site.statement):
        return None
    return _masked_write(site) or _masked_reduction(site) or _chosen_rows(site) if "aten." in cause.context else None


def _masked_reduction(site: Site) -> Rewrite | None:
    changes: list[Change] = []
    needs: list[str] = []
    selections = [n for n in ast.walk(site.statement) if isinstance(n, ast.Subscript) and _is_mask(site, n.slice)]
    for node in ast.walk(site.statement):
        name = called(node)
        if not isinstance(node, ast.Call) or name not in ("sum", "mean", "max", "min") or node.keywords:
            continue
        selected = _selection(node)
        if selected is None:
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
    """`x` and `m` of `x[m].sum()`, `torch.sum(x[m])` and `torch.masked_select(x, m).sum()`."""
    if of_torch(call):
        inner = call.args[0] if len(call.args) == 1 else None
    else:
        inner = call.func.value if isinstance(call.func, ast.Attribute) and not call.args else None
    if isinstance(inner, ast.Subscript):
        return inner.value, inner.slice
    if not isinstance(inner, ast.Call) or called(inner) != "masked_select" or inner.keywords:
        return None
    parts = inner.args if of_torch(inner) else [inner.func.value, *inner.args]  # type: ignore[attr-defined]
    return (parts[0], parts[1]) if len(parts) == 2 else None  # noqa: PLR2004


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
    """Whether the mask compares the tensor itself with a number."""
    value = site.value_of(mask.id) if isinstance(mask, ast.Name) else mask
    if isinstance(value, ast.Compare):
        return ast.dump(value.left) == ast.dump(tensor) and is_number(value.comparators[0])
    return isinstance(value, ast.Call) and not value.args and isinstance(value.func, ast.Attribute) and (
        called(value) not in ("any", "all") and ast.dump(value.func.value) == ast.dump(tensor)
    )  # fmt: skip


def _masked_write(site: Site) -> Rewrite | None:
    """`x[m] = x[m] * 2` and `x[m] *= 2`."""
    node = site.statement
    target = (
        node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else getattr(node, "target", None)
    )
    if not isinstance(target, ast.Subscript) or not isinstance(node, (ast.Assign, ast.AugAssign)):
        return None
    mask = target.slice
    value = _whole(site, node.value, mask)
    if value is None or not _is_mask(site, mask) or not dotted(target.value):
        return None
    x, m = site.source(target.value), site.source(mask)
    if isinstance(node, ast.Assign) and not any(_is_selected(n, mask) for n in ast.walk(node.value)):
        numbers = [n for n in ast.walk(node.value) if isinstance(n, ast.Constant)]
        if not _is_made_of_numbers(node.value):
            return None
        if any(isinstance(n.value, float) for n in numbers):  # which would make an integer tensor a floating one
            value = f"{site.torch}.full_like({x}, {value})"
    if isinstance(node, ast.AugAssign):
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(node.op))
        value = f"{x} {sign} {value if is_number(node.value) else f'({value})'}"
        if sign is None:
            return None
    needs = "" if _same_shape(site, target.value, mask) else f"`{m}` has the shape of `{x}`"
    return site.rewrite([f"{x}.copy_({site.torch}.where({m}, {value}, {x}))"], needs)


def _is_made_of_numbers(node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, (ast.USub, ast.UAdd)) and _is_made_of_numbers(node.operand)
    return is_number(node)


def _whole(site: Site, value: ast.expr, mask: ast.expr) -> str | None:
    """A value computed from the places in the mask, element by element, as computed from all places."""
    subscripts = (n for n in ast.walk(value) if isinstance(n, ast.Subscript))
    changes: list[Change] = [(n, site.source(n.value)) for n in subscripts if _is_selected(n, mask)]
    return site.source(value, changes) if _is_elementwise(site, value, mask) else None


def _is_selected(node: ast.AST, mask: ast.expr) -> bool:
    return isinstance(node, ast.Subscript) and ast.dump(node.slice) == ast.dump(mask) and bool(dotted(node.value))


def _is_elementwise(site: Site, node: ast.expr, mask: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return all(_is_elementwise(site, part, mask) for part in (node.left, node.right))
    if isinstance(node, ast.UnaryOp):
        return _is_elementwise(site, node.operand, mask)
    if isinstance(node, ast.Call):
        owner = [node.func.value] if is_method(node) and isinstance(node.func, ast.Attribute) else []
        return is_elementwise(node) and all(
            _is_elementwise(site, part, mask) for part in (*owner, *node.args, *(k.value for k in node.keywords))
        )
    return is_number(node) or _is_selected(node, mask) or dotted(node).startswith("self.")


def _chosen_rows(site: Site) -> Rewrite | None:
    """`i = torch.where(m)[0]` and then `out.index_add_(0, i, expert(x[i]))`: all rows, and a mask."""
    node = site.statement
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or site.function is None:
        return None
    target = node.targets[0].elts[0] if _is_single(node.targets[0]) else node.targets[0]  # type: ignore[attr-defined]
    mask = _places_of(node.value)
    if not isinstance(target, ast.Name) or mask is None or not _is_mask(site, mask):
        return None
    every = site.loads(target.id)
    if len(every) > _MOST_READS:
        return None
    users = sorted({n for read in every if (n := site.number_of(read)) is not None})
    guards = {n for n in users if _asks_for_none(site.following[n], target.id)}
    reads = sum(len(loads(site.following[n], target.id)) for n in users)
    if len(users) != len(guards) + 1 or users[-1] in guards or users[-1] > _MOST_BETWEEN or reads != len(every):
        return None
    between = [s for n, s in enumerate(site.following[: users[-1]]) if n not in guards]
    last = site.following[users[-1]]
    line = _dense(site, last, target.id, mask)
    if not line or not all(is_simple(s) for s in between):
        return None
    needs = f"`{site.source(mask)}` has one dimension and the tensors two; all rows are then computed, each by itself"
    return site.rewrite([*map(site.edited, between), line], needs, last=last)


def _is_single(node: ast.expr) -> bool:
    return isinstance(node, ast.Tuple) and len(node.elts) == 1


def _places_of(node: ast.expr) -> ast.expr | None:
    """The mask of `torch.where(m)[0]`, `m.nonzero().squeeze(-1)` and their like."""
    if isinstance(node, ast.Subscript):
        node = node.value
    elif called(node) in ("squeeze", "flatten", "view", "reshape") and isinstance(node.func, ast.Attribute):  # type: ignore[attr-defined]
        node = node.func.value  # type: ignore[attr-defined]
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return None
    if called(node) == "where" and of_torch(node) and len(node.args) == 1:
        return node.args[0]
    if called(node) != "nonzero":
        return None
    return node.args[0] if of_torch(node) and node.args else node.func.value


def _asks_for_none(statement: ast.stmt, index: str) -> bool:
    """`if i.numel() == 0: continue`."""
    is_guard = isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[0], ast.Continue)
    return is_guard and bool(loads(statement.test, index))  # type: ignore[attr-defined]


def _dense(site: Site, statement: ast.stmt, index: str, mask: ast.expr) -> str:
    """The statement that adds or writes rows, for all rows; empty if it is another one."""
    m = f"{site.source(mask)}" if isinstance(mask, (ast.Name, ast.Call)) else f"({site.source(mask)})"
    call = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(call, ast.Call) and called(call) == "index_add_" and isinstance(call.func, ast.Attribute):
        is_plain = len(call.args) == 3 and not call.keywords and ast.unparse(call.args[0]) == "0"  # noqa: PLR2004
        if not is_plain or ast.unparse(call.args[1]) != index:
            return ""
        out, value, sign = call.func.value, call.args[2], "+="
    elif isinstance(statement, ast.AugAssign) and isinstance(statement.op, ast.Add):
        out, value, sign = statement.target, statement.value, "+="
    elif isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        out, value, sign = statement.targets[0], statement.value, "="
    else:
        return ""
    if not isinstance(call, ast.Call):
        if not isinstance(out, ast.Subscript) or ast.unparse(out.slice) != index:
            return ""
        out = out.value
    all_rows = _all_rows(site, value, index)
    if not all_rows or not isinstance(out, ast.Name):
        return ""
    new = f"{site.torch}.where({m}.unsqueeze(-1), {all_rows}, {'0' if sign == '+=' else out.id})"
    return f"{out.id} += {new}" if sign == "+=" else f"{out.id}.copy_({new})"


def _all_rows(site: Site, value: ast.expr, index: str) -> str:
    changes: list[Change] = []
    for node in ast.walk(value):
        if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == index:
            changes.append((node, site.source(node.value)))
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and len(node.slice.elts) == 2:  # noqa: PLR2004
            changes += [(part, ":") for part in node.slice.elts[:1] if ast.unparse(part) == index]
    reduces = any(called(n) in ("sum", "mean", "max", "min", "softmax", "cumsum", "sort") for n in ast.walk(value))
    return "" if reduces or len(changes) != len(loads(value, index)) else site.source(value, changes)
