"""The statement at a graph break: its text, what stands around it, and which names are tensors for sure."""

from __future__ import annotations

import ast
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from types import MappingProxyType

from msgspec import Struct, field

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.others import arrays, given_otherwise
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, Function, is_tensor, parameters, targets, tensor_names
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources, expression, first_line, syntax_if_known

_LONGEST_LINE = 1_000
_LONGEST_STATEMENT = 60  # lines: nobody reads a longer suggestion
_LARGEST_STATEMENT = 5_000  # characters
_LARGEST_BLOCK = 200  # lines of a statement that the rules look through
_DEEPEST = 50  # statements around one another
_ALL = "*"

Change = tuple[ast.expr, str]  # what stands there now, what to write there


class Seen(Struct, frozen=True):
    """What torch asked of a tensor when it compiled a function."""

    dtype: str  # "float32"; empty where it did not say
    dims: int | None = None  # how many dimensions
    line: int = 0  # from where on: that of a break before it
    is_contiguous: bool = True  # as far as torch said


SeenNames = Mapping[str, frozenset[Seen]]  # by a tensor's name, `x` or `self.table`
SeenTensors = Mapping[str, Mapping[int, SeenNames]]  # by file and a function's first line
NOTHING_SEEN: SeenTensors = MappingProxyType({})


class Uses(Struct, frozen=True):
    """What a function does with each name."""

    loads: Mapping[str, Sequence[ast.Name]] = field(default_factory=dict)  # in the order of the text
    stores: Mapping[str, Sequence[int]] = field(default_factory=dict)  # lines, in order
    values: Mapping[str, Sequence[ast.expr]] = field(default_factory=dict)  # what is assigned to the name alone


