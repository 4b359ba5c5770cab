"""Rewrites of Python numbers that are made of tensors, and of random numbers."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence

from compiler_lens.facts.breaks.rewrites.site import Change, Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import (
    called,
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
    """`x * s.item()`: the tensor itself does, where the number only goes into arithmetic with tensors."""
    statement = site.statement
    if isinstance(statement, ast.For):
        return _iterated(site, statement)
    if not is_simple(statement):
        return None
    parents = site.parents()
    if stacked := _stacked(site):
        return stacked
    every = [n for n in ast.walk(statement) if isinstance(n, ast.Call) and _number_of(site, n) is not None]
    outer = set(every)
    found = [n for n in every if parents.get(n) not in outer]  # of float(x.item()) the outer one
    if not all(_meets_tensors(site, n, parents, _DEPTH) for n in found):
        return None
    tensors = [_number_of(site, n) for n in found]
    needs = "" if all(t is not None and has_no_dimensions(t) for t in tensors) else _NO_DIMENSIONS
    ends = [_end(n, t, parents) for n, t in zip(found, tensors, strict=True)]
    changes = [(n, _closed(site.atom(t) + end)) for n, t, end in zip(found, tensors, ends, strict=True) if t]
    return site.edit(changes, needs)


def _end(call: ast.Call, tensor: ast.expr | None, parents: Mapping[ast.AST, ast.AST]) -> str:
    if called(call) != "float":
        return ".long()" if called(call) == "int" else ".detach()"
    parent = parents.get(call)
    divides = isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Div)
    return ".detach()" if divides or called(tensor or call) in _FLOATING else ".detach() * 1.0"  # a float of an int


def _closed(text: str) -> str:
    return f"({text})" if text.endswith(" * 1.0") else text


def _number_of(site: Site, call: ast.Call) -> ast.expr | None:
    """The tensor that a call makes a Python number of."""
    name = called(call)
    if name == "item" and isinstance(call.func, ast.Attribute) and not call.args:
        return call.func.value
    if name in ("float", "int") and isinstance(call.func, ast.Name) and len(call.args) == 1:
        inner = call.args[0]
        if isinstance(inner, ast.Call) and called(inner) == "item":
            return _number_of(site, inner)
        return inner if site.is_tensor(inner) else None
    return None


def _meets_tensors(site: Site, node: ast.AST, parents: Mapping[ast.AST, ast.AST], depth: int) -> bool:
    """Whether a number is used in arithmetic with tensors only, so that a tensor may stand for it."""
    parent = parents.get(node)
    if isinstance(parent, ast.BinOp) and isinstance(parent.op, _ARITHMETIC):
        other = parent.right if parent.left is node else parent.left
        return site.is_tensor(other) or _meets_tensors(site, parent, parents, depth)
    if isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.USub):
        return _meets_tensors(site, parent, parents, depth)
    if isinstance(parent, ast.AugAssign) and isinstance(parent.op, _ARITHMETIC):
        return parent.value is node and site.is_tensor(parent.target)
    if not depth or not isinstance(parent, ast.Assign) or len(parent.targets) != 1:
        return False
    target = parent.targets[0]
    if not isinstance(target, ast.Name) or site.function is None or site.value_of(target.id) is None:
        return False
    return _all_meet(site, site.loads(target.id), parents, depth - 1)


def _all_meet(site: Site, reads: Sequence[ast.Name], parents: Mapping[ast.AST, ast.AST], depth: int) -> bool:
    return 0 < len(reads) <= _MOST_READS and all(_meets_tensors(site, n, parents, depth) for n in reads)


def _iterated(site: Site, loop: ast.For) -> Rewrite | None:
    """`for v in t.tolist():` whose `v` only goes into arithmetic with tensors."""
    call, target = loop.iter, loop.target
    head = site.head(loop)
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or called(call) != "tolist":
        return None
    if not isinstance(target, ast.Name) or not head or site.function is None:
        return None
    parents = site.parents()
    inside = [n for s in loop.body for n in loads(s, target.id)]
    outside = set(site.loads(target.id)) - set(inside)
    if len(head) != 1 or outside or not _all_meet(site, inside, parents, 0):
        return None
    name, tensor = target.id, site.atom(call.func.value)
    after = f"for {name} in {tensor}.detach().unbind():"
    return Rewrite((head[0].rstrip(),), (after,), is_complete=True, needs="the tensor has one dimension")


def _stacked(site: Site) -> Rewrite | None:
    """`torch.tensor([a.item(), b.item()])`."""
    changes: list[Change] = []
    for node in ast.walk(site.statement):
        if not isinstance(node, ast.Call) or not of_torch(node) or called(node) != "tensor" or len(node.args) != 1:
            continue
        parts = node.args[0].elts if isinstance(node.args[0], ast.List) else []
        tensors = [_number_of(site, p) for p in parts if isinstance(p, ast.Call)]
        known = [t for t in tensors if t is not None]
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
    parents = site.parents()
    calls = [
        n for n in ast.walk(site.statement) if isinstance(n, ast.Call) and dotted(n.func) in _RANDOM and not n.args
    ]
    if not is_simple(site.statement) or not all(_meets_tensors(site, n, parents, _DEPTH) for n in calls):
        return None
    changes: list[Change] = [(n, f"{site.torch}.{_RANDOM[dotted(n.func)]}(())") for n in calls]
    return site.edit(changes, RANDOM_NEEDS)
