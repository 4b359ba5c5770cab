"""Source text of the user's: what a line says, what stands around it, which function it is in."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache

from msgspec import Struct, field

from compiler_lens.recording.model import Recording
from compiler_lens.recording.source_flow import Arms, arms, is_generator, lines_on_rows, repeated

_LONGEST = 2_000_000  # characters of a file that we look into
_QUOTED = re.compile(r"""(['"])((?:(?!\1)[^\\\n]|\\.)+)\1""")


class Definition(Struct, frozen=True):
    """A function or method in a file."""

    name: str  # qualified: "MoE.forward", "outer.inner"
    line: int  # of its first decorator, or of the def: what a code object calls its first line
    first: int  # of the def itself
    last: int
    parameters: tuple[str, ...]  # by name, in order, without self, *args and **kwargs
    generator: bool = False  # it has a `yield`


class Excerpt(Struct, frozen=True):
    """Some lines of a file."""

    first: int  # the number of the first line
    lines: tuple[str, ...]


class Sources(Struct, frozen=True):
    """The files of a recording by name; every question has an answer, also for a file that is not there."""

    texts: Mapping[str, str] = field(default_factory=dict)

    def has(self, file: str) -> bool:
        """Return whether the file's text is known."""
        return file in self.texts

    def line(self, file: str, number: int) -> str:
        """Return one line without its end; empty where it is not known."""
        lines = self._read(file).lines
        return lines[number - 1] if 0 < number <= len(lines) else ""

    def excerpt(self, file: str, number: int, around: int = 3) -> Excerpt | None:
        """Return a line with the lines around it; None where the file is not known or is shorter."""
        lines = self._read(file).lines
        if not 0 < number <= len(lines):
            return None
        first = max(number - around, 1)
        return Excerpt(first, lines[first - 1 : number + around])

    def literals(self, file: str) -> tuple[str, ...]:
        """Return every string that is written in a file, each once."""
        return self._read(file).literals

    def definitions(self, file: str) -> tuple[Definition, ...]:
        """Return every function of a file, outer ones before those inside; none if it is not Python that we know."""
        return self._read(file).definitions

    def function_at(self, file: str, number: int) -> Definition | None:
        """Return the innermost function around a line."""
        stretches = self._read(file).stretches
        at = bisect_right(stretches, number, key=lambda stretch: stretch[0]) - 1
        return stretches[at][1] if at >= 0 else None

    def repeats(self, file: str, number: int) -> bool:
        """Return whether one call may run a line several times; so, where the file is not known."""
        return not self.texts.get(file) or number in self._read(file).repeated

    def arms(self, file: str, number: int) -> Arms | None:
        """Return the branches, loop bodies and handlers around a line; None where the file is not known."""
        return self._read(file).arms.get(number) if file in self.texts else None

    def lines_on_rows(self, file: str, function: Definition, number: int) -> frozenset[int]:
        """Return the lines that only ask for the value of a row number, in a loop over those that a line made."""
        found = self._read(file).functions.get(function.first)
        return lines_on_rows(found, number) if found else frozenset()

    def _read(self, file: str) -> _Read:
        return _read(self.texts.get(file, ""))


def sources(recording: Recording) -> Sources:
    """Return what can be asked of the files of a recording."""
    return Sources({source.file: source.text for source in recording.sources})


class _Read:
    """What is read from one text, each when it is first asked for."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> tuple[str, ...]:
        # As Python counts lines: not str.splitlines, which also ends a line at a form feed.
        return tuple(self.text[:_LONGEST].replace("\r\n", "\n").replace("\r", "\n").split("\n"))

    def _tree(self) -> ast.Module | None:
        """Parsed anew each time: it takes far more memory than what is read from it."""
        if not self.text or len(self.text) > _LONGEST:
            return None
        try:
            return ast.parse(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # another Python's syntax, a cell with magics
            return None

    @cached_property
    def literals(self) -> tuple[str, ...]:
        tree = self._tree()
        if tree is None:
            return tuple(dict.fromkeys(found[2] for found in _QUOTED.finditer(self.text)))
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        return tuple(dict.fromkeys(value for value in constants if isinstance(value, str)))

    @cached_property
    def definitions(self) -> tuple[Definition, ...]:
        tree = self._tree()
        return tuple(_defined(tree)) if tree else ()

    @cached_property
    def functions(self) -> Mapping[int, ast.AST]:
        tree = self._tree()
        nodes = ast.walk(tree) if tree else ()
        return {n.lineno: n for n in nodes if isinstance(n, (ast.FunctionDef, ast.AsyncFunctionDef))}

    @cached_property
    def repeated(self) -> frozenset[int]:
        tree = self._tree()
        return repeated(tree) if tree else frozenset(range(1, len(self.lines) + 1))

    @cached_property
    def arms(self) -> Mapping[int, Arms]:
        tree = self._tree()
        return arms(tree) if tree else {}

    @cached_property
    def stretches(self) -> tuple[tuple[int, Definition | None], ...]:
        """From which line on one is in which function."""
        edges: list[tuple[int, Definition | None]] = []
        around: list[Definition] = []
        for function in [*sorted(self.definitions, key=lambda d: (d.line, -d.last)), None]:
            while around and (function is None or around[-1].last < function.line):
                left = around.pop()
                edges.append((left.last + 1, around[-1] if around else None))
            if function is not None:
                around.append(function)
                edges.append((function.line, function))
        return tuple(edges)


_read = lru_cache(maxsize=64)(_Read)


def _defined(tree: ast.Module) -> Iterator[Definition]:
    # A loop: expressions may be nested deeper than Python's stack.
    left: list[tuple[ast.AST, str]] = [(tree, "")]
    while left:
        node, outer = left.pop()
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            named = [a.arg for a in (*node.args.posonlyargs, *node.args.args)]
            own = named[1:] if named[:1] in (["self"], ["cls"]) else named
            parameters = (*own, *(a.arg for a in node.args.kwonlyargs))
            start = min([node.lineno, *(d.lineno for d in node.decorator_list)])
            last = node.end_lineno or node.lineno
            yield Definition(outer + node.name, start, node.lineno, last, parameters, is_generator(node))
            outer = f"{outer}{node.name}."
        elif isinstance(node, ast.ClassDef):
            outer = f"{outer}{node.name}."
        left += [(child, outer) for child in reversed(list(ast.iter_child_nodes(node)))]
