"""A test of an `if`, `while` or `assert` as a tensor of bools."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import BOOLEAN, called, dotted, is_pure_call, of_torch

_OF_A_TENSOR = frozenset({"equal", "allclose", "item"})  # calls that `condition` makes tensors again


def condition(site: Site, node: ast.expr) -> str | None:
    """A test as an expression that is a bool tensor; None if it may be something else."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        # `~` of a Python bool is a number: -1 and -2 are both true
        inner = condition(site, node.operand) if _is_surely_tensor(site, node.operand) else None
        return inner and f"~({inner})"
    if isinstance(node, ast.BoolOp):
        return _joined(site, node)
    if isinstance(node, ast.Compare):
        return _comparison(site, node)
    if isinstance(node, ast.Call):
        return _called_condition(site, node)
    text = site.source(node)
    value = site.value_of(node.id) if isinstance(node, ast.Name) else node
    if value is not None and is_boolean(value):
        return text
    return f"{text} != 0" if site.is_tensor(node) else None


def _joined(site: Site, node: ast.BoolOp) -> str | None:
    parts = [condition(site, value) for value in node.values]
    sign = " & " if isinstance(node.op, ast.And) else " | "
    return None if None in parts or _guards_itself(node) else sign.join(f"({part})" for part in parts)


_SIZES = frozenset({"numel", "nelement", "len", "size", "shape", "dim", "ndim", "hasattr", "isinstance"})


def _guards_itself(node: ast.BoolOp) -> bool:
    """Whether a later part of `and` and `or` may be an error where an earlier one has decided."""
    asked = [n for value in node.values[:-1] for n in ast.walk(value)]
    later = [n for value in node.values[1:] for n in ast.walk(value)]
    sizes = any(getattr(n, "attr", "") in _SIZES or getattr(n, "id", "") in _SIZES for n in asked)
    risky = (ast.Subscript, ast.Div, ast.FloorDiv, ast.Mod)
    return sizes or any(isinstance(n, risky) or called(n) in ("masked_select", "div", "reciprocal") for n in later)


def _is_surely_tensor(site: Site, node: ast.expr) -> bool:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return _is_surely_tensor(site, node.operand)
    if isinstance(node, ast.BoolOp):
        return any(_is_surely_tensor(site, value) for value in node.values)
    if called(node) == "bool" and isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        return _is_surely_tensor(site, node.args[0])
    return site.is_tensor(node) or any(True for _ in _python_numbers(site, node)) or called(node) in _OF_A_TENSOR


def is_boolean(node: ast.expr) -> bool:
    """Whether an expression on tensors is a tensor of bools."""
    if isinstance(node, ast.Compare):
        return len(node.ops) == 1 and not isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn))
    if isinstance(node, ast.BinOp):
        return isinstance(node.op, (ast.BitAnd, ast.BitOr)) and is_boolean(node.left) and is_boolean(node.right)
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Invert) and is_boolean(node.operand)
    return isinstance(node, ast.Call) and called(node) in BOOLEAN and is_pure_call(node)


def _comparison(site: Site, node: ast.Compare) -> str | None:
    if any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops):
        return None
    changes = list(_python_numbers(site, node))
    if len(node.ops) == 1:
        return site.source(node, changes)
    terms = [site.source(t, [c for c in changes if c[0] in ast.walk(t)]) for t in (node.left, *node.comparators)]
    signs = [ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2] for op in node.ops]
    return " & ".join(f"({a} {sign} {b})" for a, sign, b in zip(terms, signs, terms[1:], strict=False))


def _called_condition(site: Site, node: ast.Call) -> str | None:
    name = called(node)
    if name in ("bool", "float", "int") and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return condition(site, node.args[0])
    if name == "item" and isinstance(node.func, ast.Attribute):
        return condition(site, node.func.value)
    if of_torch(node) and name == "equal" and len(node.args) == 2:  # noqa: PLR2004
        a, b = map(site.source, node.args)
        return f"({a} == {b}).all()"
    if of_torch(node) and name == "allclose":
        inside = site.edited(node, [(node.func, f"{dotted(node.func.value)}.isclose")])  # type: ignore[attr-defined]
        return f"{inside}.all()"
    if is_boolean(node):
        return site.source(node)
    return f"{site.source(node)} != 0" if site.is_tensor(node) else None


def _python_numbers(site: Site, node: ast.expr) -> Iterator[Change]:
    """Calls that make a Python number of a tensor, each with the tensor; random numbers with torch's own."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "item":
        yield node, site.source(node.func.value)
    elif isinstance(node, ast.Call) and called(node) in ("float", "int") and node.args and site.is_tensor(node.args[0]):
        yield node, f"({site.source(node.args[0])})"
    elif isinstance(node, ast.Call) and dotted(node.func) == "random.random":
        names = sorted({n.id for n in ast.walk(site.statement) if isinstance(n, ast.Name)} & site.tensors)
        device = next((f", device={n}.device" for n in names if site.defined_before(n)), "")
        yield node, f"{site.torch}.rand((){device})"
    else:
        for part in ast.iter_child_nodes(node):
            if isinstance(part, ast.expr):
                yield from _python_numbers(site, part)
