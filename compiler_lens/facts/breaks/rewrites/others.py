"""What a file shows names to be besides tensors: arrays of NumPy's, and what other calls give a function."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache

from compiler_lens.facts.breaks.rewrites.syntax import Function, called, calls_in, dotted, of_torch, parameters, targets

_NUMPY = ("np", "numpy")
_WRAPPING = frozenset({"as_tensor", "from_numpy", "tensor", "asarray"})
_NO_TENSORS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.JoinedStr, ast.ListComp, ast.Slice)
_GIVE_NONE = frozenset({"slice", "range", "list", "tuple", "int", "float", "len", "tolist", "item"})


@lru_cache(maxsize=16)
def arrays(tree: ast.Module, function: Function, seen: frozenset[str]) -> frozenset[str]:
    """Return the names of a function that may be arrays: these have a `max` and a `sum` as tensors have.

    Where some names were tensors whenever torch compiled the function, another parameter is none in a file with NumPy.
    """
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Assign(value=value) if _is_array(value):
                found.update(targets(node))
            case ast.Call(args=args) if of_torch(node) and called(node) in _WRAPPING:
                found.update(name for one in args for name in _in_arithmetic(one))
    given = {name for name, value in _given(tree, function) if _is_array(value) or _is_name_of_array(tree, value)}
    unseen = set(parameters(function)) - seen if seen and _has_numpy(tree) else set()
    return frozenset(found | given | unseen) - seen


@lru_cache(maxsize=16)
def given_otherwise(tree: ast.Module, function: Function) -> frozenset[str]:
    """Return the parameters that a call in the file, or a default, gives no tensor but a number, a list or a slice."""
    every = (*_given(tree, function), *_defaults(function))
    return frozenset(name for name, value in every if _is_no_tensor(value))


def _is_no_tensor(node: ast.expr) -> bool:
    is_none = isinstance(node, ast.Constant) and node.value is None
    return (isinstance(node, _NO_TENSORS) and not is_none) or called(node) in _GIVE_NONE


def _is_array(node: ast.AST) -> bool:
    """Whether a value is NumPy's, by its text."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr=name)):
            return name == "numpy" or dotted(owner).partition(".")[0] in _NUMPY or _is_array(owner)
        case ast.BinOp(left=left, right=right):
            return _is_array(left) or _is_array(right)
        case ast.Subscript(value=value):
            return _is_array(value)
    return False


def _in_arithmetic(node: ast.expr) -> Iterator[str]:
    """Yield the names that a value is computed of by operators: a list of tensors' numbers is none."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.BinOp(left=left, right=right):
            yield from (*_in_arithmetic(left), *_in_arithmetic(right))
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            yield from _in_arithmetic(inner)


def _is_name_of_array(tree: ast.Module, node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in _names_of_arrays(tree)


@lru_cache(maxsize=4)
def _names_of_arrays(tree: ast.Module) -> frozenset[str]:
    assigned = (n for n in ast.walk(tree) if isinstance(n, ast.Assign) and _is_array(n.value))
    return frozenset(name for one in assigned for name in targets(one))


@lru_cache(maxsize=4)
def _has_numpy(tree: ast.Module) -> bool:
    return any(isinstance(n, ast.Import) and any(a.name == "numpy" for a in n.names) for n in ast.walk(tree))


@lru_cache(maxsize=4)
def _calls(tree: ast.Module) -> Mapping[str, Sequence[ast.Call]]:
    """Return the calls in a file by what they call: it is asked for each function, of which a file has thousands."""
    found: dict[str, list[ast.Call]] = defaultdict(list)
    for call in calls_in(tree):
        found[called(call)].append(call)
    return found


def _given(tree: ast.Module, function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Yield what calls of a function in its file give each parameter."""
    arguments = function.args
    names = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    for call in (one for name in _called_by(tree, function.name) for one in _calls(tree).get(name, ())):
        is_method = bool(names) and names[0] in ("self", "cls") and isinstance(call.func, ast.Attribute)
        yield from zip(names[is_method:], call.args, strict=False)
        yield from ((word.arg, word.value) for word in call.keywords if word.arg)


def _called_by(tree: ast.Module, name: str) -> Sequence[str]:
    """Return the names by which a function is called: its own, and those of what torch.compile has made of it."""
    return (name, *_compiled(tree).get(name, ()))


@lru_cache(maxsize=4)
def _compiled(tree: ast.Module) -> Mapping[str, Sequence[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for node in ast.walk(tree):
        for target, value in assigned(node):
            match target, value:
                case ast.Name(id=name), ast.Call(args=[ast.Name(id=of), *_]) if (
                    called(value) == "compile" and name != of
                ):
                    found[of].append(name)
    return found


def assigned(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield each target of an assignment with what it is given."""
    match node:
        case ast.Assign(targets=targets, value=value):
            for target in targets:
                match target, value:
                    case ast.Tuple(elts=names), ast.Tuple(elts=values) if len(names) == len(values):
                        yield from zip(names, values, strict=True)
                    case _:
                        yield target, value
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            yield target, value


def given_to(tree: ast.Module, function: Function) -> Iterator[tuple[str, ast.expr]]:
    """Yield what a file gives each parameter of a function, or a class its `__init__`: in calls, and by default."""
    yield from (*_given(tree, function), *_defaults(function))
    owner = next((n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and function in n.body), None)
    is_made = owner is not None and function.name == "__init__"
    own = [one.arg for one in (*function.args.posonlyargs, *function.args.args)][1:]
    for call in _calls(tree).get(owner.name if owner and is_made else function.name, ()):
        if is_made:
            yield from zip(own, call.args, strict=False)
            yield from ((word.arg, word.value) for word in call.keywords if word.arg)
        for word in call.keywords:
            yield from ((name, word.value) for name in parameters(function) if word.arg is None)


def _defaults(function: Function) -> Iterator[tuple[str, ast.expr]]:
    arguments = function.args
    named = [one.arg for one in (*arguments.posonlyargs, *arguments.args)]
    yield from zip(reversed(named), reversed(arguments.defaults), strict=False)
    pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from ((one.arg, value) for one, value in pairs if value is not None)
