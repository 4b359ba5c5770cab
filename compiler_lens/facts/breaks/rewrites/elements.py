"""A rewrite of `x[:, index[i]]`, where a tensor's number says which element is taken: torch asks for that number."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, indices, of_torch
from compiler_lens.recording.model import BreakCause

_PAIRS = frozenset({"kthvalue", "max", "median", "min", "mode", "sort", "topk"})
_ORDERS = frozenset({"argsort", "multinomial", "randint", "randperm"})


def taken(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Take elements with `index_select`, which has the number stay a tensor."""
    if not isinstance(site.statement, SIMPLE):
        return None
    changes: list[Change] = []
    needs: dict[str, None] = {}
    for node in ast.walk(site.statement):
        if not (isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load)):
            continue
        *before, last = indices(node)
        if not _is_number_of_tensor(site, last) or not (site.is_tensor(node.value) or before):
            continue
        dimension = -1 if [_is_rest(one) for one in before] == [True] else len(before)
        if dimension != -1 and not all(map(_is_whole, before)):
            return None
        taken_there = f"index_select({dimension}, {site.atom(last)}.reshape(1)).squeeze({dimension})"
        changes.append((node, f"{site.atom(node.value)}.{taken_there}"))
        needs[f"`{site.source(last)}` is not negative"] = None
    inner = [one for one, _ in changes if any(one is not other and one in set(ast.walk(other)) for other, _ in changes)]
    return site.edit(changes, "; ".join(needs)) if not inner else None


def _is_number_of_tensor(site: Site, node: ast.expr) -> bool:
    """Return whether an index is an element of a tensor, as the file shows."""
    match node:
        case ast.Subscript(value=of, slice=ast.Name() | ast.Constant(value=int())):
            return site.is_tensor(of) or (isinstance(of, ast.Name) and _is_part(site.value_of(of.id)))
    return False


def _is_part(value: ast.expr | None) -> bool:
    """Return whether a value is a tensor of indices, or one of those that `torch.topk` and its like give."""
    match value:
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=int())):
            return of_torch(call) and called(call) in _PAIRS
        case ast.Attribute(value=ast.Call() as call, attr="indices" | "values"):
            return called(call) in _PAIRS
        case ast.Call() as call:
            return of_torch(call) and called(call) in _ORDERS
    return False


def _is_whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Slice) and node.lower is node.upper is node.step is None


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
