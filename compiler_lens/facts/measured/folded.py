"""A number that is compared with itself: torch takes one that it does not know for equal to itself, and sees no nan.

`if v != v:` is false then in compiled code, whatever `v` is (torch 2.13, under `capture_scalar_outputs`), and nothing
says so. `math.isnan(v)` asks the same, and breaks the graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import called

_NUMBERS = frozenset({"item", "float", "int"})  # calls that give a number
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def asks_by_name(text: str) -> tuple[str, bool] | None:
    """Return a text in which `math.isnan` asks, and whether it does anywhere; None where that cannot be said for sure.

    What is compared with itself where nothing is decided is a tensor's elements, and stays.
    """
    tree = parsed(text) if "!=" in text or "==" in text else None
    found = list(_compared(tree)) if tree else []
    if any(not is_number or node.lineno != node.end_lineno for node, is_number in found):
        return None
    lines = [line.encode() for line in text.split("\n")]
    for node in sorted((node for node, _ in found), key=lambda one: (one.lineno, one.col_offset), reverse=True):
        line, asked = lines[node.lineno - 1], f"math.isnan({ast.unparse(node.left)})"
        new = asked if isinstance(node.ops[0], ast.NotEq) else f"(not {asked})"
        lines[node.lineno - 1] = line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
    return b"\n".join(lines).decode(), bool(found)


def _compared(tree: ast.Module) -> Iterator[tuple[ast.Compare, bool]]:
    """Yield what is compared with itself and decides something, and whether it is a number for sure."""
    for function, numbers in _functions(tree):
        for node in _within(function):
            for test in _tests(node):
                yield from ((one, _is_number(one.left, numbers)) for one in _parts(test) if _is_of_itself(one))


def _functions(tree: ast.Module) -> Iterator[tuple[ast.AST, frozenset[str]]]:
    """Yield the scopes of a text, with the names that are numbers wherever they are written there."""
    for scope in (tree, *(n for n in ast.walk(tree) if isinstance(n, _SCOPES))):
        given: dict[str, list[bool]] = {}
        for node in _within(scope):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    given.setdefault(name, []).append(called(value) in _NUMBERS)
                case ast.Name(id=name, ctx=ast.Store()):
                    given.setdefault(name, [])
        yield scope, frozenset(name for name, values in given.items() if values and all(values))


def _within(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what is in a scope, and in none inside of it."""
    left: list[ast.AST] = list(ast.iter_child_nodes(scope))
    while left:
        node = left.pop()
        if not isinstance(node, _SCOPES):
            yield node
            left.extend(ast.iter_child_nodes(node))


def _tests(node: ast.AST) -> Sequence[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return (test,)
    return ()


def _parts(test: ast.expr) -> Iterator[ast.Compare]:
    match test:
        case ast.BoolOp(values=values):
            for one in values:
                yield from _parts(one)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield from _parts(operand)
        case ast.Compare():
            yield test


def _is_of_itself(node: ast.Compare) -> bool:
    is_one = len(node.ops) == 1 and isinstance(node.ops[0], (ast.NotEq, ast.Eq))
    return is_one and ast.dump(node.left) == ast.dump(node.comparators[0])


def _is_number(node: ast.expr, numbers: frozenset[str]) -> bool:
    return node.id in numbers if isinstance(node, ast.Name) else called(node) in _NUMBERS
