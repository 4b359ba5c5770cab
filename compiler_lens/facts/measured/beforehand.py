"""What the end of a function computes of tensors, computed beforehand, with what is compiled.

An end that stays Python (`endings`) may hold a part of the loss, or a metric of which it takes the number. Where that
is computed at each call, of what was there before the end began, it is the same earlier, and is in a graph.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from compiler_lens.facts.breaks.rewrites.effects import changes_nothing
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import (
    called,
    calls_in,
    dotted,
    is_new_tensor,
    is_pure_call,
    of_torch,
    writes,
)

OF_DISTRIBUTIONS = frozenset({"entropy", "log_prob"})  # what a distribution computes, and draws nothing for
_SAYING = frozenset({"log", "logger", "LOGGER", "LOG", "logging", "warnings", "print"})
_ADDING = frozenset({"append", "appendleft"})
_LEAVING = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue)
_CHANGING = (ast.AugAssign, ast.With, ast.AsyncWith, ast.Import, ast.ImportFrom)
# What a tensor is made of: all of these give one, where an operand is one.
_PARTS = (ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.keyword, ast.BinOp, ast.UnaryOp, ast.Compare,
          ast.operator, ast.USub, ast.Invert, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.expr_context)  # fmt: skip


def beforehand(site: Site, end: Sequence[ast.stmt], known: AbstractSet[str]) -> Sequence[ast.expr]:
    """Return the largest expressions of an end that may be computed before it, in the order of the text.

    None may where a statement of the end changes something that they could read.

    Args:
        site: where the function stands.
        end: its last statements.
        known: the names that surely have a value when these begin.
    """
    if any(_may_change(site, node) for one in end for node in ast.walk(one)):
        return ()
    if any(called(call) in _ADDING for one in end for call in calls_in(one)):  # a local name may be that list, too
        known = known & site.tensors
    found: list[ast.expr] = []
    names = set(known)
    for one in end:
        value = _evaluated(one)
        found += _largest(site, value, names) if value is not None else ()
        names -= {n.id for n in ast.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        if any(isinstance(n, _LEAVING) for n in ast.walk(one)):  # what follows is not computed at each call
            break
    return found


def has_distributions(text: str) -> bool:
    """Return whether a file has distributions of torch's, and names no method of its own as theirs are."""
    tree = parsed(text)
    own = {one.name for one in ast.walk(tree) if isinstance(one, ast.FunctionDef)} if tree else set[str]()
    return "torch.distributions" in text and not own & OF_DISTRIBUTIONS


def _may_change(site: Site, node: ast.AST) -> bool:
    match node:
        case ast.Subscript(ctx=ast.Store()):
            return True
        case ast.Attribute(value=owner, ctx=ast.Store()):  # of an object, which no expression here reads
            return dotted(owner) != "self"
        case ast.Call():
            return not _is_quiet(site, node)
    return isinstance(node, _CHANGING)


def _is_quiet(site: Site, call: ast.Call) -> bool:
    """Return whether a call changes nothing but what is said, and a list of the object's."""
    name = dotted(call.func)
    is_kept = called(call) in _ADDING and name.startswith("self.")
    first = name.partition(".")[0]
    is_said = (first in _SAYING and first not in site.local()) or called(call) == "is_compiling"
    return is_kept or is_said or (changes_nothing(call, site.tensors) and not writes(call)) or _of_one(site, call)


def _of_one(site: Site, call: ast.Call) -> bool:
    """Return whether a call asks a distribution for what it computes."""
    return isinstance(call.func, ast.Attribute) and called(call) in OF_DISTRIBUTIONS and has_distributions(site.text)


def _evaluated(statement: ast.stmt) -> ast.expr | None:
    """Return the expression that a statement computes; what an `if` asks for stays there, to be read."""
    return statement.value if isinstance(statement, (ast.Assign, ast.Expr, ast.Return)) else None


def _largest(site: Site, node: ast.expr, names: AbstractSet[str]) -> Iterator[ast.expr]:
    if _is_computed_alike(site, node, names):
        yield node
        return
    match node:
        case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):  # what else is in it is not computed at each call
            yield from _largest(site, first, names)
        case ast.BinOp() | ast.UnaryOp() | ast.Call() | ast.Attribute() | ast.Subscript() | ast.keyword():
            yield from _of_parts(site, node, names)
        case ast.Tuple() | ast.List() | ast.Dict() | ast.Compare(ops=[_]):
            yield from _of_parts(site, node, names)


def _of_parts(site: Site, node: ast.expr, names: AbstractSet[str]) -> Iterator[ast.expr]:
    for part in ast.iter_child_nodes(node):
        value = part.value if isinstance(part, ast.keyword) else part
        if isinstance(value, ast.expr):
            yield from _largest(site, value, names)


def _is_computed_alike(site: Site, node: ast.expr, names: AbstractSet[str]) -> bool:
    """Return whether an expression gives a tensor of its own, of names that are known, and does nothing else."""
    nodes, calls = list(ast.walk(node)), calls_in(node)
    is_new = is_new_tensor(node) or (isinstance(node, ast.Call) and _of_one(site, node))
    is_plain = all(isinstance(n, _PARTS) and not _is_chain(n) for n in nodes)
    if not (calls and is_new and is_plain and all(_computes(site, one) for one in calls)):
        return False
    modules = {n for one in calls if of_torch(one) for n in ast.walk(one.func)}
    functions = {one.func for one in calls} | modules
    read = {n.id for n in nodes if isinstance(n, ast.Name) and n not in modules}
    return read <= names and all(n in functions for n in nodes if isinstance(n, ast.Attribute))


def _is_chain(node: ast.AST) -> bool:
    return isinstance(node, ast.Compare) and len(node.ops) > 1


def _computes(site: Site, call: ast.Call) -> bool:
    is_shadowed = of_torch(call) and dotted(call.func).partition(".")[0] in site.local()
    return _of_one(site, call) or (is_pure_call(call) and site.is_tensor(call) and not is_shadowed)
