"""What a function of a file may come to while it runs, by the names that it mentions."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in
from compiler_lens.facts.measured.called import named_functions

_OF_TEXTS = frozenset({"__format__", "__repr__", "__str__"})
# Names of what may ask for a text: a function that logs is called as its author likes, and takes what it is given.
_MAKE_TEXTS = frozenset({
    "critical", "debug", "echo", "error", "exception", "format", "info", "join", "log", "pprint", "print", "repr",
    "str", "warn", "warning", "write",
})  # fmt: skip


def reached(text: str, names: Sequence[str]) -> Sequence[ast.AST]:
    """Return the functions of a file that some, by qualified names, may come to: all of which they mention the name.

    Modules are called by their `forward`, hooks by torch, and operators by Python; what gives a text, if one is made.
    """
    return come_to(text, [one for name, one in named_functions(text) if name in names])


def come_to(text: str, begin: Sequence[ast.AST]) -> Sequence[ast.AST]:
    """Return some pieces of a file, and its functions that they may come to."""
    tree = parsed(text)
    functions = named_functions(text)
    hooks = [call for call in (calls_in(tree) if tree else ()) if called(call).startswith("register_")]
    found: dict[ast.AST, None] = {}
    left = list(begin)
    known = identifiers(hooks) | {"forward"}
    while left:
        found.update(dict.fromkeys(left))
        known |= identifiers(n for one in left for n in _run(one))
        known |= _OF_TEXTS if known & _MAKE_TEXTS or any(map(_makes_text, left)) else frozenset()
        left = [one for name, one in functions if one not in found and _is_mentioned(name, known)]
    return list(found)


def _makes_text(piece: ast.AST) -> bool:
    return any(
        isinstance(n, ast.FormattedValue) or (isinstance(n, ast.BinOp) and isinstance(n.op, ast.Mod))
        for one in _run(piece)
        for n in ast.walk(one)
    )


def _run(piece: ast.AST) -> Iterable[ast.AST]:
    """Return what may run when a piece of a file is called: what a parameter is said to be does not."""
    if not isinstance(piece, ast.FunctionDef):
        return (piece,)
    defaults = (*piece.args.defaults, *filter(None, piece.args.kw_defaults))
    return (*piece.decorator_list, *defaults, *piece.body)


def _is_mentioned(name: str, known: AbstractSet[str]) -> bool:
    owner, _, last = name.rpartition(".")
    if last == "__init__":
        return owner.rpartition(".")[2] in known
    is_special = last.startswith("__") and last.endswith("__")
    return last in known or (is_special and last not in _OF_TEXTS)


def identifiers(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return all names, attributes, and texts that may be of attributes."""
    every = [n for one in nodes for n in ast.walk(one)]
    names = {getattr(n, key, None) for n in every for key in ("id", "attr", "arg", "name", "value")}
    return frozenset(name for name in names if isinstance(name, str))


def free(name: str, used: AbstractSet[str]) -> str:
    """Return a name like another that is not used."""
    return next(one for one in (name, *(f"{name}_{i}" for i in range(2, 99))) if one not in used)


def is_taken(text: str, name: str, function: str = "") -> bool:
    """Return whether a file has a name already, or a text that may be one.

    Where it is to stand beside a method, by its qualified name, another class may have it, which is not related.
    """
    tree = parsed(text)
    owner = function.rpartition(".")[0].partition(".")[0]
    asked = (
        [one for one in tree.body if not (owner and isinstance(one, ast.ClassDef) and one.name != owner)]
        if tree
        else []
    )
    return tree is None or name in identifiers(asked)
