"""Source text of the user's: what a line says, what stands around it, which function it is in."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

_LONGEST = 2_000_000  # characters of a file that we look into


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or method in a file."""

    name: str  # qualified: "MoE.forward", "outer.inner"
    line: int  # of its first decorator, or of the def: what a code object calls its first line
    first: int  # of the def itself
    last: int
    parameters: tuple[str, ...]  # by name, in order, without self, *args and **kwargs


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Some lines of a file."""

    first: int  # the number of the first line
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sources:
    """The files of a recording by name; every question has an answer, also for a file that is not there."""

    texts: Mapping[str, str] = field(default_factory=dict)

    def has(self, file: str) -> bool:
        """Whether the file's text is known."""
        return file in self.texts

    def line(self, file: str, number: int) -> str:
        """One line without its end; empty where it is not known."""
        lines = _lines(self.texts.get(file, ""))
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def excerpt(self, file: str, number: int, around: int = 3) -> Excerpt | None:
        """A line with the lines around it; None where the file is not known or is shorter."""
        lines = _lines(self.texts.get(file, ""))
        if not 0 < number <= len(lines):
            return None
        first = max(number - around, 1)
        return Excerpt(first, lines[first - 1 : number + around])

    def definitions(self, file: str) -> tuple[Definition, ...]:
        """Every function of a file, outer ones before those inside of them; empty if it is not Python that we know."""
        return _definitions(self.texts.get(file, ""))

    def function_at(self, file: str, number: int) -> Definition | None:
        """The innermost function around a line."""
        around = [d for d in self.definitions(file) if d.line <= number <= d.last]
        return max(around, key=lambda d: d.line, default=None)

    def loop_lines(self, file: str, function: Definition, number: int) -> frozenset[int]:
        """The lines that use the variable of a loop over what a statement of the function assigned."""
        return _loop_lines(self.texts.get(file, ""), function.first, number)


@lru_cache(maxsize=64)
def _lines(text: str) -> tuple[str, ...]:
    # As Python counts lines: not str.splitlines, which also ends a line at a form feed.
    return tuple(text[:_LONGEST].replace("\r\n", "\n").replace("\r", "\n").split("\n"))


@lru_cache(maxsize=64)
def _definitions(text: str) -> tuple[Definition, ...]:
    tree = _parsed(text)
    return tuple(_defined(tree, "")) if tree else ()


@lru_cache(maxsize=256)
def _loop_lines(text: str, first: int, number: int) -> frozenset[int]:
    tree = _parsed(text)
    functions = (n for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))) if tree else ()
    function = next((f for f in functions if f.lineno == first), None)
    if function is None:
        return frozenset()
    assigned = _names(n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno <= number <= _end(n))
    loops = [n for n in ast.walk(function) if isinstance(n, ast.For) and n.lineno > number]
    over = [n for n in loops if assigned & {m.id for m in ast.walk(n.iter) if isinstance(m, ast.Name)}]
    return frozenset(line for loop in over for line in _uses(loop))


def _names(assignments: Iterable[ast.Assign]) -> set[str]:
    targets = (target for assignment in assignments for target in assignment.targets)
    return {name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name)}


def _uses(loop: ast.For) -> Iterator[int]:
    own = {name.id for name in ast.walk(loop.target) if isinstance(name, ast.Name)}
    for statement in loop.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in own:
                yield node.lineno


def _end(node: ast.stmt) -> int:
    return node.end_lineno or node.lineno


def _parsed(text: str) -> ast.Module | None:
    if not text or len(text) > _LONGEST:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # another Python's syntax, a cell with magics
        return None


def _defined(tree: ast.AST, outer: str) -> Iterator[Definition]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = outer + node.name
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            yield Definition(name, start, node.lineno, node.end_lineno or node.lineno, _parameters(node.args))
            yield from _defined(node, f"{name}.")
        elif isinstance(node, ast.ClassDef):
            yield from _defined(node, f"{outer}{node.name}.")
        else:
            yield from _defined(node, outer)


def _parameters(arguments: ast.arguments) -> tuple[str, ...]:
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    first = 1 if named[:1] in (["self"], ["cls"]) else 0
    return tuple(named[first:] + [a.arg for a in arguments.kwonlyargs])
