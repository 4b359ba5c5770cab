"""Whether statements compute a value of tensors and numbers, and do nothing else: also by functions of their file."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.effects import changed
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import (
    called,
    dotted,
    is_pure_call,
    is_text,
    of_torch,
    parameters,
    writes,
)

# fmt: off
# Functions of torch's that make a tensor of numbers, or tensors of tensors, and do nothing else.
_MAKE = frozenset({
    "arange", "cartesian_prod", "clip", "concat", "einsum", "eye", "full", "hstack", "linspace", "logspace", "meshgrid",
    "one_hot", "ones", "outer", "pad", "polar", "pow", "tensor", "vstack", "zeros",
})
_OF_NUMBERS = frozenset({"abs", "bool", "float", "int", "len", "list", "max", "min", "range", "round", "tuple"})
_OF_SIZES = frozenset({"dim", "new_full", "new_ones", "new_zeros", "numel", "size"})
_PLAIN = (ast.AnnAssign, ast.Assign, ast.AugAssign, ast.For, ast.If, ast.Pass, ast.Return)  # statements
_NEVER = (ast.Await, ast.Lambda, ast.NamedExpr, ast.Yield, ast.YieldFrom)
# fmt: on


class _Around(Struct, frozen=True):
    """What a text is read with."""

    tree: ast.Module
    torch: str
    owner: ast.ClassDef | None  # the class that a method is of
    outer: tuple[ast.FunctionDef, ...] = ()  # functions that are looked at already


def only_computes(tree: ast.Module, site: Site, nodes: Sequence[ast.AST]) -> bool:
    """Return whether some pieces of a function compute, of what it has and what never changes, by torch and Python."""
    classes = (n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and site.function in n.body)
    return _computes(_Around(tree, site.torch, next(classes, None)), nodes, {"self", *site.local()})


def _computes(around: _Around, nodes: Sequence[ast.AST], known: AbstractSet[str]) -> bool:
    every = [n for one in nodes for n in ast.walk(one)]
    functions = {n.func for n in every if isinstance(n, ast.Call)}
    names = {n.id for n in every if isinstance(n, ast.Name) and n not in functions}
    outer = {around.torch, "F", "math", *_constants(around.tree)}
    calls = (n for n in every if isinstance(n, ast.Call))
    return (
        names <= known | outer
        and not any(isinstance(n, _NEVER) for n in every)
        and all(_is_pure(around, one) for one in calls)
    )


def _is_pure(around: _Around, call: ast.Call) -> bool:
    name = called(call)
    if writes(call):
        return False
    match call.func:
        case ast.Name():
            is_builtin = name in _OF_NUMBERS and not list(_defined(around.tree, name))
            return is_builtin or _is_pure_function(around, around.tree.body, name)
        case ast.Attribute(value=ast.Name(id="self")):
            return around.owner is not None and _is_pure_function(around, around.owner.body, name)
    is_known = (of_torch(call) and name in _MAKE) or dotted(call.func) == f"math.{name}" or name in _OF_SIZES
    return is_known or is_pure_call(call)


def _is_pure_function(around: _Around, body: Sequence[ast.stmt], name: str) -> bool:
    """Return whether a function of the file, or of the class, computes of what it is given alone."""
    defined = list(_defined(around.tree, name))
    match [one for one in body if one in defined]:
        case [ast.FunctionDef(decorator_list=[], args=arguments) as function] if len(defined) == 1:
            pass
        case _:
            return False
    inner = _Around(around.tree, around.torch, around.owner, (*around.outer, function))
    statements = [n for one in function.body for n in ast.walk(one) if isinstance(n, ast.stmt)]
    defaults = (*arguments.defaults, *filter(None, arguments.kw_defaults))
    known = {*parameters(function), *(n.id for n in ast.walk(function) if isinstance(n, ast.Name) and _is_stored(n))}
    return (
        function not in around.outer
        and all(isinstance(one, _PLAIN) or is_text(one) for one in statements)
        and not any(map(_is_unrolled, ast.walk(function)))
        and all(isinstance(one, ast.Constant) for one in defaults)
        and not changed(function)
        and _computes(inner, function.body, known)
    )


def _is_unrolled(node: ast.AST) -> bool:
    """Return whether a loop runs as often as something says that is no constant: a graph has each of its rounds."""
    match node:
        case (
            ast.For(iter=ast.Call(func=ast.Name(id="range"), args=args))
            | ast.comprehension(iter=ast.Call(func=ast.Name(id="range"), args=args))
        ):
            return not all(isinstance(one, ast.Constant) for one in args)
    return False


def _is_stored(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _defined(tree: ast.Module, name: str) -> Iterator[ast.AST]:
    """Yield what gives a name a value, in all of a file."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=own) | ast.AsyncFunctionDef(name=own) | ast.ClassDef(name=own) if own == name:
                yield node
            case ast.Name(id=own, ctx=ast.Store() | ast.Del()) | ast.arg(arg=own) if own == name:
                yield node
            case ast.Attribute(attr=own, ctx=ast.Store()) if own == name:
                yield node
            case ast.alias(name=own, asname=given) if name == (given or own):
                yield node


def _constants(tree: ast.Module) -> Iterator[str]:
    """Yield the names that the module gives numbers and texts, once."""
    for one in tree.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()) if len(list(_defined(tree, name))) == 1:
                yield name
