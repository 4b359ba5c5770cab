"""A function in parts: the statements that break its graph stay Python, what stands between them is compiled.

The last of all offers. Torch divides a function at each graph break itself, but not where the break is in a loop or in
a `with`, and not any more once the function was compiled too often: then nothing of it is compiled. Divided by hand,
each part is one graph, and has a limit of its own. The statements stay in their order.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from copy import copy
from itertools import count, islice

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, parameters
from compiler_lens.facts.measured.bookkeeping import MARK, is_borrowed, loaded, may_be_two, stored, surely_stored
from compiler_lens.facts.measured.called import function_named, qualified
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.reached import free, identifiers

_LEAST = 2  # calls and operators in a part: less is no graph's worth, but a layer by itself is
# What computes nothing of a tensor, or is no part of a graph.
_NO_GRAPH = frozenset({"append", "backward", "cpu", "dict", "enumerate", "extend", "float", "get", "int", "isinstance",
                       "item", "items", "keys", "len", "list", "max", "min", "next", "print", "range", "round", "set",
                       "size", "step", "str", "tolist", "tuple", "update", "values", "zero_grad", "zip"})  # fmt: skip

_COMPILE = "torch.compile"
_CONTEXTS = frozenset({"enable_grad", "inference_mode", "no_grad"})
_PYTHON = "_python"  # after the name of what runs within one of these
# What goes through a generator before it returns.
_AT_ONCE = frozenset({"ModuleList", "Sequential", "all", "any", "dict", "extend", "frozenset", "join", "list", "max",
                      "min", "set", "sorted", "sum", "tuple", "update"})  # fmt: skip
_OF_NAMES = frozenset({"dir", "eval", "exec", "locals", "vars"})  # what sees the names of its function


class Part(Struct, frozen=True):
    """Statements that become a function."""

    statements: Sequence[ast.stmt]
    given: Sequence[str]  # what they read
    makes: Sequence[str]  # what is read after them
    returns: bool  # the last one is the function's own `return`


class InParts(Struct, frozen=True):
    """A function, and its parts."""

    site: Site
    function: ast.FunctionDef
    parts: Sequence[Part]
    python: Sequence[ast.stmt]  # what stays
    names: Sequence[str]  # of the functions that the parts become
    context: ast.expr | None = None  # the mark that has all of it run without gradients
    inner: str = ""  # with that mark, the name of what runs within it

    @property
    def is_method(self) -> bool:
        """Whether it is one."""
        return _is_method(self.function)

    @property
    def is_given(self) -> bool:
        """Whether it has a mark that gives it to `torch.compile`."""
        marks = (one.func if isinstance(one, ast.Call) else one for one in self.function.decorator_list)
        return any(dotted(mark) == _COMPILE for mark in marks)

    @property
    def of(self) -> str:
        """What its parts are called by."""
        return "self." if self.is_method else ""

    @property
    def pad(self) -> str:
        """What its first line begins with."""
        return " " * self.function.col_offset

    @property
    def deep(self) -> str:
        """What the lines of its body begin with."""
        return " " * self.function.body[0].col_offset

    @property
    def blank(self) -> Sequence[str]:
        """What stands between two functions."""
        return [""] if self.function.col_offset else ["", ""]


def in_parts(text: str, name: str, lines: Collection[str]) -> InParts | None:
    """Return a function, by its qualified name, in parts, of which none has one of some lines.

    There may be no part at all: then all of it stays Python. None where it cannot be divided.
    """
    tree = parsed(text) if "\r" not in text else None
    function = function_named(tree, name) if tree else None
    context = _context(function) if isinstance(function, ast.FunctionDef) else None
    if tree is None or not isinstance(function, ast.FunctionDef) or not _is_divisible(function, context):
        return None
    if is_borrowed(text, function.name) or _is_method(function) != ("." in name):
        return None
    nodes = [n for one in function.body for n in ast.walk(one)]
    if _computes_later(nodes) or any(dotted(n.func) in _OF_NAMES for n in nodes if isinstance(n, ast.Call)):
        return None
    site = site_in(text, function.body[0].lineno)
    if site is None or not site.has_torch_at_top or "self" in stored(function.body):
        return None
    written = text.split("\n")
    body = function.body[int(ast.get_docstring(function, clean=False) is not None) :]
    breaking = [one for one in body if any(written[n].strip() in lines for n in range(one.lineno - 1, _end(one)))]
    if not breaking:
        return None
    breaking += [one for one in body if stored([one]) & _globals(body) or _globals([one])]
    parts = list(_parts(function, body, breaking, own=_own(tree, name)))
    inside = {one for part in parts for one in part.statements}
    names = list(islice(_free_names(tree, function.name), len(parts)))
    python = [one for one in body if one not in inside]
    within = free(f"{function.name}{_PYTHON}", identifiers([tree])) if context else ""
    return InParts(site, function, parts, python, names, context, within)


def _is_method(function: ast.FunctionDef) -> bool:
    return parameters(function)[:1] == ("self",)


def _computes_later(nodes: Sequence[ast.AST]) -> bool:
    """Whether something is computed with what names stand for then: by a function, or a generator that is kept."""
    calls = (n for n in nodes if isinstance(n, ast.Call) and called(n) in _AT_ONCE)
    at_once = {argument for call in calls for argument in call.args}
    return any(isinstance(n, ast.Lambda) or (isinstance(n, ast.GeneratorExp) and n not in at_once) for n in nodes)


def _context(function: ast.FunctionDef) -> ast.expr | None:
    """Return the innermost mark of a function if it is `torch.no_grad()` or one like it: torch's wrapper is not ours.

    That has one code for all functions that it wraps, and what is told of this code holds for all of them.
    """
    match function.decorator_list[-1:]:
        case [ast.Call(func=func, args=[], keywords=[]) as mark] if called(mark) in _CONTEXTS and dotted(func):
            return mark
    return None


def _is_divisible(function: ast.FunctionDef, context: ast.expr | None) -> bool:
    other = copy(function)
    other.decorator_list = [one for one in function.decorator_list if one is not context]
    return may_be_two(other, also=(ast.Global,))


def _free_names(tree: ast.Module, name: str) -> Iterator[str]:
    base, used = name.partition(INNER)[0], identifiers([tree])
    every = (f"{base}{INNER}{f'_{number}' if number > 1 else ''}" for number in count(1))
    return (one for one in every if one not in used)


def _globals(body: Sequence[ast.stmt]) -> AbstractSet[str]:
    return {name for one in body for n in ast.walk(one) if isinstance(n, ast.Global) for name in n.names}


def _own(tree: ast.Module, name: str) -> AbstractSet[str]:
    """Return the functions of a file as one of them calls them: torch compiles each by itself where it is called.

    Layers are no such: torch compiles its own modules only as a part of what calls them.
    """
    owner = f"{name.rpartition('.')[0]}."
    methods = (key.removeprefix(owner) for key in qualified(tree) if key.startswith(owner))
    return {one.name for one in tree.body if isinstance(one, ast.FunctionDef)} | {f"self.{one}" for one in methods}


def _end(one: ast.stmt | ast.expr) -> int:
    return one.end_lineno or one.lineno


def _parts(
    function: ast.FunctionDef, body: Sequence[ast.stmt], breaking: Sequence[ast.stmt], *, own: AbstractSet[str]
) -> Iterator[Part]:
    stay = [one in breaking or _may_leave(one, is_last=one is body[-1]) for one in body]
    first = 0
    for at, is_python in enumerate((*stay, True)):
        if is_python:
            first, last = _without_counts(body, first, at)
            part = _part(function, body, first, last) if _is_worth(body[first:last], own) else None
            if part is not None:
                yield part
            first = at + 1


def _without_counts(body: Sequence[ast.stmt], first: int, last: int) -> tuple[int, int]:
    """Return where a part begins and ends without counters before and after it: compiled, each count is another one."""
    while first < last and _only_counts(body[first]):
        first += 1
    while first < last and _only_counts(body[last - 1]):
        last -= 1
    return first, last


def _only_counts(one: ast.stmt) -> bool:
    match one:
        case ast.AugAssign(target=ast.Attribute() | ast.Subscript(value=ast.Attribute()), value=ast.Constant()):
            return True
    return False


def _may_leave(one: ast.stmt, *, is_last: bool) -> bool:
    """Whether the function may return within a statement: what calls a part would have to, too."""
    return not (is_last and isinstance(one, ast.Return)) and any(isinstance(n, ast.Return) for n in ast.walk(one))


def _part(function: ast.FunctionDef, body: Sequence[ast.stmt], first: int, last: int) -> Part | None:
    """Return some statements of a function as a part; None where it does not show what they read and make."""
    statements, before, after = body[first:last], body[:first], body[last:]
    known = (surely_stored(before) | set(parameters(function))) - _globals(body)
    read, kept = loaded(statements), surely_stored(statements)
    needed = loaded(after) & stored(statements)
    if read & (stored(before) - known) or not needed <= kept | known:
        return None
    passed = known - {"self"} if _is_method(function) else known
    given = (read | (needed - kept)) & passed
    returns = isinstance(statements[-1], ast.Return)
    return Part(statements, sorted(given), sorted(needed), returns)


def _is_worth(statements: Sequence[ast.stmt], own: AbstractSet[str]) -> bool:
    """Whether statements compute enough for a graph, as far as the text shows."""
    statements = [one for one in statements if not _is_for_later(one)]
    calls = [call for one in statements for call in calls_in(one) if called(call) not in _NO_GRAPH]
    calls = [call for call in calls if dotted(call.func) not in own]
    operators = [n for one in statements for n in ast.walk(one) if isinstance(n, (ast.BinOp, ast.Compare))]
    is_layer = any(dotted(call.func).startswith("self.") for call in calls)
    return bool(calls) and (is_layer or len(calls) + len(operators) >= _LEAST)


def _is_for_later(one: ast.stmt) -> bool:
    """Whether a statement does something else where it is compiled: it only keeps what Python has to do."""
    return isinstance(one, ast.If) and any(called(call) == "is_compiling" for call in calls_in(one.test))


def with_parts(text: str, name: str, lines: Collection[str]) -> str | None:
    """Return a text in which a function is in parts; None where that cannot be done."""
    found = in_parts(text, name, lines)
    if found is None:
        return None
    written, function, context = found.site.text.split("\n"), found.function, found.context
    mark, at = f"{found.pad}@{found.site.torch}.{MARK}", function.lineno - 1
    before, outer = written[:at], [mark]
    if context is not None:
        has_text = ast.get_docstring(function, clean=False) is not None
        at = _end(function.body[0]) if has_text else function.body[0].lineno - 1
        before = [*before[: context.lineno - 1], *before[_end(context) :]]
        outer = [mark, *written[function.lineno - 1 : at], *_within(found, context, mark)]
    for part, inner in zip(found.parts, found.names, strict=True):
        begin, end = part.statements[0].lineno - 1, _end(part.statements[-1])
        makes = "return " if part.returns else f"{', '.join(part.makes)} = " if part.makes else ""
        outer += [*written[at:begin], f"{found.deep}{makes}{found.of}{inner}({', '.join(part.given)})"]
        at = end
    after = written[_end(function) :]
    return "\n".join([*before, *outer, *written[at : _end(function)], *_definitions(found, written), *after])


def _within(found: InParts, context: ast.expr, mark: str) -> Iterator[str]:
    """Yield what calls a function within a context, and how that begins."""
    own = parameters(found.function)
    passed = ", ".join(own[found.is_method :])
    yield f"{found.deep}with {found.site.source(context)}:"
    yield f"{found.deep}    return {found.of}{found.inner}({passed})"
    yield from found.blank
    yield from (mark, f"{found.pad}def {found.inner}({', '.join(own)}):")


def _definitions(found: InParts, written: Sequence[str]) -> Iterator[str]:
    """Yield the functions that the parts become."""
    for part, inner in zip(found.parts, found.names, strict=True):
        yield from found.blank
        yield f"{found.pad}def {inner}({', '.join((*(('self',) if found.is_method else ()), *part.given))}):"
        yield from written[part.statements[0].lineno - 1 : _end(part.statements[-1])]
        if part.makes and not part.returns:
            yield f"{found.deep}return {', '.join(part.makes)}"


def stays(found: InParts, text: str) -> AbstractSet[str]:
    """Return the lines that stay Python, without blanks around."""
    written = text.split("\n")
    return {written[n].strip() for one in found.python for n in range(one.lineno - 1, _end(one))}
