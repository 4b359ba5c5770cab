"""How many dimensions a tensor has, as the file shows: of buffers and parameters, and of what is computed of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted

_OF_SIZES = frozenset({"empty", "ones", "rand", "randn", "zeros"})
_ALIKE = frozenset({
    "clone", "contiguous", "detach", "double", "float", "half", "normal_", "to", "type_as", "uniform_", "zero_",
})  # methods  # fmt: skip
_DEEPEST = 6


def rank(site: Site, node: ast.expr, deeper: int = _DEEPEST) -> int | None:
    """Return the number of dimensions of an expression; None where it does not show."""
    if not deeper:
        return None
    found: set[int | None] = set()
    match node:
        case ast.Name(id=name) if value := site.value_of(name):
            found = {rank(site, value, deeper - 1)}
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            found = {rank(site, value, deeper - 1) for value in _given(site, name)}
        case ast.Call():
            found = {_of_call(site, node, deeper)}
        case ast.UnaryOp(operand=operand):
            found = {rank(site, operand, deeper - 1)}
        case ast.Compare(left=left, comparators=[right]) | ast.BinOp(left=left, right=right):
            # What has none that is known is a number, as a rule.
            known = [one for side in (left, right) if (one := rank(site, side, deeper - 1)) is not None]
            found = {max(known, default=None)}
    return found.pop() if len(found) == 1 else None


def _of_call(site: Site, call: ast.Call, deeper: int) -> int | None:
    name = called(call)
    match call.args:
        case [ast.Tuple(elts=sizes), *_] if name in _OF_SIZES | {"full"}:
            return len(sizes)
        case [_, *_] if name in _OF_SIZES and not any(isinstance(one, (ast.Starred, ast.List)) for one in call.args):
            return len(call.args)
        case [value, *_] if name == "Parameter":
            return rank(site, value, deeper - 1)
    if name in _ALIKE and isinstance(call.func, ast.Attribute):
        return rank(site, call.func.value, deeper - 1)
    return None


def _given(site: Site, name: str) -> Iterator[ast.expr]:
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
