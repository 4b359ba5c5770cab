"""Whether an error of a line may be caught: around the line, or around a call of its function in the same file."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from functools import lru_cache

from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called

_WITH = (ast.With, ast.AsyncWith)
_IMPORTS = (ast.Import, ast.ImportFrom)
_HANDLING = tuple(kind for name in ("Try", "TryStar") if (kind := getattr(ast, name, None)) is not None)
_CATCHING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex"})  # context managers
_CALLED_BY_NAME_OF_THE_CLASS = ("forward", "__call__")
_LATER = frozenset({"result", "exception", "gather", "next", "send"})  # of what another call began
_EVERY = "*"  # an error of a kind that the file does not show
_OF_ALL = frozenset({"Exception", "BaseException", _EVERY})
_MOST_ROUNDS = 10


def is_handled(site: Site) -> bool:
    """Return whether a handler stands around the statement in its own function, which may count on what it raises."""
    return any(isinstance(one, _HANDLING) or _is_catching(one) for one in site.around)


def is_caught(site: Site) -> bool:
    """Return whether a handler stands around the statement, and no `try` that is there for its `finally` alone."""
    return any(getattr(one, "handlers", ()) or _is_catching(one) for one in site.around)


def is_handled_by_a_caller(site: Site) -> bool:
    """Return whether the file may catch what the statement raises: around a call of its function, or anything."""
    tree = parsed(site.text)
    if tree is None or site.function is None:
        return False
    home = next((name for name, function in _functions(tree) if function is site.function), "")
    known = {home, site.function.name}
    for _ in range(_MOST_ROUNDS):
        reached = {name for name, function in _functions(tree) if _calls(function) & known}
        named = {target for target, value in _assigned(tree) if value & known}
        if reached | named <= known:
            break
        known |= reached | named
    raised = _raised(tree, site.statement)
    around = (caught for calls, types in _guarded(tree) if calls & known for caught in types)
    if any(_may_catch(tree, caught, raised) for caught in around) or _is_no_error(raised):
        return True
    is_caught = any(_may_catch(tree, caught, raised) for caught in _catching_anything(tree))
    return is_caught or bool(_named_elsewhere(tree) & (raised - _OF_ALL))


def _is_no_error(raised: frozenset[str]) -> bool:
    """Whether what is raised ends a program, or a loop: who ends a process asks for its exit status."""
    is_known = _EVERY not in raised
    return bool(raised & {"StopIteration", "StopAsyncIteration"}) or (is_known and "Exception" not in raised)


@lru_cache(maxsize=4)
def _named_elsewhere(tree: ast.Module) -> frozenset[str]:
    """Return the classes that the file hands on, `@retry(on=ValueError)` or `ERRORS = (ValueError, KeyError)`."""
    without: set[ast.AST] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Raise() | ast.ExceptHandler(type=ast.expr()):
                parts: list[ast.AST | None] = [node.exc if isinstance(node, ast.Raise) else node.type]
            case ast.ClassDef(bases=bases):
                parts = [*bases]
            case ast.Call(func=function):
                parts = [function]
            case ast.arg(annotation=kind) | ast.AnnAssign(annotation=kind) | ast.FunctionDef(returns=kind):
                parts = [kind]
            case _:
                continue
        without |= {n for part in parts if part is not None for n in ast.walk(part)}
    named = (n for n in ast.walk(tree) if isinstance(n, (ast.Name, ast.Attribute)) and n not in without)
    return frozenset(n.id if isinstance(n, ast.Name) else n.attr for n in named if not isinstance(n.ctx, ast.Store))


def _raised(tree: ast.Module, statement: ast.stmt) -> frozenset[str]:
    """Return the names of the error that a statement raises, and of its bases."""
    if isinstance(statement, ast.Assert):
        return _with_bases(tree, "AssertionError")
    found = [n.exc for n in ast.walk(statement) if isinstance(n, ast.Raise) and n.exc is not None]
    names = [called(one) or syntax.dotted(one).rpartition(".")[2] for one in found]
    return frozenset(name for one in names for name in _with_bases(tree, one)) if names else frozenset({_EVERY})


@lru_cache(maxsize=64)
def _with_bases(tree: ast.Module, name: str) -> frozenset[str]:
    """Return a class of errors with all that it is, as far as the file and Python know."""
    kinds = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.ClassDef)}
    known: set[str] = set()
    left = [name]
    while left:
        one = left.pop()
        if one in known:
            continue
        known.add(one)
        built_in = getattr(builtins, one, None)
        if one in kinds:
            left += [base.id if isinstance(base, ast.Name) else _EVERY for base in kinds[one].bases]
        elif isinstance(built_in, type) and issubclass(built_in, BaseException):
            left += [base.__name__ for base in built_in.__mro__ if base is not object]
        else:
            known.add(_EVERY)
    return frozenset(known)


def _may_catch(tree: ast.Module, caught: ast.expr | None, raised: frozenset[str]) -> bool:
    """Whether an `except` of some types may be of an error; without types it is of all."""
    if caught is None or _EVERY in raised:
        return True
    if isinstance(caught, ast.Tuple):
        return any(_may_catch(tree, one, raised) for one in caught.elts)
    name = syntax.dotted(caught).rpartition(".")[2]
    if name in raised or not name:
        return True
    known, root = _known(tree), syntax.dotted(caught).partition(".")[0]
    return not (isinstance(getattr(builtins, name, None), type) or name in known or root in known)


@lru_cache(maxsize=4)
def _known(tree: ast.Module) -> frozenset[str]:
    """Return what the file imports, and its classes."""
    imported = {alias.asname or alias.name for n in ast.walk(tree) if isinstance(n, _IMPORTS) for alias in n.names}
    return frozenset(imported | {n.name for n in ast.walk(tree) if isinstance(n, ast.ClassDef)})


@lru_cache(maxsize=4)
def _catching_anything(tree: ast.Module) -> Sequence[ast.expr | None]:
    """Return what is caught around a `yield`, or around a call of what the file does not name: a parameter, a result.

    A decorator or a context manager catches there what it is put around, wherever that is.
    """
    found: list[ast.expr | None] = []
    given = _given(tree)
    in_with = {item.context_expr for n in ast.walk(tree) if isinstance(n, _WITH) for item in n.items}
    for node in ast.walk(tree):
        if any(_is_of_anything(one, given) for one in _block(node)):
            found += _caught(node)
        is_exit = isinstance(node, syntax.Function) and node.name in ("__exit__", "__aexit__") and _may_be_true(node)
        # a name has it, or it calls what it is given
        is_elsewhere = called(node) in _CATCHING and node not in in_with
        found += [None] if is_exit or is_elsewhere else []
    return found


def _block(node: ast.AST) -> list[ast.stmt]:
    """Return what a `try` or a `with` is around."""
    return getattr(node, "body", []) if isinstance(node, (*_HANDLING, *_WITH)) else []


def _caught(node: ast.AST) -> list[ast.expr | None]:
    """Return the types of errors that a statement catches in its block; None for all."""
    return [None] if _is_catching(node) else [handler.type for handler in getattr(node, "handlers", ())]


def _is_of_anything(statement: ast.stmt, given: frozenset[str]) -> bool:
    for node in ast.walk(statement):
        match node:
            case ast.Yield() | ast.YieldFrom() | ast.Await():
                return True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                if name in given or name in _LATER:
                    return True
            case ast.Call():  # of an item, or of what another call gives
                return True
    return False


@lru_cache(maxsize=4)
def _given(tree: ast.Module) -> frozenset[str]:
    """Return the parameters of all functions, and what else has their values: `self.step = step`."""
    given = {name for n in ast.walk(tree) if isinstance(n, syntax.Function) for name in syntax.parameters(n)}
    given |= {one.arg for n in ast.walk(tree) if isinstance(n, ast.Lambda) for one in n.args.args}
    copied = list(_copied(tree))
    for _ in range(_MOST_ROUNDS):
        named = {target for target, value in copied if value & given}
        if named <= given:
            break
        given |= named
    return frozenset(given)


def _copied(tree: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    """Yield names and attributes that are assigned another's value, or one of several, with these."""
    for names, value in _stored(tree):
        words = frozenset(n.id for n in _parts(value) if isinstance(n, ast.Name))
        yield from ((name, words) for name in names)


