"""A loop whose rounds are compiled, where the loop itself is Python: what Python does of a round has lines of its own.

A round must not be given another thing each time: so an element is taken out of a tensor, and a list grown, outside.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from msgspec import Struct, field

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, indices
from compiler_lens.facts.measured.bookkeeping import stored
from compiler_lens.facts.measured.called import function_named
from compiler_lens.facts.measured.reached import free, identifiers

_GROWS = frozenset({"add", "append", "appendleft", "extend", "insert", "setdefault", "update"})
_SOMETIMES = (ast.IfExp, ast.BoolOp, ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_Parts = list[tuple[ast.expr, str]]  # of a line, with what to write for each


class _Loop(Struct, frozen=True):
    """One loop, and its statements of one line that do not stay."""

    node: ast.For | ast.While
    simple: Sequence[ast.stmt]


class _Writing(Struct):
    """The lines of a file, as they are being written."""

    lines: list[str]
    names: set[str]  # that are used in it
    kept: list[str]  # lines that stay, without blanks around
    before: dict[int, list[str]] = field(default_factory=dict)  # others that stay, by the number of what follows
    after: dict[int, list[str]] = field(default_factory=dict)

    def named(self, name: str) -> str:
        """Return a name like another, which is used from now on."""
        new = free(name, self.names)
        self.names.add(new)
        return new

    @property
    def text(self) -> str:
        """All of it."""
        every = ((*self.before.get(at, ()), line, *self.after.get(at, ())) for at, line in enumerate(self.lines))
        return "\n".join(line for several in every for line in several)

    @property
    def staying(self) -> Sequence[str]:
        """All lines that stay, without blanks around."""
        added = (line for several in (*self.before.values(), *self.after.values()) for line in several)
        return [*self.kept, *(line.strip() for line in added)]


def with_rounds(text: str, name: str, lines: Collection[str]) -> tuple[str, Collection[str]]:
    """Return a text in which a function's loops have rounds that can be compiled, and all lines of it that stay Python.

    Args:
        text: a file's.
        name: the function's, qualified.
        lines: those that stay, without blanks around: a loop in which one stands is Python.
    """
    tree = parsed(text) if "\r" not in text else None
    function = function_named(tree, name) if tree else None
    if tree is None or function is None:
        return text, lines
    new = _Writing(text.split("\n"), set(identifiers([tree])), list(lines))
    for loop in _entered(function, new.lines, lines):
        _write_rounds(loop, new)
        _write_stacks(function, loop, new)
    return new.text, new.staying


def _write_rounds(loop: _Loop, new: _Writing) -> None:
    """Have Python take what a round takes by its number, and keep what it makes."""
    taken = _taken(loop, new)
    pad = " " * loop.node.body[0].col_offset
    for old, (name, nodes) in taken.items():
        new.before.setdefault(nodes[0].lineno - 1, []).append(f"{pad}{name} = {old}")
    changes = [(node, name) for name, nodes in taken.values() for node in nodes]
    for one in loop.simple:
        number, pad = one.lineno - 1, " " * one.col_offset
        own = [change for change in changes if change[0].lineno == one.lineno]
        value = _handed_on(one, loop)
        if value is None and own:
            new.lines[number] = f"{pad}{_changed(new.lines, one, own)}"
        elif isinstance(value, (ast.Name, ast.Constant)):
            new.kept.append(new.lines[number].strip())
        elif value is not None:
            name = new.named(f"{_base(one)}_next")
            new.after[number] = [f"{pad}{_changed(new.lines, one, [(value, name)])}"]
            new.lines[number] = f"{pad}{name} = {_changed(new.lines, value, own)}"


def _write_stacks(function: ast.AST, loop: _Loop, new: _Writing) -> None:
    """Have Python stack what rounds have added to a list: with each other length, what gets it is compiled again."""
    grown = {_base(one) for one in loop.simple if isinstance(one, ast.Expr) and grows(one)}
    last = loop.node.end_lineno or 0
    body = function.body if isinstance(function, ast.FunctionDef) else ()
    for one in (one for one in _simple(body, new.lines) if one.lineno > last):
        number, pad = one.lineno - 1, " " * one.col_offset
        calls = [n for n in _always(one) if isinstance(n, ast.Call) and _stacks(n, grown)]
        value = getattr(one, "value", None)
        values = value.elts if isinstance(value, ast.Tuple) else [value]
        if calls and isinstance(one, ast.Assign) and all(node in calls for node in values):
            new.kept.append(new.lines[number].strip())
        elif calls and number not in new.before:
            changes: _Parts = [(call, new.named(f"{_base(call.args[0])}_all")) for call in calls]
            new.before[number] = [f"{pad}{name} = {_text(new.lines, call)}" for call, name in changes]
            new.lines[number] = f"{pad}{_changed(new.lines, one, changes)}"


def _stacks(call: ast.Call, grown: Collection[str]) -> bool:
    is_of_list = bool(call.args) and isinstance(call.args[0], ast.Name) and call.args[0].id in grown
    return is_of_list and dotted(call.func) in {"torch.stack", "torch.cat"}


def grows(one: ast.stmt) -> bool:
    """Return whether a statement adds to what is longer in each round then."""
    methods = (call.func for call in calls_in(one) if called(call) in _GROWS)
    return any(isinstance(method, ast.Attribute) and dotted(method.value) for method in methods)


def _entered(function: ast.AST, written: Sequence[str], lines: Collection[str]) -> Iterator[_Loop]:
    """Yield the loops around lines that stay which have lines of their own."""
    for loop in ast.walk(function):
        if isinstance(loop, (ast.For, ast.While)) and loop.body[0].lineno > loop.lineno:
            numbers = range(loop.lineno - 1, loop.end_lineno or loop.lineno)
            if any(written[n].strip() in lines for n in numbers):
                simple = _simple(loop.body, written)
                yield _Loop(loop, [one for one in simple if written[one.lineno - 1].strip() not in lines])


def _simple(body: Sequence[ast.stmt], written: Sequence[str]) -> Iterator[ast.stmt]:
    """Yield the statements of a body that are one line each, but not those of loops in it."""
    for one in body:
        if isinstance(one, (ast.If, ast.With)):
            yield from _simple((*one.body, *getattr(one, "orelse", ())), written)
        elif one.lineno == one.end_lineno and written[one.lineno - 1].strip() == _text(written, one):
            yield one


def _text(written: Sequence[str], node: ast.stmt | ast.expr) -> str:
    """Return the text of a node that is of one line."""
    return written[node.lineno - 1].encode()[node.col_offset : node.end_col_offset].decode()


def _changed(written: Sequence[str], node: ast.stmt | ast.expr, changes: _Parts) -> str:
    """Return a node's text with parts of it changed."""
    line, begin = written[node.lineno - 1].encode(), node.col_offset
    found = line[begin : node.end_col_offset]
    for part, new in sorted(changes, key=lambda change: change[0].col_offset, reverse=True):
        if begin <= part.col_offset and (part.end_col_offset or 0) <= (node.end_col_offset or 0):
            found = found[: part.col_offset - begin] + new.encode() + found[(part.end_col_offset or 0) - begin :]
    return found.decode()