class Site(Struct, frozen=True):
    """The statement that a line belongs to, with its surroundings."""

    text: str
    line: int
    statement: ast.stmt
    following: tuple[ast.stmt, ...]  # in the same block
    around: tuple[ast.stmt, ...]  # loops and branches of the function around it, outermost first
    function: Function | None
    tensors: frozenset[str]  # names that are tensors for sure
    torch: str = "torch"  # what the file calls torch
    imports_torch: bool = True
    arrays: frozenset[str] = frozenset()  # names that may be arrays of NumPy's
    given_otherwise: frozenset[str] = frozenset()  # parameters that another call gives what is no tensor
    seen: SeenNames = MappingProxyType({})

    @property
    def has_torch_at_top(self) -> bool:
        """Whether the module itself imports torch, for all that stands in it."""
        tree = parsed(self.text)
        imports = [alias for one in (tree.body if tree else ()) if isinstance(one, ast.Import) for alias in one.names]
        return any((alias.asname or alias.name).partition(".")[0] == self.torch for alias in imports)

    def source(self, node: ast.AST, changes: Sequence[Change] = ()) -> str:
        """Return an expression's text on one line, with parts of it changed."""
        text = self.edited(node, changes)
        return ast.unparse(expression(f"({text})")) if "\n" in text else text

    def atom(self, node: ast.expr) -> str:
        """Return an expression's text, in brackets where a dot after it would mean something else."""
        text = self.source(node)
        return text if isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript)) else f"({text})"

    def edited(self, node: ast.AST, changes: Sequence[Change] = ()) -> str:
        """Return a node's text as the user wrote it, with parts of it changed."""
        whole, starts = _encoded(self.text)
        first, last = _extent(node, starts)
        data = whole[first:last]
        for part, new in sorted(changes, key=lambda c: _extent(c[0], starts), reverse=True):
            begin, end = _extent(part, starts)
            data = data[: begin - first] + new.encode() + data[end - first :]
        return data.decode()

    def lines(self, changes: Sequence[Change] = ()) -> list[str]:
        """Return the statement's lines, dedented, with parts of them changed."""
        return self.dedented(self.statement, changes)

    def rewrite(
        self, after: Sequence[str], needs: str = "", *, last: ast.stmt | None = None, is_complete: bool = True
    ) -> Rewrite | None:
        """Return a suggestion for the statement, or for all from it to `last`; None where that is not whole lines."""
        first, end = self.statement, last or self.statement
        lines = _split(self.text)[first.lineno - 1 : end.end_lineno]
        tail = lines[-1].encode()[end.end_col_offset or 0 :].decode().strip()
        if len(lines) > _LONGEST_STATEMENT or sum(map(len, lines)) > _LARGEST_STATEMENT:
            return None
        if any(line[: first.col_offset].strip() for line in lines) or (tail and not tail.startswith("#")):
            return None
        for statement in (first, *takewhile(lambda s: s.lineno <= end.lineno, self.following)):
            texts = (n for n in ast.walk(statement) if isinstance(n, (ast.JoinedStr, ast.Constant)))
            over_lines = [
                n for n in texts if n.lineno != n.end_lineno and isinstance(getattr(n, "value", ""), (str, bytes))
            ]
            if any(_is_indented_text(self.edited(n)) for n in over_lines):
                return None
        before = tuple(line[first.col_offset :].rstrip() for line in lines)
        if not self.imports_torch and any("torch." in line for line in after):
            needs = "; ".join(filter(None, (needs, "`import torch`")))
        return None if tuple(after) == before else Rewrite(before, tuple(after), is_complete, needs)

    def edit(self, changes: Sequence[Change], needs: str = "") -> Rewrite | None:
        """Return a suggestion that changes parts of the statement and keeps the rest as it is."""
        return self.rewrite(self.lines(changes), needs) if changes else None

    def dedented(self, node: ast.stmt, changes: Sequence[Change] = ()) -> list[str]:
        """Return the lines of a statement as if it stood at the margin, with parts of it changed."""
        lines = _split(self.text)[node.lineno - 1 : node.end_lineno]
        if not changes and not lines[0].encode()[: node.col_offset].strip():  # with a comment at their end
            return [line[node.col_offset :].rstrip() for line in lines]
        first, *rest = self.edited(node, changes).split("\n")
        return [first, *(line[node.col_offset :] for line in rest)]

    def changed(
        self, statements: Sequence[ast.stmt], new: Callable[[ast.stmt], tuple[Sequence[str], Sequence[str]]]
    ) -> tuple[list[str], ast.stmt | None]:
        """Return the lines of statements up to the last that changes, and that one.

        Args:
            statements: they follow one another.
            new: gives lines to stand above a statement, and what to write for it; nothing where it stays.
        """
        lines: list[str] = []
        found: tuple[list[str], ast.stmt | None] = [], None
        for one in statements:
            above, written = new(one)
            lines += [*above, *(written or self.dedented(one))]
            if written:
                found = [*lines], one
        return found

    def head(self, statement: ast.For | ast.While | ast.If | ast.With) -> tuple[str, ...]:
        """Return the lines of a loop, or a branch, before its body, dedented; empty if they hold more than that."""
        lines = _split(self.text)[statement.lineno - 1 : _head_end(statement)]
        is_whole = lines[-1].rstrip().endswith(":") and statement.body[0].lineno > _head_end(statement)
        return tuple(line[statement.col_offset :] for line in lines) if is_whole else ()

    def free(self, name: str) -> str:
        """Return a name that neither the function nor, without one, the statement uses yet."""
        uses = _uses(self.function or self.statement)
        return self.free(f"{name}_") if name in uses.loads or name in uses.stores else name

    def uses(self) -> Uses:
        """Return what the function does with each name; without one nothing."""
        return _uses(self.function) if self.function else Uses()

    def local(self) -> frozenset[str]:
        """Return parameters and names that the function assigns."""
        return frozenset((*self.uses().stores, *parameters(self.function))) if self.function else frozenset()

    def defined_before(self, name: str) -> bool:
        """Return whether a local name has a value when the statement is reached, as far as its text shows."""
        first = next(iter(self.uses().stores.get(name, ())), self.statement.lineno)
        return self.function is not None and (name in parameters(self.function) or first < self.statement.lineno)

    def escapes(self, name: str) -> bool:
        """Return whether others may read a name of the function, or assign it, without that its text shows where."""
        outer = _outer(self.function) if self.function else frozenset[str]()
        return name in outer or _ALL in outer

    def value_of(self, name: str) -> ast.expr | None:
        """Return what a name is assigned, if that happens once in the function, and nowhere else."""
        if self.escapes(name):
            return None
        values, stores = self.uses().values.get(name, ()), self.uses().stores.get(name, ())
        return values[0] if len(stores) == len(values) == 1 else None

    def loads(self, name: str) -> Sequence[ast.Name]:
        """Return where the function reads a name, in the order of the text."""
        return self.uses().loads.get(name, ())

    def parents(self) -> Mapping[ast.AST, ast.AST]:
        """Return, for each node of the function, or without one of the statement, the node around it."""
        return _parents(self.function or self.statement)

    def dtype_of(self, name: str) -> str:
        """Return the one dtype that a name was always seen with, as it is in the whole function; empty if not known."""
        found, first = {one.dtype for one in self.seen.get(name, ())}, name.partition(".")[0]
        is_given = self.function is not None and first in parameters(self.function) and first not in self.uses().stores
        return found.pop() if is_given and len(found) == 1 and first not in self.given_otherwise else ""

    def dims_of(self, name: str) -> int | None:
        """Return the number of dimensions that a name has at the line, as torch saw it last; None if not known."""
        return _only({one.dims for one in self.seen_last(name)})

    def seen_last(self, name: str) -> list[Seen]:
        """Return what torch saw of a name last before the line, or next after it if it is the same one."""
        seen = self.seen.get(name, ())
        last = max((one.line for one in seen if one.line <= self.line), default=None)
        if last is None:
            last = min((one.line for one in seen), default=0)
            if any(self.line <= line <= last for line in self.uses().stores.get(name, ())):
                return []
        return [one for one in seen if one.line == last]

    def dims_after(self, name: str, line: int) -> int | None:
        """Return the number of dimensions that a name has next after a line; None where torch did not see it there."""
        seen = [one for one in self.seen.get(name, ()) if one.line > line]
        first = min((one.line for one in seen), default=0)
        return _only({one.dims for one in seen if one.line == first})

    def is_tensor(self, node: ast.expr) -> bool:
        """Return whether an expression is a tensor for sure."""
        return is_tensor(node, self.tensors, self.arrays)


