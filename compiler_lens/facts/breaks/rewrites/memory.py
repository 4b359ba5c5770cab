"""Whether it shows that a name has a new tensor where it may have had another's memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import called, is_number

# What these give is what they are called on, or shares its memory, or may.
SHARING = frozenset({
    "view", "reshape", "t", "transpose", "permute", "squeeze", "unsqueeze", "expand", "flatten", "select", "detach",
    "contiguous", "to", "float", "double", "half", "type_as", "long", "int", "bool", "view_as", "reshape_as",
    "expand_as", "narrow", "unflatten", "movedim", "diagonal", "swapaxes", "cpu", "cuda", "unbind", "split", "chunk",
})  # fmt: skip
KEEPING = frozenset({"append", "extend", "insert", "add", "setdefault", "update", "put"})
_GROUPS = (ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Starred, ast.IfExp, ast.NamedExpr)
_MOST_NAMES = 50
_MOST_VALUES = 50
_DEEPEST = 5  # names that are one another's


class _Writes(Struct, frozen=True):
    """What a function writes in place, by the name of what is written, or of what that is a view of."""

    lines: Mapping[str, Sequence[int]]
    augmented: Mapping[str, Sequence[int]]  # lines of `x += 1`
    views: Mapping[str, Sequence[str]]  # names that are assigned the value of a name, or a view of it, and the reverse


def may_share(site: Site, node: ast.expr, depth: int = _DEEPEST) -> bool:
    """Return whether a value may be a tensor that others hold, or a view of one."""
    root = _root(node)
    if root is None or is_number(node):
        return False
    return not isinstance(root, ast.Name) or not is_own(site, root.id, depth)


def is_own(site: Site, name: str, depth: int = _DEEPEST) -> bool:
    """Return whether what a name has at the statement was made for it, and has no other name."""
    uses, function = site.uses(), site.function
    if function is None or not depth or site.escapes(name):
        return False
    begin = _assigned_for_sure(site, function, name)
    if not begin and name in syntax.parameters(function):
        return False
    values = [n for n in uses.values.get(name, ()) if _is_between(site, begin, n)]
    changed = [n for n in _writes(function).augmented.get(name, ()) if _is_line_between(site, begin, n)]
    stores = [n for n in uses.stores.get(name, ()) if _is_line_between(site, begin, n)]
    if not values or len(values) > _MOST_VALUES or len(stores) != len(values) + len(changed):
        return False
    if any(may_share(site, one, depth - 1) if _root(one) is not None else not _is_new(one) for one in values):
        return False
    return not any(is_kept(site, read) for read in site.loads(name) if _is_between(site, begin + 1, read))


def _assigned_for_sure(site: Site, function: syntax.Function, name: str) -> int:
    """Return the line of the last assignment to a name that comes before the statement on every way; 0 for none."""
    found = 0
    for outer in (function, *site.around):
        for block in (getattr(outer, field, ()) for field in ("body", "orelse", "finalbody")):
            if not block or not block[0].lineno <= site.line <= (block[-1].end_lineno or 0):
                continue
            before = (n for n in block if isinstance(n, ast.Assign) and (n.end_lineno or 0) < site.statement.lineno)
            found = max([found, *(n.lineno for n in before if syntax.targets(n) == [name])])
    return found


def _is_between(site: Site, begin: int, node: ast.expr | ast.stmt) -> bool:
    return _is_line_between(site, begin, node.lineno)


def _is_line_between(site: Site, begin: int, line: int) -> bool:
    """Whether a line runs after one, and before the statement, which may come again in a loop."""
    loops = [n for n in site.around if isinstance(n, (ast.For, ast.While)) and n.lineno > begin]
    is_again = bool(loops) and loops[0].lineno <= line <= (loops[0].end_lineno or 0)
    return is_again or begin <= line < site.statement.lineno


def is_kept(site: Site, node: ast.expr) -> bool:  # noqa: C901, PLR0911 -- one for each kind of syntax
    """Return whether a value itself, or a view of it, is returned or gets another name."""
    child: ast.AST = node
    parent = site.parents().get(child)
    while parent is not None:
        match parent:
            case ast.Return() | ast.Yield() | ast.YieldFrom():
                return True
            case ast.Assign(value=value) | ast.AnnAssign(value=value):
                return value is child
            case ast.Call() if child in (*parent.args, *parent.keywords):
                name = called(parent)
                return name in KEEPING or name[:1].isupper()  # a class keeps what it is given
            case ast.Call():
                pass  # of a method that `child` names
            case ast.Attribute(attr=name):
                is_called = isinstance(site.parents().get(parent), ast.Call)
                if not (name in SHARING if is_called else name in ("T", "mT", "H", "data", "real")):
                    return False
            case ast.Subscript(value=value) if value is child:
                pass
            case ast.expr() if not isinstance(parent, _GROUPS):
                return False
            case ast.stmt():
                return False
        child, parent = parent, site.parents().get(parent)
    return False


def is_written_later(site: Site, names: Sequence[str]) -> bool:
    """Return whether a name, or a view of it, is written in place after the statement, as far as its function shows."""
    if site.function is None:
        return False
    writes, left, known = _writes(site.function), list(names), set(names)
    while left and len(known) < _MOST_NAMES:
        name = left.pop()
        if any(_is_line_come_to(site, line) for line in writes.lines.get(name, ())):
            return True
        left += [view for view in writes.views.get(name, ()) if view not in known]
        known.update(left)
    return False


def is_kept_later(site: Site, name: str) -> bool:
    """Return whether what a name has after the statement is returned, or gets another name."""
    return site.escapes(name) or any(is_kept(site, n) for n in site.loads(name) if is_come_to(site, n))


def is_as_it_was(site: Site, value: ast.expr) -> bool:
    """Return whether what a value was computed of before the statement is the same now."""
    if site.function is None:
        return False
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    if any(map(site.escapes, names)):
        return False
    stores, writes = site.uses().stores, _writes(site.function).lines
    lines = (line for name in names for line in (*stores.get(name, ()), *writes.get(name, ())))
    return value.lineno < site.statement.lineno and not any(value.lineno < n < site.statement.lineno for n in lines)


def root_name(node: ast.expr) -> str:
    """Return the name of what a value is, or is a view of; empty if it is a new one."""
    root = _root(node)
    return root.id if isinstance(root, ast.Name) else ""


def _root(node: ast.expr) -> ast.expr | None:
    """Return the name or attribute that a value is, or is a view of; None if it is a new one, or a number."""
    match node:
        case ast.Name() | ast.Attribute(value=ast.Name(id="self")):
            return node
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return _root(value)
        case ast.Call(func=ast.Attribute(value=value), args=args) if called(node) in SHARING:
            if syntax.of_torch(node):
                return _root(args[0]) if args else None
            return _root(value)
        case ast.IfExp(body=one, orelse=other):
            return _root(one) or _root(other)
    return None


def _is_new(node: ast.expr) -> bool:
    match node:
        case ast.Call():
            return syntax.is_pure_call(node)
    return isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Compare, ast.Constant))


def is_come_to(site: Site, read: ast.expr) -> bool:
    """Return whether a name may be read after the statement: a loop comes again, a function within runs any time."""
    return _is_line_come_to(site, read.lineno) or (site.function is not None and read in _within_others(site.function))


@lru_cache(maxsize=16)
def _within_others(function: syntax.Function) -> frozenset[ast.AST]:
    """Return the names in functions within a function."""
    inner = (n for n in ast.walk(function) if isinstance(n, syntax.Function | ast.Lambda) and n is not function)
    return frozenset(n for one in inner for n in ast.walk(one) if isinstance(n, ast.Name))


def _is_line_come_to(site: Site, line: int) -> bool:
    """Whether a line is run after the statement, which may be in a loop around both."""
    loops = [one for one in site.around if isinstance(one, (ast.For, ast.While))]
    if loops and loops[0].lineno <= line <= (loops[0].end_lineno or 0):
        return True
    return line > (site.statement.end_lineno or site.statement.lineno)


@lru_cache(maxsize=16)
def _writes(function: syntax.Function) -> _Writes:
    lines: dict[str, list[int]] = {}
    augmented: dict[str, list[int]] = {}
    views: dict[str, list[str]] = {}
    for node in ast.walk(function):
        for name in _written(node):
            lines.setdefault(name.id, []).append(name.lineno)
        match node:
            case ast.AugAssign(target=ast.Name(id=changed)):
                augmented.setdefault(changed, []).append(node.lineno)
            case ast.Assign(value=value) if root := root_name(value):
                views.setdefault(root, []).extend(syntax.targets(node))
                for target in syntax.targets(node):
                    views.setdefault(target, []).append(root)
    return _Writes(lines, augmented, views)


def _written(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names of what a statement, or a call, writes in place."""
    written: list[ast.expr] = []
    match node:
        case ast.AugAssign(target=target):
            written = [target]
        case ast.Assign(targets=several):
            written = [t for t in several if isinstance(t, (ast.Subscript, ast.Attribute))]
        case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=keywords):
            name = called(node)
            if (name.endswith("_") and not name.endswith("__")) or any(k.arg == "inplace" for k in keywords):
                written = [owner, *args[:1]]
            written += [k.value for k in keywords if k.arg == "out"]
    for one in written:
        if isinstance(root := _root(one), ast.Name):
            yield root
