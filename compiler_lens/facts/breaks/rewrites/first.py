"""A branch that changes what an object keeps: `torch.where` would do that in each call; it may be for a first one."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.remedies import Shown
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import Function, called, calls_in, dotted

_NAMES = ("init", "first")  # what a flag is called that the caller sets


def changing(site: Site, branch: ast.If) -> Shown | None:
    """Return whether a branch sets state up once, or changes it; None where its text shows neither."""
    is_left = isinstance(branch.body[0], ast.Return) and branch.body[0].value is None and not branch.orelse
    rest = site.following if is_left else branch.body  # what runs at first
    asked, changed = _flags(branch.test), set(_changed(rest))
    with_methods = changed | set(_changed(methods_called(site, rest)))
    is_named = any(word in flag.rpartition(".")[2] for flag in asked for word in _NAMES)
    is_asked = [_asks(branch.test, is_set=is_set) for is_set in (is_left, not is_left)]
    if (is_asked[0] and asked & with_methods) or (any(is_asked) and is_named and with_methods):
        return Shown.INITIALISES
    return Shown.CHANGES if changed and not is_left else None


def _flags(test: ast.expr) -> set[str]:
    return {name for node in ast.walk(test) if isinstance(node, ast.Attribute) and (name := _kept(node))}


def _asks(test: ast.expr, *, is_set: bool) -> bool:
    """Whether a part of a test asks if a flag of an object's is set, or if it is not."""
    match test:
        case ast.BoolOp(values=values):
            return any(_asks(one, is_set=is_set) for one in values)
        case (
            ast.UnaryOp(op=ast.Not(), operand=inner)
            | ast.Compare(left=inner, ops=[ast.Lt()], comparators=[ast.Constant(value=1)])
        ):
            return _asks(inner, is_set=not is_set)
        case ast.Compare(left=left, ops=[ast.Eq() | ast.Is()], comparators=[ast.Constant(value=0 | 1 as wanted)]):
            return _asks(left, is_set=is_set == bool(wanted))
        case (
            ast.Call(func=ast.Name(id="bool" | "int"), args=[inner])
            | ast.Call(func=ast.Attribute(value=inner, attr="item" | "bool" | "all" | "any"), args=[])
            | ast.Subscript(value=inner)
        ):
            return _asks(inner, is_set=is_set)
    return is_set and "." in dotted(test)


def _kept(node: ast.AST) -> str:
    """Return the attribute that a tensor or a part of one is kept in: `self.table` of `self.table.data[0]`."""
    while isinstance(node, ast.Subscript) or (isinstance(node, ast.Attribute) and node.attr == "data"):
        node = node.value
    name = dotted(node)
    return name if "." in name else ""


def _changed(statements: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield the attributes that statements assign, or change in place."""
    for node in (inner for one in statements for inner in ast.walk(one)):
        match node:
            case ast.Assign(targets=targets):
                yield from filter(None, map(_kept, targets))
            case ast.AugAssign(target=target):
                yield from filter(None, [_kept(target)])
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name.endswith("_") and name[:1] != "_":
                yield from filter(None, [_kept(owner)])


def methods_called(site: Site, statements: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    """Return the bodies of the file's methods that statements call of `self`, by name."""
    names = {called(call) for one in statements for call in calls_in(one) if dotted(call.func).startswith("self.")}
    tree = parsed(site.text) if names else None
    found = [node for node in ast.walk(tree) if isinstance(node, Function) and node.name in names] if tree else ()
    return [statement for method in found for statement in method.body]