def _only(found: set[int | None]) -> int | None:
    return next(iter(found)) if len(found) == 1 else None


def site_at(sources: Sources, at: SourceLine, seen: SeenTensors = NOTHING_SEEN) -> Site | None:
    """Return the statement at a line; from the line alone where its file is not known or is another one by now."""
    known, told = sources.line(at.file, at.line), at.code.strip()
    if len(known) > _LONGEST_LINE or len(at.code) > _LONGEST_LINE:
        return None
    if known.strip() and (not at.code or told.startswith(known.strip())):  # torch may join several lines
        return _in_file(_with_line_feeds(sources.texts[at.file]), at.line, seen.get(at.file, {}))
    tree = parsed(told)
    if tree is None or len(tree.body) != 1 or not isinstance(tree.body[0], SIMPLE):
        return None
    statement = tree.body[0]
    names = tensor_names(statement, frozenset(n.id for n in ast.walk(statement) if isinstance(n, ast.Name)))
    return Site(told, 1, statement, (), (), None, names)


def site_in(text: str, line: int) -> Site | None:
    """Return the statement at a line of a text."""
    lines = _split(text)
    there = lines[line - 1] if 0 < line <= len(lines) else ""
    return _in_file(_with_line_feeds(text), line, {}) if there.strip() and len(there) <= _LONGEST_LINE else None


def nodes_in(texts: Iterable[str]) -> Iterator[ast.AST]:
    """Yield all that some texts have; nothing of one that is no Python."""
    for text in texts:
        tree = parsed(text)
        yield from ast.walk(tree) if tree else ()


def only_line(text: str, code: str) -> int | None:
    """Return the number of the one line of a text that is a code, without blanks around it; None of none or several."""
    places = [number for number, line in enumerate(_split(text), 1) if line.strip() == code]
    return places[0] if len(places) == 1 else None


def _in_file(text: str, line: int, seen: Mapping[int, SeenNames]) -> Site | None:
    tree = parsed(text)
    body: Sequence[ast.stmt] = tree.body if tree else ()
    function: Function | None = None
    around: list[ast.stmt] = []  # in the function: all statements around the line, the innermost last
    scopes: list[ast.AST] = [tree] if tree else []  # the module, and all functions around the line
    for _ in range(_DEEPEST):
        if (number := number_at(body, line)) is None:
            break
        statement, following = body[number], tuple(body[number + 1 :])
        if isinstance(statement, Function):
            function, around = statement, []
            scopes.append(statement)
        else:
            around.append(statement)
        inner = (b for b in _blocks(statement) if number_at(b, line) is not None)
        body = () if line <= _head_end(statement) else next(inner, ())
    else:
        return None
    if tree is None or function is None or not around or _is_large(around[-1], _encoded(text)[1]):
        return None
    torch = _torch_name(tuple(scopes))
    begin = first_line(function)
    otherwise = given_otherwise(tree, function)
    names = seen.get(function.lineno, seen.get(begin, MappingProxyType({})))
    known = frozenset(name for name in names if "." not in name) - otherwise
    of_numpy = arrays(tree, function, known)
    return Site(
        text,
        line,
        around[-1],
        following,
        tuple(around[:-1]),
        function,
        _tensors(function, known, of_numpy),
        torch or "torch",
        bool(torch),
        of_numpy,
        otherwise,
        names,
    )


def _is_indented_text(text: str) -> bool:
    """Whether the blanks before its lines may be a part of a text: several texts beside each other have none."""
    return "'''" in text or '"""' in text or any(line.endswith("\\") for line in text.split("\n"))


def number_at(body: Sequence[ast.stmt], line: int) -> int | None:
    """Return which of some statements a line is in."""
    number = bisect_left(body, line, key=lambda s: s.end_lineno or 0)
    return number if number < len(body) and body[number].lineno <= line else None


