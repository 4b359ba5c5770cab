"""Whether a loop ends by itself, and leaves what it goes through as it was: so that it may run to its end."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, of_torch

_LONGEST = 1_000  # rounds: each of them becomes a part of the graph
# fmt: off
_OF_PYTHON = frozenset({"list", "tuple", "set", "frozenset", "dict", "sorted", "range"})  # they have come to an end
_ROUND = frozenset({"enumerate", "reversed", "zip"})  # they end with what they are given
_ITERTOOLS = frozenset({"product", "combinations", "permutations", "chain", "pairwise", "islice"})
_GROUPS = frozenset({"ModuleList", "ModuleDict", "ParameterList", "ParameterDict", "Sequential"})
_METHODS = frozenset({
    "items", "keys", "values", "unbind", "split", "chunk", "tensor_split", "tolist", "children", "named_children",
    "modules", "named_modules", "parameters", "named_parameters", "buffers", "named_buffers",
})
_ANNOTATED = frozenset({
    "list", "tuple", "set", "frozenset", "dict", "Tensor", "Sequence", "List", "Tuple", "Set", "Dict", "range",
})
_LITERALS = (ast.List, ast.Tuple, ast.Set, ast.Dict, ast.ListComp, ast.SetComp, ast.DictComp, ast.JoinedStr)
# fmt: on
_FOLLOWED = 4  # names that are one another's, and what is within one another


def ends(site: Site, iterated: ast.expr) -> bool:
    """Return whether a `for` of something ends for sure, and may be gone through again.

    What `itertools.count` gives has no end, and of what `iter` or a generator gives the rest is for who comes next.
    """
    match iterated:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if args and name in (
            _ROUND | _ITERTOOLS
        ):
            return all(ends(site, one) for one in (args[:1] if name == "islice" else args))
        case ast.Call(func=ast.Name(id="range"), args=args):
            return not any(_is_many(n) for one in args for n in ast.walk(one))
        case ast.Call(func=ast.Attribute(attr=name)) if name in _METHODS:
            return True
        case ast.Starred(value=value):
            return ends(site, value)
    return _is_kept(site, iterated, _FOLLOWED)


def _is_many(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=int() as number):
            return number > _LONGEST
        case ast.Attribute(attr="maxsize") | ast.Pow() | ast.LShift():
            return True
    return False


def _is_kept(site: Site, node: ast.expr, depth: int) -> bool:  # noqa: PLR0911 -- one for each kind of syntax
    """Whether a value has all that it gives at once: a list, a tensor, modules."""
    if site.is_tensor(node) or isinstance(node, _LITERALS):
        return True
    match node:
        case ast.Constant(value=str() | bytes()) | ast.Attribute(attr="shape"):
            return True
        case ast.Call(func=ast.Name(id=name)) if name in _OF_PYTHON:
            return True
        case ast.Call() if called(node) in _GROUPS or of_torch(node):
            return True
        case ast.BinOp(left=left, op=ast.Add() | ast.Mult(), right=right):
            return any(isinstance(one, _LITERALS) for one in (left, right))
        case ast.Subscript(value=value, slice=ast.Slice()) if depth:
            return _is_kept(site, value, depth - 1)
        case ast.Name() | ast.Attribute() if depth and dotted(node):
            given = list(_given(site, dotted(node)))
            return bool(given) and all(_is_kept(site, one, depth - 1) for one in given)
    return False


def _given(site: Site, name: str) -> Iterator[ast.expr]:
    """Yield what a name is bound to where it is read, or an attribute of `self` anywhere in the file."""
    root, _, attribute = name.partition(".")
    tree = parsed(site.text)
    if attribute:
        is_own = root in ("self", "cls") and "." not in attribute
        yield from _assigned(tree.body, attribute) if tree and is_own else ()
    elif site.function is not None and name in syntax.parameters(site.function):
        yield _annotated(site.function, name)
    elif name in site.local():
        yield site.value_of(name) or ast.Name("")
    elif tree is not None:
        at_top = [n for n in tree.body if isinstance(n, ast.Assign) and name in syntax.targets(n)]
        yield from (one.value for one in at_top)


def _assigned(body: Sequence[ast.stmt], attribute: str) -> Iterator[ast.expr]:
    for node in (n for one in body for n in ast.walk(one)):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                targets = [target]
            case ast.For(target=target) | ast.withitem(optional_vars=ast.expr() as target):
                targets, value = [target], ast.Name("")
            case _:
                continue
        for target in targets:
            if isinstance(target, ast.Attribute) and target.attr == attribute:
                yield value
            elif any(isinstance(n, ast.Attribute) and n.attr == attribute for n in ast.walk(target)):
                yield ast.Name("")  # one of several


def _annotated(function: syntax.Function, name: str) -> ast.expr:
    """Return a list in place of a parameter that is said to be one."""
    arguments = function.args
    named = (one for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs) if one.arg == name)
    kinds = [one.annotation for one in named if one.annotation is not None]
    outer = [kind.value if isinstance(kind, ast.Subscript) else kind for kind in kinds]
    is_kept = any(dotted(one).rpartition(".")[2] in _ANNOTATED | _GROUPS for one in outer)
    is_of_many = arguments.vararg is not None and arguments.vararg.arg == name
    return ast.List([]) if is_kept or is_of_many else ast.Name("")
