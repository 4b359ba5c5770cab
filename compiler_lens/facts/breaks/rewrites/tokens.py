"""Loops over the numbers of a tensor that change the elements they name, such as a penalty for tokens: all at once."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.assignments import OPERATORS
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, loads
from compiler_lens.recording.model import BreakCause

_PRICE = "each element is changed once, as by a set of the numbers, and all of them are within the tensor"
_AS_LISTS = frozenset({"as_tensor", "list", "sorted", "tensor", "tuple", "LongTensor"})
_SETS = frozenset({"set", "unique"})  # each number once


class _Numbers(Struct, frozen=True):
    """The numbers that a loop runs over: all of a row, or those that a mask chooses."""

    tensor: ast.expr
    mask: ast.expr | None = None
    row: ast.expr | None = None  # of the mask


def named_elements(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `for token in set(ids[b].tolist()): logits[b, token] /= penalty` for all elements, and a mask."""
    for outer in (*site.around, site.statement):
        match outer:
            case ast.For(target=ast.Name(id=row), iter=ast.Call(func=ast.Name(id="range"), args=[many]), orelse=[]):
                found = None if isinstance(many, ast.Constant) else _of_rows(site, outer, row, {})
            case ast.For(
                target=ast.Tuple(elts=[ast.Name(id=row), ast.Name(id=ids)]),
                iter=ast.Call(func=ast.Name(id="enumerate"), args=[rows], keywords=[]),
                orelse=[],
            ):
                found = _of_rows(site, outer, row, {ids: ast.Subscript(_as_tensor(rows), ast.Name(row), ast.Load())})
            case _:
                continue
        if found is not None:
            return found
    return None


def _of_rows(site: Site, outer: ast.For, row: str, given: Mapping[str, ast.expr]) -> Rewrite | None:
    *before, loop = outer.body
    values = {**given}
    for one in before:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name not in values:
                values[name] = value
            case _:
                return None
    match loop:
        case ast.For(target=ast.Name(id=number), iter=over, body=[change], orelse=[]):
            over = _resolved(over, values)
            numbers = _numbers(over, row, values) if _is_set(over, values) else None
        case (
            ast.Assign(targets=[ast.Subscript(slice=ast.Tuple(elts=[_, ast.Name(id=number)]))])
            | ast.AugAssign(target=ast.Subscript(slice=ast.Tuple(elts=[_, ast.Name(id=number)]))) as change
        ) if number in values:  # all at once: an element that is named twice is changed once
            numbers = _numbers(values[number], row, values)
        case _:
            return None
    element = next((n for n in ast.walk(change) if isinstance(n, ast.Subscript) and _is_element(n, row, number)), None)
    if numbers is None or element is None or not dotted(element.value):
        return None
    whole = site.source(element.value)
    read = {
        name: value for name, value in values.items() if isinstance(value, ast.Subscript) and _alike(value, element)
    }
    new = _changed(site, change, element, read)
    inner = [n for name in (row, number, *({*values} - {*read})) for n in loads(change, name)]
    every = [
        n for one in ast.walk(change) if isinstance(one, ast.Subscript) and _alike(one, element) for n in ast.walk(one)
    ]
    is_left = any(len(site.loads(name)) != len(loads(outer, name)) for name in (row, number, *values))
    if not new or not all(n in every for n in inner) or is_left:
        return None
    stores = site.uses().stores.get("seen", ())
    is_free = all(outer.lineno <= line <= (outer.end_lineno or 0) for line in stores)
    seen, ids = "seen" if stores and is_free else site.free("seen"), site.source(numbers.tensor)
    torch = site.torch
    if numbers.mask is None:
        line = f"{seen} = {torch}.zeros_like({whole}, dtype={torch}.bool).scatter(1, {ids}, True)"
    else:
        rows = [(numbers.row, site.source(numbers.row.value))] if isinstance(numbers.row, ast.Subscript) else []
        chosen = site.source(numbers.mask, rows)
        counted = f"{torch}.zeros_like({whole}).scatter_add(1, {ids}, ({chosen}).to({whole}.dtype))"
        line = f"{seen} = {counted} > 0"
    first = replace(site, statement=outer, following=())
    return first.rewrite([line, f"{whole}.copy_({torch}.where({seen}, {new}, {whole}))"], _PRICE)


def _as_tensor(rows: ast.expr) -> ast.expr:
    match rows:
        case ast.Call(func=ast.Attribute(value=inner, attr="tolist"), args=[]):
            return inner
    return rows


