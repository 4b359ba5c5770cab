"""Classes of which one inherits from another, by their names, in all files of a program: they share one name space."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import dotted

# Bases that say nothing of who shares what: all modules have one.
_ROOTS = frozenset({"ABC", "Function", "Generic", "LightningModule", "Module", "Protocol", "object"})


def methods_of_relatives(texts: Mapping[str, str], name: str) -> AbstractSet[str]:
    """Return the names of all methods of classes that a method's class inherits from, and that inherit from it.

    Args:
        texts: the program's files.
        name: the method's, qualified: nothing is related to a function of a module.
    """
    owner = name.rpartition(".")[0].rpartition(".")[2]
    classes = list(_classes(texts.values())) if owner else []
    bases: dict[str, set[str]] = {}
    derived: dict[str, set[str]] = {}
    for one in classes:
        for base in {dotted(node).rpartition(".")[2] for node in one.bases}:
            bases.setdefault(one.name, set()).add(base)
            derived.setdefault(base, set()).add(one.name)
    above = _reached(owner, bases)
    related = above | _reached(owner, derived)
    related |= {other for base in above for other in derived.get(base, ())}  # of one object that inherits from both
    return frozenset(
        node.name
        for one in classes
        if one.name in related
        for node in one.body
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


def _classes(texts: Iterable[str]) -> Iterator[ast.ClassDef]:
    for text in texts:
        tree = parsed(text)
        yield from (one for one in (tree.body if tree else ()) if isinstance(one, ast.ClassDef))


def _reached(begin: str, steps: Mapping[str, AbstractSet[str]]) -> set[str]:
    found: set[str] = set()
    left = [begin]
    while left:
        name = left.pop()
        if name not in found:
            found.add(name)
            left += steps.get(name, ())
    return found - _ROOTS
