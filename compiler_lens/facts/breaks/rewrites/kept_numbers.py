"""Numbers of tensors that a program computes on with: tensors without dimensions do, where a trial shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted
from compiler_lens.recording.model import BreakCause

_PRICE = "what asks for the number gets a tensor without dimensions, which prints as one, and which JSON does not take"
_OF_MATH = "; where `math` raises an error, torch gives nan or infinity"
_MATH = frozenset({"cos", "exp", "isfinite", "isinf", "isnan", "log", "log10", "log2", "sin", "sqrt", "tan", "tanh"})
_DOUBLE = f"{_PRICE}; it is of float64, as the number was"


def kept_in_tensor(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `x.detach()` for `x.item()` where the number is given on, or kept."""
    return _kept(site, ".detach()", _PRICE)


def kept_as_double(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write the same with as many digits as Python's number has."""
    return _kept(site, ".detach().double()", _DOUBLE)


def _kept(site: Site, written: str, price: str) -> Rewrite | None:
    if not isinstance(site.statement, (ast.Return, ast.Assign, ast.AugAssign)):
        return None
    changes: list[Change] = []
    others: list[Change] = []  # of which it does not show that they are of tensors
    for call in calls_in(site.statement):
        match call:
            case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
                changes.append((call, f"{site.atom(inner)}{written}"))
            case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]) if not _has_item(inner):
                is_sure = site.is_tensor(inner)
                (changes if is_sure else others).append((call, f"{site.atom(inner)}{written}"))
            case ast.Call(func=ast.Name(id="int" | "round" | "str" | "format" | "print")):
                return None
    if not changes and len(others) == 1:  # torch says that one is
        changes = others
    functions = list(_of_math(site, [node for node, _ in changes]))
    is_text = any(isinstance(n, (ast.JoinedStr, ast.Slice)) for n in ast.walk(site.statement))
    return None if is_text else site.edit([*changes, *functions], price + (_OF_MATH if functions else ""))


def _of_math(site: Site, numbers: Sequence[ast.AST]) -> Iterator[Change]:
    """Yield functions of `math` that are asked for what is computed of numbers, as those of torch."""
    found: dict[ast.expr, str] = {}
    for number in numbers:
        node = site.parents().get(number)
        while isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)):
            match node:
                case ast.Call(func=function, args=[_], keywords=[]) if _is_of_math(function):
                    found[function] = f"{site.torch}.{called(node)}"
                case ast.Call():
                    break
            node = site.parents().get(node)
    yield from found.items()


def _is_of_math(function: ast.expr) -> bool:
    module, _, name = dotted(function).rpartition(".")
    return module == "math" and name in _MATH


def _has_item(node: ast.expr) -> bool:
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "item" for call in calls_in(node))