def _resolved(node: ast.expr, values: Mapping[str, ast.expr]) -> ast.expr:
    return values.get(node.id, node) if isinstance(node, ast.Name) else node


def _is_set(node: ast.expr, values: Mapping[str, ast.expr]) -> bool:
    """Whether numbers are each there once, as what is done for a number is done once then."""
    named = (values[n.id] for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in values)
    return any(called(call) in _SETS for one in (node, *named) for call in syntax.calls_in(one))


def _numbers(  # noqa: PLR0911 -- one for each kind of syntax
    node: ast.expr, row: str, values: Mapping[str, ast.expr]
) -> _Numbers | None:
    """Return `ids` of `set(ids[b].tolist())`, and `mask > 0` of `ids[b][mask[b] > 0].tolist()`."""
    match node:
        case ast.Name(id=name) if name in values:
            return _numbers(values[name], row, {k: v for k, v in values.items() if k != name})
        case ast.Call(args=[inner, *_]) if called(node) in _SETS | _AS_LISTS:
            return _numbers(inner, row, values)
        case ast.Call(func=ast.Attribute(value=inner, attr="tolist" | "unique" | "cpu" | "numpy" | "long"), args=[]):
            return _numbers(inner, row, values)
        case ast.Subscript(value=ast.Subscript() as inner, slice=chosen):
            found = _numbers(inner, row, values)
            rows = [n for n in ast.walk(chosen) if isinstance(n, ast.Subscript) and dotted(n.slice) == row]
            if found is None or found.mask is not None or len(rows) != 1 or len(loads(chosen, row)) != 1:
                return None
            return _Numbers(found.tensor, chosen, rows[0])
        case ast.Subscript(value=tensor, slice=ast.Name(id=name)) if name == row and dotted(tensor):
            return _Numbers(tensor)
    return None


def _is_element(node: ast.Subscript, row: str, number: str) -> bool:
    match node.slice:
        case ast.Tuple(elts=[ast.Name(id=first), ast.Name(id=second)]):
            return (first, second) == (row, number)
    match node:
        case ast.Subscript(value=ast.Subscript(slice=ast.Name(id=first)), slice=ast.Name(id=second)):
            return (first, second) == (row, number)
    return False


def _alike(one: ast.Subscript, other: ast.Subscript) -> bool:
    return ast.dump(one.value) == ast.dump(other.value) and ast.dump(one.slice) == ast.dump(other.slice)


def _changed(site: Site, change: ast.stmt, element: ast.Subscript, read: Collection[str] = ()) -> str:
    """Return what becomes of the elements, for all of them; empty where a statement does something else."""
    match change:
        case ast.If(test=test, body=[one], orelse=[other]):
            first, second = _changed(site, one, element), _changed(site, other, element)
            is_known = first and second and _asks_element(test, element)
            return f"{site.torch}.where({_whole(site, test, element)}, {first}, {second})" if is_known else ""
        case ast.If(test=test, body=[one], orelse=[]):
            first = _changed(site, one, element) if _asks_element(test, element) else ""
            kept = site.source(element.value)
            return f"{site.torch}.where({_whole(site, test, element)}, {first}, {kept})" if first else ""
        case ast.Assign(targets=[ast.Subscript() as target], value=value) if _alike(target, element):
            return _whole(site, value, element, read)
        case ast.AugAssign(target=ast.Subscript() as target, op=op, value=value) if _alike(target, element):
            if type(op) in OPERATORS:
                text = _whole(site, value, element, read)
                text = text if isinstance(value, (ast.Name, ast.Constant, ast.Attribute)) else f"({text})"
                return f"{site.source(element.value)} {OPERATORS[type(op)]} {text}"
    return ""


def _asks_element(test: ast.expr, element: ast.Subscript) -> bool:
    """Whether a test compares an element with a number, and asks for nothing else."""
    match test:
        case ast.Compare(left=ast.Subscript() as left, comparators=[right]):
            return _alike(left, element) and isinstance(right, (ast.Constant, ast.UnaryOp, ast.Name))
    return False


def _whole(site: Site, node: ast.expr, element: ast.Subscript, read: Collection[str] = ()) -> str:
    """Return what an expression is with all elements in place of the ones named, also where a name stands for these."""
    named = [n for n in ast.walk(node) if isinstance(n, ast.Subscript) and _alike(n, element)]
    names = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in read]
    changes: Sequence[Change] = [(n, site.source(element.value)) for n in (*named, *names)]
    return site.source(node, changes)
