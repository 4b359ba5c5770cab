"""Whether an error of a line may be caught: around the line, or around a call of its function in the same file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called

_HANDLING = tuple(kind for name in ("Try", "TryStar") if (kind := getattr(ast, name, None)) is not None)
_CATCHING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})  # context managers
_CALLED_BY_NAME_OF_THE_CLASS = ("forward", "__call__")
_MOST_ROUNDS = 10


def is_handled(site: Site) -> bool:
    """Return whether a handler stands around the statement in its own function, which may count on what it raises."""
    return any(isinstance(one, _HANDLING) or _is_catching(one) for one in site.around)


def is_handled_by_a_caller(site: Site) -> bool:
    """Return whether the file calls the statement's function where an error is caught, directly or through others."""
    tree = parsed(site.text)
    if tree is None or site.function is None:
        return False
    home = next((name for name, function in _functions(tree) if function is site.function), "")
    known = {home, site.function.name}
    for _ in range(_MOST_ROUNDS):
        reached = {name for name, function in _functions(tree) if _calls(function) & known}
        named = {target for target, value in _assigned(tree) if value & known}
        if reached | named <= known:
            break
        known |= reached | named
    return any(calls & known for calls in _guarded(tree))


def _is_catching(statement: ast.AST) -> bool:
    match statement:
        case ast.With(items=items):
            return any(called(item.context_expr) in _CATCHING for item in items)
    return False


@lru_cache(maxsize=4)
def _functions(tree: ast.Module) -> Sequence[tuple[str, syntax.Function]]:
    """Return each function with what it is called by: of `forward` the name of the class."""
    classes = {n: one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for n in one.body}
    functions = [n for n in ast.walk(tree) if isinstance(n, syntax.Function)]
    return [(classes.get(f, f.name) if f.name in _CALLED_BY_NAME_OF_THE_CLASS else f.name, f) for f in functions]


@lru_cache(maxsize=256)
def _calls(node: ast.AST) -> frozenset[str]:
    return frozenset(called(call) for call in syntax.calls_in(node)) - {""}


@lru_cache(maxsize=4)
def _assigned(tree: ast.Module) -> Sequence[tuple[str, frozenset[str]]]:
    """Return the names of what is assigned, each with the names in its value: `fast = torch.compile(model)`."""
    return list(_named(tree))


def _named(tree: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.For(target=target, iter=value):
                targets = [target]
            case _:
                continue
        words = frozenset(getattr(n, key, "") for n in ast.walk(value) for key in ("id", "attr")) - {""}
        names = (n for target in targets for n in ast.walk(target) if isinstance(n, (ast.Name, ast.Attribute)))
        yield from ((n.id if isinstance(n, ast.Name) else n.attr, words) for n in names if _is_stored(n))


def _is_stored(node: ast.Name | ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


@lru_cache(maxsize=4)
def _guarded(tree: ast.Module) -> Sequence[frozenset[str]]:
    """Return what is called within each `try` that has a handler, and within what catches errors as one has."""
    found: list[frozenset[str]] = []
    for node in ast.walk(tree):
        is_try = isinstance(node, _HANDLING) and bool(getattr(node, "handlers", ()))
        if is_try or _is_catching(node):
            found.append(frozenset(name for one in getattr(node, "body", ()) for name in _calls(one)))
    return found
