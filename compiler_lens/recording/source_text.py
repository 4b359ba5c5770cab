"""Source text of the user's: what a line says, what stands around it, which function it is in.

And what syntax alone says of a function's course: what need not run, and what comes of a list of row numbers.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import count
from typing import cast

from msgspec import Struct, field

from compiler_lens.recording.model import Recording

_LONGEST = 2_000_000  # characters of a file that we look into
_QUOTED = re.compile(r"""(['"])(?<!\\.)((?:(?!\1)[^\\\n]|\\.)+)\1""")

Arms = frozenset[int]  # branches, loop bodies and handlers, by number


_PARSED = "<compiler_lens>"  # for Python the file that the text is from
_QUIET = ("ignore", None, Warning, re.compile(re.escape(_PARSED)), 0)


def syntax(text: str) -> ast.Module:
    """Return the syntax of Python code, and let Python warn of nothing: it would quote the text as it is.

    Raises SyntaxError, ValueError, RecursionError or MemoryError for a text that this Python cannot read.
    """
    return cast("ast.Module", _parsed(text, "exec"))


def expression(text: str) -> ast.expr:
    """Return the syntax of one expression, as `syntax` does."""
    return cast("ast.Expression", _parsed(text, "eval")).body


def syntax_if_known(text: str) -> ast.Module | None:
    """Return the syntax of a text; None where it is empty, too long, another Python's, or a cell with magics."""
    if not text or len(text) > _LONGEST:
        return None
    try:
        return syntax(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _parsed(text: str, mode: str) -> ast.AST:
    # The filters are the whole process's. `catch_warnings` would hide what other threads warn of, put back what they
    # change meanwhile, and have Python show again what it shows once; one more filter, for this text alone, does not.
    filters = cast("list[object]", warnings.filters)
    filters.insert(0, _QUIET)
    try:
        return ast.parse(text, _PARSED, mode)
    finally:
        filters.remove(_QUIET)


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

    def lines(self, file: str) -> tuple[str, ...]:
        """Return all lines of a file without their ends; none where it is not known."""
        return self._read(file).lines if file in self.texts else ()

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

    def syntax_of(self, file: str, first: int) -> ast.AST | None:
        """Return the syntax of the function whose `def` is at a line; None if there is none."""
        return self._read(file).functions.get(first)

    def repeats(self, file: str, number: int) -> bool:
        """Return whether one call may run a line several times; so, where the file is not known."""
        return not self.texts.get(file) or number in self._read(file).repeated

    def arms(self, file: str, number: int) -> Arms | None:
        """Return the branches, loop bodies and handlers around a line; None where the file is not known."""
        return self._read(file).arms.get(number) if file in self.texts else None

    def lines_on_rows(self, file: str, function: Definition, number: int) -> frozenset[int]:
        """Return the lines that only ask for the value of a row number, in a loop over those that a line made."""
        found = self._read(file).functions.get(function.first)
        return _lines_on_rows(found, number) if found else frozenset()

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
        return syntax_if_known(self.text)

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
        return _repeated(tree) if tree else frozenset(range(1, len(self.lines) + 1))

    @cached_property
    def arms(self) -> Mapping[int, Arms]:
        tree = self._tree()
        return _arms_by_line(tree) if tree else {}

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
            start = first_line(node)
            last = node.end_lineno or node.lineno
            yield Definition(outer + node.name, start, node.lineno, last, parameters, _is_generator(node))
            outer = f"{outer}{node.name}."
        elif isinstance(node, ast.ClassDef):
            outer = f"{outer}{node.name}."
        left += [(child, outer) for child in reversed(list(ast.iter_child_nodes(node)))]


def first_line(node: ast.stmt) -> int:
    """Return the line that a statement begins at; of a function or a class that of its first decorator."""
    marks: Sequence[ast.expr] = getattr(node, "decorator_list", ())
    return min([node.lineno, *(mark.lineno for mark in marks)])


# -- a function's course

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
LOOPS = (ast.For, ast.AsyncFor, ast.While)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SILENT = (ast.Name, ast.Constant, ast.expr_context, ast.arguments, ast.arg)  # none of these calls anything

# What makes a list of row numbers, and what asks one of them for its value.
_ROW_NUMBERS = frozenset(("nonzero", "argwhere", "where", "flatnonzero", "unique"))
_ASKING = frozenset(("item", "tolist", "int", "bool", "float", "len"))


def _arms_by_line(tree: ast.AST) -> Mapping[int, Arms]:
    """Return for each line: the branches, loop bodies and handlers of its function around what stands there, by number.

    Who reaches a line has also passed each line before it, of the same function, whose arms are among its own.
    """
    found: dict[int, Arms] = {}
    numbers = count()
    waiting: list[tuple[ast.AST, Arms]] = [(tree, frozenset())]
    while waiting:  # no recursion: a long chain of operators is as deep as it is long
        node, around = waiting.pop()
        if (line := getattr(node, "lineno", None)) is not None and not isinstance(node, _SILENT):
            found[line] = found.get(line, around) | around
        inner = {id(child): around | {n} for arm, n in zip(_arms(node), numbers, strict=False) for child in arm}
        fresh: Arms = frozenset() if isinstance(node, _FUNCTIONS) else around
        waiting += [(child, inner.get(id(child), fresh)) for child in ast.iter_child_nodes(node)]
    return found


def _repeated(tree: ast.AST) -> frozenset[int]:
    """Return the lines that one call of their function may run several times: in loops and comprehensions."""
    found: set[int] = set()
    waiting: list[tuple[ast.AST, bool]] = [(tree, False)]
    while waiting:
        node, is_inside = waiting.pop()
        if is_inside and (line := getattr(node, "lineno", None)) is not None:
            found.add(line)
        again = {id(child) for child in _again(node)}
        fresh = is_inside and not isinstance(node, _FUNCTIONS)
        waiting += [(child, fresh or id(child) in again) for child in ast.iter_child_nodes(node)]
    return frozenset(found)


def _again(node: ast.AST) -> Sequence[ast.AST]:
    """The parts of a node that may run several times while it runs once."""
    if isinstance(node, LOOPS):
        return node.body
    if isinstance(node, COMPREHENSIONS):
        return [*([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]), *node.generators[1:]]
    return []


def _arms(node: ast.AST) -> Iterator[Iterable[ast.AST]]:
    """The parts of a node that do not run each time that it does."""
    if isinstance(node, (ast.If, *LOOPS)):
        yield node.body
        yield node.orelse
    elif isinstance(node, ast.Try):
        yield from ([handler] for handler in node.handlers)
        yield node.orelse
    elif isinstance(node, ast.Match):
        yield from ([case] for case in node.cases)
    elif isinstance(node, ast.IfExp):
        yield [node.body]
        yield [node.orelse]
    elif isinstance(node, ast.BoolOp):
        yield node.values[1:]
    elif isinstance(node, ast.Assert):
        yield [node.msg] if node.msg else []
    elif isinstance(node, COMPREHENSIONS):
        yield _again(node)


def _is_generator(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function yields, itself and not a function inside of it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return False


def _lines_on_rows(function: ast.AST, number: int) -> frozenset[int]:
    """Return the lines that only ask for the value of a row number, in a loop over those that line `number` made.

    `rows = mask.nonzero()` and then, in `for row in rows`, `if row == last`: without the first there is no second.
    """
    made = [n for n in ast.walk(function) if isinstance(n, ast.Assign) and n.lineno <= number <= (n.end_lineno or 0)]
    rows: set[str] = set()
    for node in made:
        if any(_called(n) in _ROW_NUMBERS for n in ast.walk(node.value) if isinstance(n, ast.Call)):
            rows.update(name for target in node.targets for name in _targets(target))
    later = [n for n in ast.walk(function) if isinstance(n, ast.For) and n.lineno > number] if rows else []
    return frozenset(line for loop in later for line in _asking(loop.body, _names_over(loop.target, loop.iter, rows)))


def _called(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


def _targets(target: ast.AST) -> Iterator[str]:
    return (n.id for n in ast.walk(target) if isinstance(n, ast.Name))


def _names_over(target: ast.expr, over: ast.expr, rows: set[str]) -> set[str]:
    """The variables of a loop that stand for row numbers, through `zip` and `enumerate`."""
    if isinstance(over, ast.Name):
        return set(_targets(target)) if over.id in rows else set()
    shift = {"zip": 0, "enumerate": 1}.get(_called(over)) if isinstance(over, ast.Call) else None
    if shift is None or not isinstance(over, ast.Call) or not isinstance(target, ast.Tuple):
        return set()
    pairs = zip(target.elts[shift:], over.args, strict=False)
    return {name for part, argument in pairs for name in _names_over(part, argument, rows)}


def _asking(body: Iterable[ast.stmt], rows: set[str]) -> Iterator[int]:
    """The lines of a loop's body that ask for row numbers only; `rows` follows the assignments."""
    for statement in body if rows else ():
        asked = getattr(statement, "test", None) or getattr(statement, "value", None)
        is_pure = isinstance(asked, ast.expr) and _is_of(asked, rows)
        if is_pure:
            yield statement.lineno
        if isinstance(statement, ast.Assign):
            names = {name for target in statement.targets for name in _targets(target)}
            rows = rows | names if is_pure else rows - names
        for part in ("body", "orelse"):
            yield from _asking(getattr(statement, part, ()), rows)


def _is_of(asked: ast.expr, rows: set[str]) -> bool:
    """Whether an expression is about row numbers and nothing else: constants and attributes of `self` aside."""
    nodes = list(ast.walk(asked))
    plain = {id(n.value) for n in nodes if isinstance(n, ast.Attribute) and getattr(n.value, "id", "") == "self"}
    calls = {id(n.func): n for n in nodes if isinstance(n, ast.Call)}
    subscripted = (n.value for n in nodes if isinstance(n, ast.Subscript))
    if any(_called(call) not in _ASKING for call in calls.values()):
        return False
    if not all(isinstance(n, ast.Name) and n.id in rows for n in subscripted):
        return False
    names = [n for n in nodes if isinstance(n, ast.Name) and id(n) not in plain and id(n) not in calls]
    return bool(names) and all(name.id in rows for name in names)
