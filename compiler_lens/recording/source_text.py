"""Source text of the user's: what a line says, what stands around it, which function it is in."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache

from compiler_lens.recording.model import Recording
from compiler_lens.recording.source_flow import Arms, arms, is_generator, lines_on_rows, repeated

_LONGEST = 2_000_000  # characters of a file that we look into
_QUOTED = re.compile(r"""(['"])((?:(?!\1)[^\\\n]|\\.)+)\1""")


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or method in a file."""

    name: str  # qualified: "MoE.forward", "outer.inner"
    line: int  # of its first decorator, or of the def: what a code object calls its first line
    first: int  # of the def itself
    last: int
    parameters: tuple[str, ...]  # by name, in order, without self, *args and **kwargs
    generator: bool = False  # it has a `yield`


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

    def literals(self, file: str) -> tuple[str, ...]:
        """Every string that is written in a file, each once."""
        return _literals(self.texts.get(file, ""))

    def definitions(self, file: str) -> tuple[Definition, ...]:
        """Every function of a file, outer ones before those inside of them; empty if it is not Python that we know."""
        return _definitions(self.texts.get(file, ""))

    def function_at(self, file: str, number: int) -> Definition | None:
        """The innermost function around a line."""
        stretches = _stretches(self.texts.get(file, ""))
        at = bisect_right(stretches, number, key=lambda stretch: stretch[0]) - 1
        return stretches[at][1] if at >= 0 else None

    def repeats(self, file: str, number: int) -> bool:
        """Whether one call may run a line several times; so, where the file is not known."""
        text = self.texts.get(file, "")
        return not text or number in _repeated(text)

    def arms(self, file: str, number: int) -> Arms | None:
        """The branches, loop bodies and handlers around a line; None where the file is not known."""
        return _arms(self.texts[file]).get(number) if file in self.texts else None

    def lines_on_rows(self, file: str, function: Definition, number: int) -> frozenset[int]:
        """The lines that only ask for the value of a row number, in a loop over those that a line made."""
        return _lines_on_rows(self.texts.get(file, ""), function.first, number)


def sources(recording: Recording) -> Sources:
    """Return what can be asked of the files of a recording."""
    return Sources({source.file: source.text for source in recording.sources})


@lru_cache(maxsize=64)
def _lines(text: str) -> tuple[str, ...]:
    # As Python counts lines: not str.splitlines, which also ends a line at a form feed.
    return tuple(text[:_LONGEST].replace("\r\n", "\n").replace("\r", "\n").split("\n"))


@lru_cache(maxsize=64)
def _literals(text: str) -> tuple[str, ...]:
    tree = _parsed(text)
    if tree is None:
        return tuple(dict.fromkeys(found[2] for found in _QUOTED.finditer(text)))
    strings = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str))
    return tuple(dict.fromkeys(strings))


@lru_cache(maxsize=64)
def _definitions(text: str) -> tuple[Definition, ...]:
    tree = _parsed(text)
    return tuple(_defined(tree)) if tree else ()


@lru_cache(maxsize=64)
def _stretches(text: str) -> tuple[tuple[int, Definition | None], ...]:
    """From which line on one is in which function."""
    edges: list[tuple[int, Definition | None]] = []
    around: list[Definition] = []

    def leave() -> None:
        left = around.pop()
        edges.append((left.last + 1, around[-1] if around else None))

    for function in sorted(_definitions(text), key=lambda d: (d.line, -d.last)):
        while around and around[-1].last < function.line:
            leave()
        around.append(function)
        edges.append((function.line, function))
    while around:
        leave()
    return tuple(edges)


@lru_cache(maxsize=64)
def _repeated(text: str) -> frozenset[int]:
    tree = _parsed(text)
    return repeated(tree) if tree else frozenset(range(1, len(_lines(text)) + 1))


@lru_cache(maxsize=64)
def _arms(text: str) -> Mapping[int, Arms]:
    tree = _parsed(text)
    return arms(tree) if tree else {}


@lru_cache(maxsize=256)
def _lines_on_rows(text: str, first: int, number: int) -> frozenset[int]:
    function = _functions(text).get(first)
    return lines_on_rows(function, number) if function else frozenset()


@lru_cache(maxsize=64)
def _functions(text: str) -> Mapping[int, ast.AST]:
    tree = _parsed(text)
    nodes = ast.walk(tree) if tree else ()
    return {n.lineno: n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}


def _parsed(text: str) -> ast.Module | None:
    if not text or len(text) > _LONGEST:
        return None
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # another Python's syntax, a cell with magics
        return None


def _defined(tree: ast.Module) -> Iterator[Definition]:
    # A loop: expressions may be nested deeper than Python's stack.
    left: list[tuple[ast.AST, str]] = [(tree, "")]
    while left:
        node, outer = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            name = outer + node.name
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            last = node.end_lineno or node.lineno
            yield Definition(name, start, node.lineno, last, _parameters(node.args), is_generator(node))
            outer = f"{name}."
        elif isinstance(node, ast.ClassDef):
            outer = f"{outer}{node.name}."
        left += [(child, outer) for child in reversed(list(ast.iter_child_nodes(node)))]


def _parameters(arguments: ast.arguments) -> tuple[str, ...]:
    named = [a.arg for a in (*arguments.posonlyargs, *arguments.args)]
    first = 1 if named[:1] in (["self"], ["cls"]) else 0
    return tuple(named[first:] + [a.arg for a in arguments.kwonlyargs])
