"""How many dimensions a tensor has, as the file shows: of buffers and parameters, and of what is computed of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import suppress

from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, of_torch

_OF_SIZES = frozenset({"empty", "ones", "rand", "randn", "zeros"})
_ALIKE = frozenset({
    "clone", "contiguous", "detach", "double", "float", "half", "normal_", "to", "type_as", "uniform_", "zero_",
})  # methods  # fmt: skip
# Methods with a dimension, which they take away, or add.
_FEWER = frozenset({
    "all", "amax", "amin", "any", "argmax", "argmin", "logsumexp", "mean", "prod", "sum", "unsqueeze",
})  # fmt: skip
_DEEPEST = 6


def rank(site: Site, node: ast.expr, deeper: int = _DEEPEST) -> int | None:
    """Return the number of dimensions of an expression; None where it does not show."""
    if not deeper:
        return None
    if (seen := site.dims_of(dotted(node))) is not None:
        return seen
    found: set[int | None] = set()
    match node:
        case ast.Name(id=name) if value := site.value_of(name):
            found = {rank(site, value, deeper - 1)}
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            found = {rank(site, value, deeper - 1) for value in given(site, name)}
        case ast.Call():
            found = {_of_call(site, node, deeper)}
        case ast.Subscript(value=value, slice=index):
            found = {_indexed(rank(site, value, deeper - 1), index)}
        case ast.UnaryOp(operand=operand):
            found = {rank(site, operand, deeper - 1)}
        case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
            # What has none that is known is a number, as a rule.
            known = [one for side in (left, right) if (one := rank(site, side, deeper - 1)) is not None]
            found = {max(known, default=None)}
    return found.pop() if len(found) == 1 else None


def _of_call(site: Site, call: ast.Call, deeper: int) -> int | None:  # noqa: PLR0911 -- one for each kind of call
    name = called(call)
    match call.args:
        case [ast.Tuple(elts=sizes), *_] if name in _OF_SIZES | {"full"}:
            return len(sizes)
        case [one] if name in _OF_SIZES and _is_shape(one):
            return None
        case [_, *_] if name in _OF_SIZES and not any(isinstance(one, (ast.Starred, ast.List)) for one in call.args):
            return len(call.args)
        case [value, *_] if name == "Parameter":
            return rank(site, value, deeper - 1)
    match call.args:
        case [ast.List(elts=[first, *_]) | ast.Tuple(elts=[first, *_]), *_] if name in ("cat", "concat", "stack"):
            dims = rank(site, first, deeper - 1)
            return dims + (name == "stack") if dims is not None else None
    if name in _FEWER and isinstance(call.func, ast.Attribute) and not of_torch(call):
        return _along(call, rank(site, call.func.value, deeper - 1))
    if name in _ALIKE and isinstance(call.func, ast.Attribute):
        return rank(site, call.func.value, deeper - 1)
    return None


def _is_shape(node: ast.expr) -> bool:
    """Whether an argument is all sizes at once: `x.shape`, `x.size()`, `x.shape[:-1] + (n,)`."""
    match node:
        case ast.Attribute(attr="shape") | ast.Call(func=ast.Attribute(attr="size"), args=[]):
            return True
        case ast.Subscript(value=value, slice=ast.Slice()):
            return _is_shape(value)
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return isinstance(right, ast.Tuple) or _is_shape(left) or _is_shape(right)
    return False


def _indexed(dims: int | None, index: ast.expr) -> int | None:
    """Return how many dimensions are left, and new, of some that numbers and slices are taken of."""
    for one in index.elts if isinstance(index, ast.Tuple) else [index]:
        match one:
            case ast.Slice():
                pass
            case ast.Constant(value=value) if value is Ellipsis:
                pass
            case ast.Constant(value=None) if dims is not None:
                dims += 1
            case ast.Constant(value=int()) | ast.UnaryOp(operand=ast.Constant()) if dims is not None:
                dims -= 1
            case _:
                return None
    return dims


def _along(call: ast.Call, dims: int | None) -> int | None:
    """Return how many dimensions a method's result has, of one that has some."""
    is_added = called(call) == "unsqueeze"
    if not call.args and not call.keywords:
        return None if is_added else 0
    is_one = len(call.args) + len(call.keywords) == 1 and isinstance(_number_of(call), int)
    if dims is None or not is_one:
        return None
    return dims + 1 if is_added else dims - 1


def _number_of(call: ast.Call) -> object:
    """Return the one argument of a call, where it is a number that its text shows; else None."""
    for node in (*call.args, *(k.value for k in call.keywords if k.arg in ("dim", "axis"))):
        with suppress(ValueError):
            return ast.literal_eval(node)
    return None


def given(site: Site, name: str) -> Iterator[ast.expr]:
    """Yield what a file gives an attribute, or a buffer or parameter of that name."""
    tree = parsed(site.text)
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Assign(targets=targets, value=value) if f"self.{name}" in map(dotted, targets):
                yield value
            case ast.Call(args=[ast.Constant(value=key), value, *_]) if key == name and called(node) in {
                "register_buffer", "register_parameter",
            }:  # fmt: skip
                yield value
