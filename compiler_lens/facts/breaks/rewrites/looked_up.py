"""A list of what a table of the module's has for each number of a tensor: the table as a tensor, which that indexes."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, of_torch
from compiler_lens.recording.model import BreakCause

_LARGEST = 4096  # keys: as many numbers are in the graph
_PLACES = frozenset({"cpu", "detach", "numpy", "tolist"})


def looked_up(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `torch.tensor([TABLE[int(n)] for n in x])` as one lookup, with a check that the table has all of them."""
    if not isinstance(site.statement, SIMPLE):
        return None
    for call in (n for n in ast.walk(site.statement) if isinstance(n, ast.Call)):
        match call:
            case ast.Call(func=ast.Attribute(attr="tensor"), args=[ast.ListComp(elt=each, generators=[rounds])]):
                found = _table_and_numbers(each, rounds)
                if found and of_torch(call) and (values := _values(site, found[0].id)):
                    return _written(site, call, *found, values)
    return None


def _table_and_numbers(each: ast.expr, rounds: ast.comprehension) -> tuple[ast.Name, ast.expr] | None:
    """Return the table that is asked for each number, and the tensor that these are of."""
    match each, rounds:
        case (
            ast.Subscript(value=ast.Name() as table, slice=key),
            ast.comprehension(target=ast.Name(id=name), iter=several, ifs=[], is_async=0),
        ) if _is_number(key, name):
            return table, _whole(several)
    return None


def _is_number(node: ast.expr, name: str) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _is_number(inner, name)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
            return _is_number(inner, name)
    return isinstance(node, ast.Name) and node.id == name


def _whole(node: ast.expr) -> ast.expr:
    """Return the tensor whose numbers a list, or an array, has."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]) if name in _PLACES:
            return _whole(inner)
    return node


def _values(site: Site, name: str) -> Sequence[int | float]:
    """Return what a table of the module's has for small numbers, which are all its keys; nothing of any other."""
    tree = parsed(site.text)
    stored = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name] if tree else []
    stored = [n for n in stored if not isinstance(n.ctx, ast.Load)]
    for one in tree.body if tree and name not in site.local() else ():
        match one:
            case ast.Assign(targets=[target], value=ast.Dict() as table) if [target] == stored:
                keys, values = _numbers(table.keys), _numbers(table.values)
                is_small = all(isinstance(key, int) and 0 <= key < _LARGEST for key in keys)
                is_alike = len({type(value) for value in values}) == 1  # which the tensor's type follows from
                return values if is_small and is_alike and len(keys) == len(values) == len(table.keys) else ()
    return ()


def _numbers(nodes: Sequence[ast.expr | None]) -> list[int | float]:
    """Return those that are numbers, as they are written."""
    found: list[int | float] = []
    for node in nodes:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                found.append(value)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                found.append(-value)
    return found


def _written(
    site: Site, call: ast.Call, table: ast.Name, several: ast.expr, values: Sequence[int | float]
) -> Rewrite | None:
    name, torch = table.id, site.torch
    whole, key = site.source(several), site.free("key")
    keys = f"{torch}.tensor(list({name}), device={site.atom(several)}.device)"
    check = f"{torch}._assert_async({torch}.isin({whole}, {keys}).all(), {f'not in {name}'!r})"
    nothing = "0.0" if isinstance(values[0], float) else "0"
    listed = f"[{name}.get({key}, {nothing}) for {key} in range(max({name}) + 1)]"
    kept = "".join(f", {one.arg}={site.source(one.value)}" for one in call.keywords)
    lines = site.lines([(call, f"{torch}.tensor({listed}{kept})[{site.atom(several)}.long()]")])
    return site.rewrite([check, *lines], f"`{whole}` has one dimension, and is where the result is")
