"""Where a tensor may be compared with a member of an enumeration of numbers: Dynamo takes that for one bool (2.13)."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import dotted
from compiler_lens.facts.measured.edits import Texts
from compiler_lens.recording.model import SourceLine

_OF_NUMBERS = frozenset({"IntEnum", "IntFlag"})


class Member(Struct, frozen=True):
    """A member that something is compared with, and where."""

    at: SourceLine
    name: str  # "Kind.A"


def compared_with_members(texts: Texts) -> Iterator[Member]:
    """Yield the lines of some files that compare something with `Kind.A`, where `Kind` is such an enumeration."""
    trees = {file: tree for file, text in texts.items() if (tree := parsed(text))}
    classes = {
        one.name
        for tree in trees.values()
        for one in ast.walk(tree)
        if isinstance(one, ast.ClassDef) and any(dotted(base).rpartition(".")[2] in _OF_NUMBERS for base in one.bases)
    }
    for file, tree in trees.items():
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            for node in (n for n in ast.walk(function) if isinstance(n, ast.Compare)):
                if name := _member(node, classes):
                    code = texts[file].split("\n")[node.lineno - 1]
                    yield Member(SourceLine(file, node.lineno, function.name, code.strip()), name)


def _member(node: ast.Compare, classes: set[str]) -> str:
    sides = (node.left, *node.comparators) if all(isinstance(one, (ast.Eq, ast.NotEq)) for one in node.ops) else ()
    members = (one for one in sides if isinstance(one, ast.Attribute) and dotted(one.value) in classes)
    return next(map(dotted, members), "")
