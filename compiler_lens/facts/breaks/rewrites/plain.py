"""Which values are numbers and texts that stay, as a file shows: Dynamo writes them into a text as it traces."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from compiler_lens.facts.breaks.rewrites.others import given_to
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import Function, dotted, parameters

_ANNOTATED = frozenset({"bool"})  # a number, or a text, may be another in each call, which then compiles again
_DEEPEST = 5  # functions that hand one on


def is_plain_text(site: Site, text: ast.JoinedStr) -> bool:
    """Return whether an f-string has nothing but words, and attributes and parameters that are numbers and texts."""
    tree = parsed(site.text)
    parts = [part for part in text.values if isinstance(part, ast.FormattedValue)]
    words = "".join(str(part.value) for part in text.values if isinstance(part, ast.Constant))
    return tree is not None and bool(parts and words.strip()) and all(_is_written(tree, site, part) for part in parts)


def is_plain(tree: ast.Module, node: ast.expr) -> bool:
    """Return whether an expression, or an attribute of any object's, is a number or a text that stays the same."""
    return _is_plain(tree, _functions(tree).get(node), node, _DEEPEST)


def _is_written(tree: ast.Module, site: Site, part: ast.FormattedValue) -> bool:
    spec = part.format_spec
    is_fixed = not isinstance(spec, ast.JoinedStr) or all(isinstance(one, ast.Constant) for one in spec.values)
    is_name = bool(dotted(part.value)) and not site.is_tensor(part.value)
    return is_fixed and is_name and _is_plain(tree, site.function, part.value, _DEEPEST)


def _is_plain(tree: ast.Module, function: Function | None, node: ast.expr, depth: int) -> bool:
    """Return whether an expression in a function is a number, a text or a bool, which is the same in each call."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, (bool, float, int, str))
        case ast.JoinedStr():
            return True
        case ast.Name(id=name) if depth and function is not None:
            return _is_plain_parameter(tree, function, name, depth)
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if depth:
            values = _attributes(tree).get(name, ())
            return bool(values) and all(
                one is not None and value is not None and _is_plain(tree, one, value, depth - 1)
                for one, value in values
            )
    return False


def _is_plain_parameter(tree: ast.Module, function: Function, name: str, depth: int) -> bool:
    stored = (n for n in ast.walk(function) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    if name not in parameters(function) or name in {n.id for n in stored}:
        return False
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    if any(one.arg == name and one.annotation and dotted(one.annotation) in _ANNOTATED for one in every):
        return True
    given = [value for key, value in given_to(tree, function) if key == name]
    around = _functions(tree)
    return bool(given) and all(_is_plain(tree, around.get(value), value, depth - 1) for value in given)


@lru_cache(maxsize=4)
def _functions(tree: ast.Module) -> Mapping[ast.AST, Function]:
    """Return the innermost function around each expression of a file."""
    functions = (one for one in ast.walk(tree) if isinstance(one, Function))  # outer ones before those inside of them
    return {n: one for one in functions for n in ast.walk(one) if isinstance(n, ast.expr)}


@lru_cache(maxsize=4)
def _attributes(tree: ast.Module) -> Mapping[str, Sequence[tuple[Function | None, ast.expr | None]]]:
    """Return what a file assigns to attributes by name, each with the `__init__` that does; None of what is unknown."""
    found: dict[str, list[tuple[Function | None, ast.expr | None]]] = {}
    values = dict(_assigned(tree))
    functions = _functions(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            function = functions.get(node)
            is_made = function is not None and function.name == "__init__"
            found.setdefault(node.attr, []).append((function if is_made else None, values.get(node)))
    return found


def _assigned(tree: ast.Module) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Tuple(elts=names)], value=ast.Tuple(elts=values)) if len(names) == len(values):
                yield from zip(names, values, strict=True)
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value