def _head_end(statement: ast.stmt) -> int:
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return statement.lineno - 1
    heads = [getattr(statement, name, None) for name in ("test", "iter", "subject")]
    heads += [e for item in getattr(statement, "items", ()) for e in (item.context_expr, item.optional_vars)]
    return max(statement.lineno, *(getattr(head, "end_lineno", None) or 0 for head in heads))


def _is_large(statement: ast.stmt, starts: tuple[int, ...]) -> bool:
    """Whether a statement, or of one with a block the head, is longer than a suggestion may be."""
    first, last = starts[statement.lineno - 1], starts[_head_end(statement)]
    if isinstance(statement, SIMPLE):
        first, last = _extent(statement, starts)
    return last - first > _LARGEST_STATEMENT or (statement.end_lineno or 0) - statement.lineno > _LARGEST_BLOCK


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    for name in ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _extent(node: ast.AST, starts: tuple[int, ...]) -> tuple[int, int]:
    first, last = getattr(node, "lineno", 1), getattr(node, "end_lineno", 1)
    return starts[first - 1] + getattr(node, "col_offset", 0), starts[last - 1] + getattr(node, "end_col_offset", 0)


# -- what is found out once of a text, or of a function


@lru_cache(maxsize=16)
def _uses(tree: ast.AST) -> Uses:
    loads: dict[str, list[ast.Name]] = {}
    stores: dict[str, list[int]] = {}
    values: dict[str, list[ast.expr]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            loads.setdefault(node.id, []).append(node)
        elif isinstance(node, ast.Name):
            stores.setdefault(node.id, []).append(node.lineno)
        elif isinstance(node, ast.Assign) and len(named := targets(node)) == 1:
            values.setdefault(named[0], []).append(node.value)
    in_order = {name: sorted(nodes, key=lambda n: n.lineno) for name, nodes in loads.items()}
    return Uses(in_order, {name: sorted(lines) for name, lines in stores.items()}, values)


@lru_cache(maxsize=16)
def _outer(function: Function) -> frozenset[str]:
    """Return the names under `global` and `nonlocal`, also those of functions within; `*` where all may be read."""
    found: set[str] = set()
    for node in ast.walk(function):
        match node:
            case ast.Global(names=names) | ast.Nonlocal(names=names):
                found.update(names)
            case ast.Call(func=ast.Name(id="locals" | "eval" | "exec")) | ast.Call(func=ast.Name(id="vars"), args=[]):
                found.add(_ALL)
    return frozenset(found)


@lru_cache(maxsize=16)
def _parents(tree: ast.AST) -> Mapping[ast.AST, ast.AST]:
    return {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}


@lru_cache(maxsize=16)
def _tensors(function: Function, seen: frozenset[str], of_numpy: frozenset[str]) -> frozenset[str]:
    # What others assign, too, may be something else by the time that it is read.
    candidates = frozenset((*_uses(function).stores, *parameters(function))) - _outer(function)
    return tensor_names(function, candidates, seen, of_numpy)


def _is_for_types(node: ast.AST) -> bool:
    """Whether what is in a block is there for type checkers alone."""
    match node:
        case ast.If(test=ast.Name(id=name) | ast.Attribute(attr=name)):
            return name == "TYPE_CHECKING"
    return False


def _torch_name(scopes: tuple[ast.AST, ...]) -> str:
    """Return what torch is called in the innermost of some scopes; empty where none of them imports it."""
    return next(filter(None, map(_imported_torch, reversed(scopes))), "")


@lru_cache(maxsize=64)  # a module's is asked for at each of its breaks
def _imported_torch(scope: ast.AST) -> str:
    for alias in (a for node in _in_scope(scope) if isinstance(node, ast.Import) for a in node.names):
        if alias.name == "torch":
            return alias.asname or "torch"
        if alias.name.startswith("torch.") and not alias.asname:  # with one, that is the submodule's
            return "torch"
    return ""


def _in_scope(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield what runs in a scope itself: nothing of functions and classes in it, nor what is there for types alone."""
    left = deque(ast.iter_child_nodes(scope))
    while left:
        node = left.popleft()
        yield node
        if not isinstance(node, (*_SCOPES, ast.Lambda)) and not _is_for_types(node):
            left.extend(ast.iter_child_nodes(node))


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@lru_cache(maxsize=16)
def _with_line_feeds(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@lru_cache(maxsize=16)
def _split(text: str) -> tuple[str, ...]:
    return tuple(text.split("\n"))


@lru_cache(maxsize=16)
def _encoded(text: str) -> tuple[bytes, tuple[int, ...]]:
    starts = [0]
    for line in _split(text):
        starts.append(starts[-1] + len(line.encode()) + 1)
    return text.encode(), tuple(starts)


parsed = lru_cache(maxsize=16)(syntax_if_known)
