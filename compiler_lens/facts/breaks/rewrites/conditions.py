"""A test of an `if`, `while` or `assert` as a tensor of bools."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import BOOLEAN, called, dotted, is_pure_call, of_torch

_NOT_ON_TENSORS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
_OF_A_TENSOR = frozenset({"equal", "allclose", "item"})  # calls that `condition` makes tensors again


def condition(site: Site, node: ast.expr) -> str | None:  # noqa: PLR0911 -- one for each kind of syntax
    """Return a test as an expression that is a bool tensor; None if it may be something else."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            # `~` of a Python bool is a number: -1 and -2 are both true
            inner = condition(site, operand) if _is_surely_tensor(site, operand) else None
            return inner and f"~({inner})"
        case ast.BoolOp(op=op, values=values):
            parts = [condition(site, value) for value in values]
            sign = " & " if isinstance(op, ast.And) else " | "
            return None if None in parts or _guards_itself(node) else sign.join(f"({part})" for part in parts)
        case ast.Compare():
            return _comparison(site, node)
        case ast.Call(func=ast.Name(id="bool" | "float" | "int"), args=[inner_test]):
            return condition(site, inner_test)
        case ast.Call(func=ast.Attribute(value=owner, attr="item")):
            return condition(site, owner)
        case ast.Call(func=ast.Attribute(attr="equal"), args=[one, other]) if of_torch(node):
            return f"({site.source(one)} == {site.source(other)}).all()"
        case ast.Call(func=ast.Attribute(value=owner, attr="allclose") as function) if of_torch(node):
            return f"{site.edited(node, [(function, f'{dotted(owner)}.isclose')])}.all()"
    value = site.value_of(node.id) if isinstance(node, ast.Name) else node
    if value is not None and is_boolean(value):
        return site.source(node)
    return f"{site.source(node)} != 0" if site.is_tensor(node) else None


_SIZES = frozenset({"numel", "nelement", "len", "size", "shape", "dim", "ndim", "hasattr", "isinstance"})


def _guards_itself(node: ast.BoolOp) -> bool:
    """Whether a later part of `and` and `or` may be an error where an earlier one has decided."""
    asked = [n for value in node.values[:-1] for n in ast.walk(value)]
    later = [n for value in node.values[1:] for n in ast.walk(value)]
    sizes = any(getattr(n, "attr", "") in _SIZES or getattr(n, "id", "") in _SIZES for n in asked)
    risky = (ast.Subscript, ast.Div, ast.FloorDiv, ast.Mod)
    return sizes or any(isinstance(n, risky) or called(n) in ("masked_select", "div", "reciprocal") for n in later)


def _is_surely_tensor(site: Site, node: ast.expr) -> bool:
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=inner) | ast.Call(func=ast.Name(id="bool"), args=[inner, *_]):
            return _is_surely_tensor(site, inner)
        case ast.BoolOp(values=values):
            return any(_is_surely_tensor(site, value) for value in values)
    return site.is_tensor(node) or any(True for _ in _python_numbers(site, node)) or called(node) in _OF_A_TENSOR


def is_boolean(node: ast.expr) -> bool:
    """Return whether an expression on tensors is a tensor of bools."""
    match node:
        case ast.Compare(ops=[op]):
            return not isinstance(op, _NOT_ON_TENSORS)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return is_boolean(left) and is_boolean(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return is_boolean(operand)
        case ast.Call():
            return called(node) in BOOLEAN and is_pure_call(node)
    return False


def _comparison(site: Site, node: ast.Compare) -> str | None:
    if any(isinstance(op, _NOT_ON_TENSORS) for op in node.ops):
        return None
    changes = list(_python_numbers(site, node))
    if len(node.ops) == 1:
        return site.source(node, changes)
    terms = [site.source(t, [c for c in changes if c[0] in ast.walk(t)]) for t in (node.left, *node.comparators)]
    signs = [ast.unparse(ast.Compare(ast.Name("a"), [op], [ast.Name("b")]))[2:-2] for op in node.ops]
    return " & ".join(f"({a} {sign} {b})" for a, sign, b in zip(terms, signs, terms[1:], strict=False))


def _python_numbers(site: Site, node: ast.expr) -> Iterator[Change]:
    """Calls that make a Python number of a tensor, each with the tensor; random numbers with torch's own."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="item")):
            yield node, site.source(owner)
        case ast.Call(args=[tensor, *_]) if called(node) in ("float", "int") and site.is_tensor(tensor):
            yield node, f"({site.source(tensor)})"
        case ast.Call(func=function) if dotted(function) == "random.random":
            names = sorted({n.id for n in ast.walk(site.statement) if isinstance(n, ast.Name)} & site.tensors)
            device = next((f", device={n}.device" for n in names if site.defined_before(n)), "")
            yield node, f"{site.torch}.rand((){device})"
        case _:
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.expr):
                    yield from _python_numbers(site, part)