def _taken(loop: _Loop, new: _Writing) -> dict[str, tuple[str, list[ast.expr]]]:
    """Return what a round takes by its number, `x[t]`, by its text, with a name for it and where it stands."""
    match loop.node:
        case ast.For(target=ast.Name(id=number), iter=ast.Call(func=ast.Name(id="range"))):
            pass
        case _:
            return {}
    changed = stored([loop.node]) | _written(loop.node)
    found: dict[str, tuple[str, list[ast.expr]]] = {}
    for node in (n for one in loop.simple if one in loop.node.body for n in _always(one)):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_by(node, number, changed):
            text = _text(new.lines, node)
            if text not in found:
                found[text] = (new.named(f"{_base(node)}_{number}"), [])
            found[text][1].append(node)
    return found


def _always(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are computed whenever it runs, in their order."""
    yield node
    inner = [] if isinstance(node, _SOMETIMES) else ast.iter_child_nodes(node)
    for one in inner:
        yield from _always(one)


def _written(loop: ast.AST) -> set[str]:
    """Return the names of which a loop writes elements, or calls what changes them in place."""
    nodes = list(ast.walk(loop))
    parts = [n.value for n in nodes if isinstance(n, ast.Subscript) and not isinstance(n.ctx, ast.Load)]
    parts += [call.func.value for call in nodes if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)
              and (call.func.attr.endswith("_") or call.func.attr in _GROWS)]  # fmt: skip
    return {n.id for one in parts for n in ast.walk(one) if isinstance(n, ast.Name)}


def _is_by(node: ast.Subscript, number: str, changed: Collection[str]) -> bool:
    """Whether a name is indexed by a loop's number, with nothing else in the index that a round changes."""
    parts = indices(node)
    others = {n.id for n in ast.walk(node) if isinstance(n, ast.Name)} - {number}
    is_number = any(isinstance(part, ast.Name) and part.id == number for part in parts)
    return is_number and isinstance(node.value, ast.Name) and others.isdisjoint(changed)


def _handed_on(one: ast.stmt, loop: _Loop) -> ast.expr | None:
    """Return what a statement adds to a list, or writes to an element by the loop's number: Python does that."""
    match one:
        case ast.Expr(value=ast.Call(args=[value], keywords=[])) if grows(one):
            return value
        case ast.Assign(targets=[ast.Subscript() as target], value=value) if isinstance(loop.node, ast.For):
            numbers = stored([loop.node.target])
            is_by = any(isinstance(n, ast.Name) and n.id in numbers for n in ast.walk(target.slice))
            return value if is_by else None
    return None


def _base(node: ast.AST) -> str:
    """Return the name of what is indexed, or added to."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner))):
            return _base(owner)
        case ast.Assign(targets=[target]):
            return _base(target)
        case ast.Subscript(value=value):
            return _base(value)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return "value"
