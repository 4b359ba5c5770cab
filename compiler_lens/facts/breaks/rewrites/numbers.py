"""Rewrites of Python numbers that are made of tensors, and of random numbers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from compiler_lens.facts.breaks.rewrites.site import Change, Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import (
    called,
    calls_in,
    dotted,
    has_no_dimensions,
    is_simple,
    loads,
    of_torch,
)
from compiler_lens.recording.model import BreakCause

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_NO_DIMENSIONS = "the tensor has no dimensions"
_FLOATING = frozenset({"mean", "norm", "std", "var", "exp", "log", "sqrt", "sigmoid", "tanh", "softmax", "logsumexp"})
_MOST_READS = 16
_DEPTH = 4  # assignments that a value is followed through


def python_number(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Keep the tensor of `x * s.item()`, where the number only goes into arithmetic with tensors."""
    statement = site.statement
    if isinstance(statement, ast.For):
        return _iterated(site, statement)
    if not is_simple(statement):
        return None
    parents = site.parents()
    if stacked := _stacked(site):
        return stacked
    every = {n: tensor for n in calls_in(statement) if (tensor := _number_of(site, n)) is not None}
    found = {n: t for n, t in every.items() if parents.get(n) not in every}  # of float(x.item()) the outer one
    if not all(_meets_tensors(site, n, parents, _DEPTH) for n in found):
        return None
    needs = "" if all(map(has_no_dimensions, found.values())) else _NO_DIMENSIONS
    return site.edit([(n, _kept(site, n, tensor, parents)) for n, tensor in found.items()], needs)


def _kept(site: Site, call: ast.Call, tensor: ast.expr, parents: Mapping[ast.AST, ast.AST]) -> str:
    """Return the tensor to write instead of a number made of it: a float stays one, and none takes a gradient."""
    text, parent = site.atom(tensor), parents.get(call)
    if called(call) == "int":
        return f"{text}.long()"
    divides = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div)
    if called(call) != "float" or divides or called(tensor) in _FLOATING:
        return f"{text}.detach()"
    return f"({text}.detach() * 1.0)"  # it may be of integers


def _number_of(site: Site, call: ast.expr) -> ast.expr | None:
    """Return the tensor that a call makes a Python number of."""
    match call:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
            return tensor
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            if called(inner) == "item":
                return _number_of(site, inner)
            return inner if site.is_tensor(inner) else None
    return None


def _meets_tensors(site: Site, node: ast.AST, parents: Mapping[ast.AST, ast.AST], depth: int) -> bool:
    """Return whether a number is used in arithmetic with tensors only, so that a tensor may stand for it."""
    parent = parents.get(node)
    match parent:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            return site.is_tensor(right if left is node else left) or _meets_tensors(site, parent, parents, depth)
        case ast.UnaryOp(op=ast.USub()):
            return _meets_tensors(site, parent, parents, depth)
        case ast.AugAssign(target=target, op=op, value=value) if isinstance(op, _ARITHMETIC):
            return value is node and site.is_tensor(target)
        case ast.Assign(targets=[ast.Name(id=name)]) if depth and site.value_of(name) is not None:
            return _all_meet(site, site.loads(name), parents, depth - 1)
    return False


def _all_meet(site: Site, reads: Sequence[ast.Name], parents: Mapping[ast.AST, ast.AST], depth: int) -> bool:
    return 0 < len(reads) <= _MOST_READS and all(_meets_tensors(site, n, parents, depth) for n in reads)


def _iterated(site: Site, loop: ast.For) -> Rewrite | None:
    """Write `for v in t.unbind():` for `for v in t.tolist():`, whose `v` only goes into arithmetic with tensors."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=tensor, attr="tolist"))):
            head = site.head(loop)
        case _:
            return None
    inside = [n for s in loop.body for n in loads(s, name)]
    is_left = site.function is None or set(site.loads(name)) - set(inside)
    if len(head) != 1 or is_left or not _all_meet(site, inside, site.parents(), 0):
        return None
    after = f"for {name} in {site.atom(tensor)}.detach().unbind():"
    return Rewrite((head[0].rstrip(),), (after,), is_complete=True, needs="the tensor has one dimension")


def _stacked(site: Site) -> Rewrite | None:
    """Write `torch.stack([a, b])` for `torch.tensor([a.item(), b.item()])`."""
    changes: list[Change] = []
    for node in calls_in(site.statement):
        if not of_torch(node) or called(node) != "tensor" or len(node.args) != 1:
            continue
        parts = node.args[0].elts if isinstance(node.args[0], ast.List) else []
        known = [tensor for part in parts if (tensor := _number_of(site, part)) is not None]
        if not parts or len(known) != len(parts) or node.keywords or any(called(p) == "int" for p in parts):
            return None
        listed = ", ".join(f"{site.atom(t)}.detach()" for t in known)
        changes.append((node, f"{site.torch}.stack([{listed}])"))
    return site.edit(changes, "all of them are tensors without dimensions, of one dtype")


RANDOM_NEEDS = "the numbers then come from torch's generator: torch.manual_seed, not another library's"
_RANDOM = {
    "random.random": "rand", "np.random.rand": "rand", "np.random.random": "rand", "numpy.random.rand": "rand",
    "numpy.random.random": "rand", "np.random.randn": "randn", "numpy.random.randn": "randn",
}  # fmt: skip


def random_number(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Draw a random number that only goes into arithmetic with tensors by torch."""
    parents = site.parents()
    calls = [n for n in calls_in(site.statement) if dotted(n.func) in _RANDOM and not n.args]
    if not is_simple(site.statement) or not all(_meets_tensors(site, n, parents, _DEPTH) for n in calls):
        return None
    changes: list[Change] = [(n, f"{site.torch}.{_RANDOM[dotted(n.func)]}(())") for n in calls]
    return site.edit(changes, RANDOM_NEEDS)
