"""Slices that begin at a tensor's number, `queue[:, ptr : ptr + n] = keys`: by the places, which a graph can count."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, dotted, loads, targets
from compiler_lens.recording.model import BreakCause

_PRICE = "the places are within the tensor, and what is written has as many rows as the slice"
_MOST = 40  # statements


class _Window(Struct, frozen=True):
    """A slice of a tensor that begins at a number."""

    node: ast.Subscript
    dim: int
    many: ast.expr  # how many places


def window(site: Site, _cause: BreakCause) -> Rewrite | None:  # noqa: PLR0911 -- one for each reason
    """Keep `ptr = int(self.ptr)` a tensor, and write and read what begins there by its places."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if site.function is not None:
            number = _of_number(value)
        case _:
            return None
    every = site.loads(name)
    if number is None or not every or site.escapes(name):
        return None
    following = site.following[:_MOST]
    last = max((n for n, one in enumerate(following) if loads(one, name)), default=-1)
    statements = following[: last + 1]
    again = [one for one in statements if isinstance(one, ast.Assign) and name in targets(one) and loads(one, name)]
    if len(site.uses().stores.get(name, ())) != 1 + len(again):
        return None
    if sum(len(loads(one, name)) for one in statements) != len(every):
        return None
    written = [n for n, one in enumerate(statements) if _writes(one, dotted(number))]
    own = ".clone()" if any(loads(one, name) for one in statements[min(written, default=len(statements)) + 1 :]) else ""
    lines, is_window = [f"{name} = {site.source(number)}{own}"], False
    for one in statements:
        windows = list(_windows(one, name))
        inside = {n for found in windows for n in ast.walk(found.node)}
        others = [n for n in loads(one, name) if n not in inside]
        if not isinstance(one, SIMPLE) and loads(one, name):
            return None
        if not all(_is_reckoned(site, n) for n in others):
            return None
        is_window |= bool(windows)
        lines += _written(site, one, windows, name)
    return site.rewrite(lines, _PRICE, last=statements[-1]) if is_window and statements else None


def _writes(one: ast.stmt, name: str) -> bool:
    """Whether a statement may change a tensor in place."""
    named = [n for n in ast.walk(one) if isinstance(n, ast.Attribute | ast.Name) and dotted(n) == name]
    is_assigned = isinstance(one, ast.Assign) and any(dotted(target) == name for target in one.targets)
    return bool(named) and not is_assigned


def _written(site: Site, one: ast.stmt, windows: list[_Window], name: str) -> list[str]:
    match one:
        case ast.Assign(targets=[ast.Subscript() as target], value=value) if [w.node for w in windows] == [target]:
            owner = site.source(target.value)
            given = f"{site.atom(value)}.to({owner}.dtype)"  # as a slice takes any dtype
            return [f"{owner}.index_copy_({_places(site, windows[0], name)}, {given})"]
    changes: list[Change] = [
        (w.node, f"{site.source(w.node.value)}.index_select({_places(site, w, name)})") for w in windows
    ]
    return site.dedented(one, changes)


def _places(site: Site, one: _Window, name: str) -> str:
    owner = site.source(one.node.value)
    return f"{one.dim}, {name} + {site.torch}.arange({site.source(one.many)}, device={owner}.device)"


def _of_number(node: ast.expr) -> ast.expr | None:
    """Return `x` of `int(x)`, `x.item()` and `int(x.item())`, where that is a name or an attribute."""
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _of_number(inner) or (inner if dotted(inner) else None)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
            return inner if dotted(inner) else None
    return None


def _windows(one: ast.stmt, name: str) -> Iterator[_Window]:
    for node in ast.walk(one):
        if not isinstance(node, ast.Subscript) or not dotted(node.value):
            continue
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
        for place, part in enumerate(parts):
            match part:
                case ast.Slice(
                    lower=ast.Name(id=begin),
                    upper=ast.BinOp(left=ast.Name(id=again), op=ast.Add(), right=many),
                    step=None,
                ) if begin == again == name and not loads(many, name):
                    pass
                case _:
                    continue
            others = [*parts[:place], *parts[place + 1 :]]
            if all(ast.unparse(other) in (":", "...", "Ellipsis") for other in others):
                is_after = any(ast.unparse(other) in ("...", "Ellipsis") for other in parts[:place])
                yield _Window(node, place - len(parts) if is_after else place, many)


def _is_reckoned(site: Site, node: ast.expr) -> bool:
    """Whether something is computed with a number, and that is assigned: a tensor does as well."""
    parents = site.parents()
    above = parents.get(node)
    while isinstance(above, ast.BinOp):
        above = parents.get(above)
    return isinstance(above, ast.Assign) and called(above.value) == ""