def _stored(tree: ast.Module) -> Iterator[tuple[Sequence[str], ast.expr]]:
    """Yield the names and attributes that each assignment and each loop stores to, with the value."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                pass
            case ast.For(target=target, iter=value):
                targets = [target]
            case _:
                continue
        nodes = (n for target in targets for n in ast.walk(target) if isinstance(n, (ast.Name, ast.Attribute)))
        yield [n.id if isinstance(n, ast.Name) else n.attr for n in nodes if isinstance(n.ctx, ast.Store)], value


def _parts(value: ast.expr) -> Sequence[ast.AST]:
    match value:
        case ast.BoolOp(values=parts) | ast.Tuple(elts=parts) | ast.List(elts=parts):
            return parts
        case ast.IfExp(body=one, orelse=other):
            return [one, other]
    return [value]


def _may_be_true(function: syntax.Function) -> bool:
    """Whether a context manager may keep an error to itself: it returns something."""
    values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return) and n.value is not None]
    return any(not isinstance(one, ast.Constant) or bool(one.value) for one in values)


def _is_catching(statement: ast.AST) -> bool:
    match statement:
        case ast.With(items=items):
            return any(called(item.context_expr) in _CATCHING for item in items)
    return False


@lru_cache(maxsize=4)
def _functions(tree: ast.Module) -> Sequence[tuple[str, syntax.Function]]:
    """Return each function with what it is called by: of `forward` the name of the class."""
    classes = {n: one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for n in one.body}
    functions = [n for n in ast.walk(tree) if isinstance(n, syntax.Function)]
    return [(classes.get(f, f.name) if f.name in _CALLED_BY_NAME_OF_THE_CLASS else f.name, f) for f in functions]


@lru_cache(maxsize=256)
def _calls(node: ast.AST) -> frozenset[str]:
    return frozenset(called(call) for call in syntax.calls_in(node)) - {""}


@lru_cache(maxsize=4)
def _assigned(tree: ast.Module) -> Sequence[tuple[str, frozenset[str]]]:
    """Return the names of what is assigned, each with the names in its value: `fast = torch.compile(model)`."""
    return list(_named(tree))


def _named(tree: ast.Module) -> Iterator[tuple[str, frozenset[str]]]:
    for names, value in _stored(tree):
        words = frozenset(getattr(n, key, "") for n in ast.walk(value) for key in ("id", "attr")) - {""}
        yield from ((name, words) for name in names)


@lru_cache(maxsize=4)
def _guarded(tree: ast.Module) -> Sequence[tuple[frozenset[str], Sequence[ast.expr | None]]]:
    """Return what is called within each `try` that has a handler, and within what catches errors as one has."""
    blocks = ((_block(node), _caught(node)) for node in ast.walk(tree))
    return [(frozenset(name for one in block for name in _calls(one)), types) for block, types in blocks if types]
