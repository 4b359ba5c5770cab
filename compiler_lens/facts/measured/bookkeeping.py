"""A function in two: clocks, counters, lists and messages stay Python, and what computes is compiled by itself.

What torch.compile was given then is no graph any more; all that it computed still is. A list that compiled code adds to
has another length at each call, and is compiled for each: Python adds to it, after the call.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.calls import only_says, said_by
from compiler_lens.facts.breaks.rewrites.effects import changes_nothing
from compiler_lens.facts.breaks.rewrites.site import Change, Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import (
    LOSSES,
    called,
    calls_in,
    dotted,
    is_number,
    is_pure_call,
    of_torch,
    parameters,
)
from compiler_lens.facts.measured.ahead import asking
from compiler_lens.facts.measured.called import function_named, functions_in, qualified
from compiler_lens.facts.measured.collected import ADDING, INNER, added, collecting, roots
from compiler_lens.facts.measured.kept import keeping
from compiler_lens.facts.measured.reached import come_to, identifiers, is_taken
from compiler_lens.facts.measured.said import saying
from compiler_lens.facts.measured.set_up import EAGERLY, setting_up
from compiler_lens.facts.measured.unanswered import waiting
from compiler_lens.recording.source_text import first_line

# Of a function that torch.compile is given, `torch.compiler.disable(recursive=False)` is taken off again (torch 2.13).
MARK = "_dynamo.decorators.skip"
# fmt: off
_CHANGING = ADDING | {"insert", "pop", "popleft", "remove", "clear", "sort", "reverse"}
_CLOCKS = frozenset({"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "perf_counter"})
_DRAWS = frozenset({"random.random", "random.uniform", "random.gauss", "random.randint", "np.random.rand"})
_OF_SOME = frozenset({"amax", "amin", "argmax", "argmin", "max", "median", "min", "mode"})
_OF_NUMBERS = frozenset({"len", "round", "int", "float", "min", "max", "abs"})
_CONTEXTS = frozenset({"autocast", "enable_grad", "inference_mode", "no_grad"})  # which raise what is raised in them
_OF_ARITHMETIC = (
    ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop, ast.Call, ast.Name, ast.Attribute, ast.Constant, ast.Load,
)
_NEVER = (
    ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr, ast.Delete, ast.FunctionDef,
    ast.ClassDef, ast.AsyncFunctionDef,
)
# fmt: on


class Books(Struct, frozen=True):
    """The statements of a function: those that keep books before the others, the others, and those after them."""

    site: Site
    function: ast.FunctionDef
    before: tuple[ast.stmt, ...]
    core: tuple[ast.stmt, ...]
    after: tuple[ast.stmt, ...]
    returned: ast.Return | None

    @property
    def lines(self) -> frozenset[int]:
        """The lines of those that keep books."""
        kept = (*self.before, *self.after)
        return frozenset(n for one in kept for n in range(one.lineno, (one.end_lineno or one.lineno) + 1))


class Computed(Struct, frozen=True):
    """A tensor that a statement which keeps books reads, and the rest computes."""

    statement: ast.stmt
    name: str  # that it gets
    code: str
    is_early: bool  # it is computed where that statement stands, as more is computed after it


def name_at(text: str, line: int) -> str:
    """Return the qualified name of the function that begins at a line, with its decorators or without; or nothing."""
    tree = parsed(text)
    functions = qualified(tree) if tree else {}
    begin = {name: {one.lineno, *(mark.lineno for mark in one.decorator_list)} for name, one in functions.items()}
    return next((name for name, lines in begin.items() if line in lines), "")


def function_at(text: str, line: int) -> str:
    """Return the name of the function that begins at a line, also of one in a function; empty where it is not clear."""
    tree = parsed(text)
    name = name_at(text, line)
    if name or tree is None:
        return name
    there = [one.name for one in functions_in(tree) if line in {one.lineno, first_line(one)}]
    return there[0] if len(there) == 1 and function_named(tree, there[0]) is not None else ""


def is_borrowed(text: str, name: str) -> bool:
    """Return whether another class has a method as its own (`forward = Net.forward`): it lacks what this would call."""
    tree = parsed(text)
    given = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)] if tree else []
    return any(isinstance(value, ast.Attribute) and value.attr == name for value in given)


def books(text: str, name: str) -> Books | None:
    """Return what a function, by its qualified name, has of both; None where they cannot be told apart."""
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    if not isinstance(function, ast.FunctionDef) or not may_be_two(function):
        return None
    site = site_in(text, function.body[0].lineno)
    if site is None or not site.has_torch_at_top:
        return None
    last = function.body[-1]
    returned = last if isinstance(last, ast.Return) else None
    if not all(_leaves(site, one) for one in function.body if one is not last and _returns(one)):
        return None
    return _told_apart(site, function, function.body[:-1] if returned else function.body, returned)


def may_be_two(function: ast.FunctionDef, *, also: tuple[type[ast.AST], ...] = ()) -> bool:
    """Return whether a function may be divided between two of its statements, each of which has lines of its own.

    `also` is what else may be in it, beside what may be in any such function.
    """
    arguments, body = function.args, function.body
    marks = [dotted(getattr(mark, "func", mark)) for mark in function.decorator_list]
    nested = [n for one in body for n in ast.walk(one)]
    starts = zip([function.lineno, *(one.end_lineno or 0 for one in body)], body, strict=False)
    return (
        all(mark.endswith("torch.compile") for mark in marks)
        and not (arguments.vararg or arguments.kwarg)
        and not any(isinstance(n, _NEVER) and not isinstance(n, also) for n in nested)
        and all(end < one.lineno for end, one in starts)
    )


def _told_apart(
    site: Site, function: ast.FunctionDef, body: Sequence[ast.stmt], returned: ast.Return | None
) -> Books | None:
    before: list[ast.stmt] = []
    core: list[ast.stmt] = []
    after: list[ast.stmt] = []
    computing = _computing(site, body, returned)
    for number, one in enumerate(body):
        rest: list[ast.stmt] = [other for other in body[number + 1 :] if other in computing]
        rest += [returned] if returned and not _is_names(returned) else []
        is_text = number == 0 and isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)
        is_number = one in computing and is_of_numbers(one) and not _writes_numbers(site, one, core)
        is_first = not core and (one not in computing or _is_guard(site, one))
        if is_text or is_number or is_first:
            before.append(one)
        elif one in computing:
            core.append(one)
        elif not stored([one]) & loaded(rest):
            if not _may_wait(site, one, rest):
                return None
            after.append(one)
        elif _draws(one) and not loaded([one]) & stored(core) and not _may_draw(site, core):
            before.append(one)
        else:
            return None
    computes = core or (returned and not _is_names(returned))
    return Books(site, function, tuple(before), tuple(core), tuple(after), returned) if computes else None


def _computing(site: Site, body: Sequence[ast.stmt], returned: ast.Return | None) -> list[ast.stmt]:
    """Return the statements that do more than to keep books: a number of a tensor's is for what reads it."""
    found: list[ast.stmt] = []
    for one in reversed(body):
        is_for_books = _takes_number(site, one) and not stored([one]) & loaded(
            [*found, *([returned] if returned else [])]
        )
        if not (is_for_books or _keeps_books(site, one)):
            found.append(one)
    return found


def _takes_number(site: Site, node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name()], value=value) if all(only_says(site, n) for n in ast.walk(value)):
            return any(called(call) == "item" for call in calls_in(value))
    return False


def is_of_numbers(node: ast.stmt) -> bool:
    """Return whether a statement computes a number of numbers of the object's, as Python does: `min(1, self.n / 10)`.

    Of tensors `min` and `max` would ask for their values.
    """
    match node:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self")) | ast.Name()], value=value):
            pass
        case _:
            return False
    calls = list(calls_in(value))
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)} - {
        one.func.id for one in calls if isinstance(one.func, ast.Name)
    }
    is_plain = all(isinstance(n, _OF_ARITHMETIC) for n in ast.walk(value))
    return (
        is_plain
        and names <= {"self", "math"}
        and any(called(call) in {"min", "max"} for call in calls)
        and all(dotted(call.func) in _OF_NUMBERS or dotted(call.func).startswith("math.") for call in calls)
    )


def _writes_numbers(site: Site, node: ast.stmt, core: Sequence[ast.stmt]) -> bool:
    """Return whether what a number of the object's numbers is computed of may be written in other statements."""
    read = {n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute)} | stored([node])
    reached = [one for one in come_to(site.text, core) if one is not site.function]
    nodes = (n for one in (*core, *reached) for n in ast.walk(one))
    return any(isinstance(n.ctx, ast.Store) and (getattr(n, "attr", "") in read or getattr(n, "id", "") in read)
               for n in nodes if isinstance(n, (ast.Attribute, ast.Name)))  # fmt: skip


def _returns(node: ast.stmt) -> bool:
    return any(isinstance(n, ast.Return) for n in ast.walk(node))


def _leaves(site: Site, node: ast.stmt) -> bool:
    """Return whether a statement asks for something, says or counts, and returns a constant then."""
    match node:
        case ast.If(test=test, body=[*said, ast.Return(value=None | ast.Constant())], orelse=[]):
            is_asked = all(_asks_only(site, n) for n in ast.walk(test))
            return is_asked and all(_keeps_books(site, one) and not _returns(one) for one in said)
    return False


def _keeps_books(site: Site, node: ast.stmt) -> bool:
    if _returns(node):
        return _leaves(site, node)
    match node:
        case ast.If(test=test, body=body, orelse=[]):
            return all(_asks_only(site, n) for n in ast.walk(test)) and all(_is_said(site, one) for one in body)
        case ast.With() | ast.For(orelse=[]):
            return _begins_plainly(site, node) and all(_keeps_books(site, one) for one in node.body)
        case ast.Assign(targets=[ast.Name()], value=value):
            names = {dotted(call.func) for call in calls_in(value)}
            return _asks(value) and names <= _CLOCKS | _DRAWS | _OF_NUMBERS
        case ast.AugAssign(target=ast.Attribute() as target, value=value):
            return dotted(target).startswith("self.") and _is_number_for_books(site, value)
    return _is_said(site, node) or added(site, node) is not None or _may_be_called_later(site, node)


def _is_guard(site: Site, node: ast.stmt) -> bool:
    """Return whether a statement asks for what the function is given, says something of it, and mends it.

    As in `if torch.isnan(x).any():`, with a warning, and `x = torch.nan_to_num(x)`: before all else Python can do so.
    """
    match node:
        case ast.If(test=test, body=body, orelse=[]) if all(_asks_only(site, n) for n in ast.walk(test)):
            others = [one for one in body if not _is_said(site, one)]
            return 0 < len(others) < len(body) and all(_renews(site, one) for one in others)
    return False


def _renews(site: Site, node: ast.stmt) -> bool:
    match node:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if site.function and calls_in(value):
            return name in parameters(site.function) and _can_be_thrown_away(site, node)
    return False


def _begins_plainly(site: Site, node: ast.With | ast.For) -> bool:
    """Return whether a block is one in which gradients are off, or goes through what is there."""
    if isinstance(node, ast.For):
        return all(only_says(site, n) for n in ast.walk(node.iter))
    return all(called(one.context_expr) in _CONTEXTS for one in node.items)


def _may_be_called_later(site: Site, node: ast.stmt) -> bool:
    """Return whether a statement of the function itself calls a method that keeps books."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and site.function):
        return False
    code, name = site.dedented(node), name_at(site.text, site.function.lineno)
    return node in site.function.body and len(code) == 1 and waiting(site.text, code[0], name) is not None


def _is_number_for_books(site: Site, node: ast.expr) -> bool:
    """Return whether an expression is a Python number, and does nothing but to give it: `int(lengths.sum())`."""
    match node:
        case ast.BinOp(left=left, right=right):
            return _is_number_for_books(site, left) and _is_number_for_books(site, right)
        case ast.Call(func=ast.Name(id=name)):
            return name in _OF_NUMBERS and all(only_says(site, one) for one in ast.walk(node))
        case ast.Call(func=ast.Attribute(attr="item" | "numel" | "size")):
            return all(only_says(site, one) for one in ast.walk(node))
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant()):
            return True
    return is_number(node)


def _is_said(site: Site, node: ast.stmt) -> bool:
    match node:
        case ast.If(orelse=[]):
            return _keeps_books(site, node)
    return bool(said_by(site, node))


def _asks_only(site: Site, node: ast.AST) -> bool:
    return only_says(site, node) or (isinstance(node, ast.Call) and called(node) == "is_compiling")


def _can_be_thrown_away(site: Site, node: ast.stmt) -> bool:
    """Return whether a statement computes and does nothing else, as far as the text shows: no module is called.

    Nor may it raise of what an early return is for: of nothing at all there is no largest along a dimension.
    """
    is_plain = isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and not _changed([node])
    return is_plain and all(_only_computes(site, call) for call in calls_in(node))


def _only_computes(site: Site, call: ast.Call) -> bool:
    if called(call) in _OF_SOME:
        return not (call.args[of_torch(call) :] or call.keywords)
    return changes_nothing(call, site.tensors) or called(call) in LOSSES


def _asks(node: ast.AST) -> bool:
    return any(dotted(call.func) in _CLOCKS | _DRAWS for call in calls_in(node))


def _draws(node: ast.stmt) -> bool:
    return _asks(node) and not any(dotted(call.func) in _CLOCKS for call in calls_in(node))


def _may_draw(site: Site, core: Sequence[ast.stmt]) -> bool:
    """Return whether statements, or functions of the file that they may come to, draw of such a series, too."""
    functions = [one for one in come_to(site.text, core) if one is not site.function]
    calls = (call for one in functions for call in calls_in(one))
    return any(map(_is_draw, calls))


def _is_draw(call: ast.Call) -> bool:
    return bool({"random", "rng"} & set(dotted(call.func).split(".")))


def _may_wait(site: Site, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
    """Return whether a statement that keeps books does the same after some others."""
    if isinstance(node, (ast.For, ast.With)):
        return _may_be_moved(node, rest) and all(_may_wait(site, one, rest) for one in node.body)
    if isinstance(node, ast.Assign) and _asks(node):  # a clock that is asked in between, a number of a series
        return False
    if _returns(node) and not all(_can_be_thrown_away(site, one) for one in rest):
        return False
    if not _may_be_moved(node, rest):
        return False
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name))) if name in ADDING:
            written = target
        case ast.AugAssign(target=other):
            written = other
        case _:
            return True
    texts = {dotted(n) for one in rest for n in ast.walk(one) if isinstance(n, (ast.Attribute, ast.Name))}
    names = {dotted(n) for n in ast.walk(written)} - {"", "self"}
    return not names & texts and not any(_is_mentioned_beyond(site, one, rest) for one in _asked(written, rest))


def _asked(written: ast.expr, rest: Sequence[ast.stmt]) -> Iterator[str]:
    """Yield what else must not be mentioned: the root of what is written, and what a method of the object may read."""
    yield from itertools.islice(roots(written), 1)
    if any(dotted(call.func).startswith("self.") for one in rest for call in calls_in(one)):
        yield from (n.attr for n in ast.walk(written) if isinstance(n, ast.Attribute))


def _may_be_moved(node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
    """Return whether some others raise nothing of their own, and change nothing that a statement reads."""
    if any(isinstance(n, (ast.Raise, ast.Assert)) for one in rest for n in ast.walk(one)):  # it is said before that
        return False
    is_handed_on = "self" in _given(rest) and any(dotted(n).startswith("self.") for n in ast.walk(node))
    return not is_handed_on and not loaded([node]) & (stored(rest) | _changed(rest))


def _is_mentioned_beyond(site: Site, name: str, rest: Sequence[ast.stmt]) -> bool:
    """Return whether functions of the file that some statements may come to mention a name that is not the object."""
    is_open = any(not is_pure_call(call) for one in rest for call in calls_in(one))
    beyond = [one for one in come_to(site.text, rest) if one not in rest and one is not site.function]
    return is_open and name != "self" and name in identifiers(beyond)


# -- names


def _given(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that calls get which may change what they are given: of functions that nobody knows."""
    calls = (call for one in statements for call in calls_in(one) if not is_pure_call(call))
    given = (part for call in calls for part in (*call.args, *(keyword.value for keyword in call.keywords)))
    return frozenset(part.id for part in given if isinstance(part, ast.Name))


def loaded(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that statements read, also those that they add to."""
    statements = list(statements)
    nodes = (n for one in statements for n in ast.walk(one))
    read = {n.id for n in _own_names(statements) if isinstance(n.ctx, ast.Load)}
    return frozenset(
        read | {n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    )


def stored(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that statements may give a value to."""
    statements = list(statements)
    written = {n.id for n in _own_names(statements) if isinstance(n.ctx, ast.Store)}
    return frozenset(written | brought(n for one in statements for n in ast.walk(one)))


def _own_names(nodes: Iterable[ast.AST]) -> Iterator[ast.Name]:
    """Yield the names of a function where some of its nodes mention them: those of comprehensions are not its own."""
    left: list[tuple[ast.AST, frozenset[str]]] = [(node, frozenset()) for node in nodes]
    while left:
        node, hidden = left.pop()
        if isinstance(node, ast.Name) and node.id not in hidden:
            yield node
        if not isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
            left += [(child, hidden) for child in ast.iter_child_nodes(node)]
            continue
        first = node.generators[0].iter  # which is computed outside
        targets = (n for one in node.generators for n in ast.walk(one.target))
        inner = hidden | {n.id for n in targets if isinstance(n, ast.Name)}
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        parts = [part for one in node.generators for part in (one.target, one.iter, *one.ifs) if part is not first]
        left += [(first, hidden), *((part, inner) for part in (*results, *parts))]


def brought(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return names that are written in other ways: by an import, a pattern, an `except`."""
    found: set[str | None] = set()
    for node in nodes:
        match node:
            case ast.alias(name=name, asname=other):
                found.add(other or name.partition(".")[0])
            case ast.MatchAs(name=name) | ast.MatchStar(name=name) | ast.ExceptHandler(name=name):
                found.add(name)
            case ast.MatchMapping(rest=name):
                found.add(name)
    return frozenset(filter(None, found))


def _changed(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Names that are written in place, as far as the text shows."""
    found: set[str] = set()
    for node in (n for one in statements for n in ast.walk(one)):
        match node:
            case ast.Subscript(value=owner, ctx=ast.Store()) | ast.Attribute(value=owner, ctx=ast.Store()):
                found |= {n.id for n in ast.walk(owner) if isinstance(n, ast.Name)}
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name.endswith("_") or name in ADDING:
                found |= {n.id for n in ast.walk(owner) if isinstance(n, ast.Name)}
    return frozenset(found)


def surely_stored(statements: Iterable[ast.stmt]) -> frozenset[str]:
    """Return the names that statements give a value to at each call that comes to their end."""
    found: set[str] = set()
    for one in statements:
        match one:
            case ast.Assign() | ast.AugAssign() | ast.AnnAssign(value=ast.expr()):
                found |= stored([one])
            case ast.If(body=body, orelse=other):
                found |= surely_stored(body) & surely_stored(other)
            case ast.With(items=items, body=body) if all(called(one.context_expr) in _CONTEXTS for one in items):
                found |= surely_stored(body)
    return frozenset(found)


# -- the text


def split(text: str, name: str, collected: Sequence[str] = ()) -> str | None:
    """Return a text in which a function is two; None where that cannot be done, or is done.

    Args:
        text: a file's.
        name: the function's, qualified.
        collected: lines, of functions that this one calls, that add to a list of the module's, or of an object's, or
            of methods that keep books, or that say what a tensor holds: compiled code keeps what they add, or are
            given, in a list that each call finds empty. It may be two already then.
    """
    if "\r" in text:
        return None
    drained: list[str] = []
    ahead: list[str] = []
    for line in collected:
        if asked := asking(text, line, name) or setting_up(text, line, name):
            text, lines = asked
            ahead += lines
            continue
        made = waiting(text, line, name) or collecting(text, line, name) or keeping(text, line, name)
        made = made or saying(text, line, name)
        if made is None:
            return None
        text, lines = made
        drained += lines
    if (drained or ahead) and _is_two(text, name):
        if any(EAGERLY in one for one in ahead):
            return None
        text = _beginning(text, name, ahead)
        return _emptying(text, name, drained) if drained else text
    text = _with_reads_as_arguments(text, name)
    found = books(text, name)
    if found is None or not (drained or ahead or found.lines):
        return None
    return _written(found, drained, ahead)


def _is_two(text: str, name: str) -> bool:
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    inner = function_named(tree, f"{name}{INNER}") if tree else None
    marks = function.decorator_list if function and inner else []
    return any(dotted(mark).endswith(f".{MARK}") for mark in marks)


def _beginning(text: str, name: str, ahead: Sequence[str]) -> str:
    """Return a text in which a function has lines before all others."""
    tree, lines = parsed(text), text.split("\n")
    function = function_named(tree, name) if tree else None
    if function is None or not ahead:
        return text
    first = function.body[0]
    return "\n".join(
        [*lines[: first.lineno - 1], *(" " * first.col_offset + one for one in ahead), *lines[first.lineno - 1 :]]
    )


def _emptying(text: str, name: str, drained: Sequence[str]) -> str | None:
    """Return a text in which a function that is two empties more lists, once what computes has run."""
    tree = parsed(text)
    function = function_named(tree, name) if tree else None
    inner = f"{name.rpartition('.')[2]}{INNER}"
    for one in function.body if function else ():
        if not isinstance(one, (ast.Assign, ast.Expr, ast.Return)) or inner not in map(called, calls_in(one)):
            continue
        lines, pad = text.split("\n"), " " * one.col_offset
        here = [line.removeprefix(pad) for line in lines[one.lineno - 1 : one.end_lineno]]
        new = [f"{pad}{line}" for line in _with_emptying(here, drained)]
        return "\n".join([*lines[: one.lineno - 1], *new, *lines[one.end_lineno :]])
    return None


def _with_emptying(call: Sequence[str], drained: Sequence[str]) -> Sequence[str]:
    """Return a call after which lists are emptied, also where it raises: the next one finds them empty."""
    return ["try:", *(f"    {line}" for line in call), "finally:", *(f"    {line}" for line in drained)]


def _written(  # noqa: C901, PLR0915 -- one text, from top to bottom
    found: Books, drained: Sequence[str], ahead: Sequence[str] = ()
) -> str | None:
    site, function = found.site, found.function
    lines = site.text.split("\n")
    result, extra = "", list[Computed]()
    reads = _reads(found)
    own = parameters(function)
    in_class = bool(own) and own[0] == "self"
    given = [n for n in (*own, *sorted(stored(found.before))) if n != "self" or not in_class]
    needed = loaded(found.core) | (
        loaded([found.returned]) if found.returned and not _is_names(found.returned) else set()
    )
    texts_after, still = _after(found, extra)
    is_kept = found.returned is not None and _is_names(found.returned)
    if (
        is_kept and not (texts_after or still) and found.returned and found.returned.value
    ):  # no other line asks for them
        is_kept = not loaded([found.returned]) <= surely_stored(found.core)
    asked = still | (loaded([found.returned]) if found.returned and is_kept else frozenset())
    order = dict.fromkeys(n.id for one in found.core for n in ast.walk(one) if isinstance(n, ast.Name))
    outputs = [n for n in order if n in stored(found.core) & asked]
    inputs = [n for n in dict.fromkeys(given) if n in needed or n in outputs or n in _loaded_by(extra)]
    not_given = (stored(found.core) & asked) - set(outputs)  # an import: a name that no call gives back
    if not_given or not set(outputs) <= surely_stored(found.core) | set(inputs):
        return None
    arguments = [*inputs, *(new for new, _ in reads.values())]
    if found.returned is not None and found.returned.value is not None and not is_kept:
        result = site.free("result")
    gives = []
    if result and found.returned and found.returned.value:
        value = site.source(found.returned.value)
        gives = [f"({value})" if isinstance(found.returned.value, ast.Tuple) else value]
    gives += [*outputs, *(one.name if one.is_early else one.code for one in extra)]
    takes = [*([result] if result else []), *outputs, *(one.name for one in extra)]
    inner = f"{function.name}{INNER}"
    name = name_at(site.text, function.lineno)
    if is_taken(site.text, inner, name) or is_borrowed(site.text, function.name) or in_class != ("." in name):
        return None
    pad, deep = lines[function.lineno - 1][: function.col_offset], " " * function.body[0].col_offset
    call = f"{'self.' if in_class else ''}{inner}({', '.join([*inputs, *(code for _, code in reads.values())])})"
    head = lines[function.lineno - 1 : function.body[0].lineno - 1]
    outer = [*head, *(line for one in found.before for line in _chunk(found, one))]
    if takes == [result] and not texts_after:
        call, takes, result = f"return {call}", [], ""
        gives = [site.source(node) for node in (found.returned.value,) if node] if found.returned else []
    call = f"{', '.join(takes)} = {call}" if takes else call
    if any(EAGERLY in one for one in ahead) and (drained or found.before or texts_after):
        return None
    eagerly = [call.replace(f"self.{inner}(", f"{site.torch}.compiler.disable(self.{inner})(", 1)]
    eagerly += [site.source(found.returned)] if found.returned and takes else []
    outer[len(head) : len(head)] = [f"{deep}{line}" for one in ahead for line in _filled(one, eagerly)]
    outer += [f"{deep}{line}" for line in (_with_emptying([call], drained) if drained else [call])]
    outer += [line for part in texts_after for line in part]
    if result:
        outer.append(f"{deep}return {result}")
    elif found.returned is not None and (is_kept or found.returned.value is None):
        outer += _chunk(found, found.returned)
    changes = [(node, new) for node, (new, _) in reads.items()]
    core = [f"{pad}def {inner}({', '.join([*(['self'] if in_class else []), *arguments])}):"]
    for one in function.body:
        core += _chunk(found, one, changes) if one in found.core else []
        core += [f"{deep}{other.name} = {other.code}" for other in extra if other.statement is one and other.is_early]
    if found.returned is not None and not is_kept:
        core += [line for line in _chunk(found, found.returned) if line.lstrip().startswith("#")]
    core += [f"{deep}return {', '.join(gives)}"] if gives else []
    end = function.end_lineno or function.lineno
    apart = [""] if function.col_offset else ["", ""]
    new = [*lines[: function.lineno - 1], f"{pad}@{site.torch}.{MARK}", *outer, *apart, *core, *lines[end:]]
    return "\n".join(new)


def _filled(line: str, eagerly: Sequence[str]) -> Sequence[str]:
    """Return a line, or those that stand for it, with what is said of it."""
    pad, place, said = line.partition(EAGERLY)
    return [f"{pad}{one}{said if one is eagerly[0] else ''}" for one in eagerly] if place else [line]


def _is_names(returned: ast.Return) -> bool:
    match returned.value:
        case None | ast.Name():
            return True
        case ast.Tuple(elts=parts):
            return all(isinstance(one, ast.Name) for one in parts)
    return False


def _loaded_by(extra: Sequence[Computed]) -> frozenset[str]:
    trees = (parsed(one.code) for one in extra)
    return loaded(tree for tree in trees if tree)


def _chunk(found: Books, statement: ast.stmt, changes: Sequence[Change] = ()) -> list[str]:
    """The lines of a statement, with the comments above it."""
    lines, body = found.site.text.split("\n"), found.function.body
    number = body.index(statement)
    begin = (body[number - 1].end_lineno or 0) if number else statement.lineno - 1
    inside = [change for change in changes if change[0] in list(ast.walk(statement))]
    if not inside:
        return lines[begin : statement.end_lineno]
    pad = " " * statement.col_offset
    return [*lines[begin : statement.lineno - 1], *f"{pad}{found.site.edited(statement, inside)}".split("\n")]


def _is_followed(found: Books, statement: ast.stmt) -> bool:
    """Return whether more is computed after a statement, which may change in place what this reads."""
    is_last = not found.returned or _is_names(found.returned)
    return not is_last or any(one.lineno > statement.lineno for one in found.core)


def _after(found: Books, extra: list[Computed]) -> tuple[list[list[str]], frozenset[str]]:
    """The lines that keep books afterwards, and the names they read; what they compute is computed with the rest."""
    chunks: list[list[str]] = []
    read: set[str] = set()
    used = {n.id for n in ast.walk(found.function) if isinstance(n, ast.Name)}
    for one in found.after:
        numbers = [] if isinstance(one, ast.If) else [*_computed(found.site, one), *_of_others(found, one)]
        changes: list[Change] = []
        for tensor in numbers:
            new = next(n for n in ("kept", *(f"kept_{i}" for i in range(2, 99))) if n not in used)
            used.add(new)
            snapshot = ".clone()" if isinstance(tensor, ast.Name) else ""
            extra.append(Computed(one, new, found.site.source(tensor) + snapshot, is_early=_is_followed(found, one)))
            changes.append((tensor, new))
        inside = {n for tensor in numbers for n in ast.walk(tensor)}
        read |= {n.id for n in ast.walk(one) if isinstance(n, ast.Name) and n not in inside}
        chunks.append(_chunk(found, one, changes))
    return chunks, frozenset(read)


def _of_others(found: Books, statement: ast.stmt) -> Iterator[ast.Name]:
    """Yield the tensors whose numbers a statement reads, and that functions get afterwards, which may change them."""
    later = _given(one for one in found.function.body if one.lineno > statement.lineno and one not in found.after)
    for call in calls_in(statement):
        match call:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as tensor, attr="item" | "tolist"), args=[]):
                if name in later:
                    yield tensor


def _computed(site: Site, statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the tensors, computed there, that a statement adds to a list, or whose numbers it reads."""
    call = added(site, statement)
    if call and site.is_tensor(call.args[0]) and not isinstance(call.args[0], (ast.Name, ast.Subscript)):
        yield call.args[0]
        return
    for call in calls_in(statement):
        match call:
            case ast.Call(func=ast.Attribute(value=tensor, attr="item" | "tolist"), args=[]) if calls_in(tensor):
                yield tensor
            case ast.Call(func=ast.Name(id="float" | "int"), args=[tensor]) if site.is_tensor(tensor) and calls_in(
                tensor
            ):
                yield tensor


# -- what is read of a list that Python adds to


def _lists(found: Books) -> frozenset[str]:
    """The lists of the object that are added to after what computes, and changed nowhere else that may run before."""
    calls = [call for one in found.after if (call := added(found.site, one))]
    owners = {dotted(call.func.value) for call in calls if isinstance(call.func, ast.Attribute)}
    tree = parsed(found.site.text)
    methods = [one for name, one in qualified(tree).items() if "." in name and one.name != "__init__"] if tree else []
    others = [n for one in methods for n in ast.walk(one) if n not in calls]
    return frozenset(one for one in owners if one.startswith("self.") and not any(_changes(n, one) for n in others))


def _changes(node: ast.AST, owner: str) -> bool:
    """Return whether a list, by its dotted name, is changed, or is another one then."""
    match node:
        case ast.Call(func=ast.Attribute(value=changed, attr=name)) if name in _CHANGING:
            return dotted(changed) == owner
        case ast.Subscript(value=changed, ctx=ast.Store() | ast.Del()):
            return dotted(changed) == owner
        case ast.Attribute(ctx=ast.Store() | ast.Del()):
            return dotted(node) == owner
    return False


def _slices(tree: ast.AST, lists: frozenset[str]) -> list[ast.Subscript]:
    """Return where a few of the last of a list are read."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Subscript) and dotted(n.value) in lists]
    return [
        n
        for n in found
        if isinstance(n.slice, ast.Slice) and not any(isinstance(m, ast.Name) for m in ast.walk(n.slice))
    ]


def _reads(found: Books) -> dict[ast.expr, tuple[str, str]]:
    """What is read of such lists, with the name of the argument that it becomes, and its text."""
    nodes = [n for one in found.core for n in _slices(one, _lists(found))]
    names: dict[str, str] = {}
    for node in nodes:
        text = found.site.source(node)
        names.setdefault(
            text,
            found.site.free(f"last_{dotted(node.value).rpartition('.')[2]}") + (str(len(names) + 1) if names else ""),
        )
    first: dict[ast.expr, tuple[str, str]] = {}
    for node in nodes:
        text = found.site.source(node)
        first[node] = (names[text], text)
    return first


def _with_reads_as_arguments(text: str, name: str) -> str:
    """Give what a method, which the function calls once, reads of such a list to it as an argument."""
    found, tree = books(text, name), parsed(text)
    if found is None or tree is None or "." not in name:
        return text
    owner, site = name.rpartition(".")[0], found.site
    methods = {key.rpartition(".")[2]: one for key, one in qualified(tree).items() if key.rpartition(".")[0] == owner}
    for call in (c for one in found.core for c in calls_in(one)):
        method = methods.get(dotted(call.func).removeprefix("self.")) if dotted(call.func).startswith("self.") else None
        slices = _slices(method, _lists(found)) if method and not method.decorator_list else []
        uses = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and method and n.attr == method.name]
        if method is None or len(slices) != 1 or len(uses) != 1 or method.args.vararg or method.args.kwarg:
            continue
        read = site.source(slices[0])
        new = f"last_{dotted(slices[0].value).rpartition('.')[2]}"
        if method.args.kwonlyargs or any(n.id == new for n in ast.walk(method) if isinstance(n, ast.Name)):
            continue
        last = [*method.args.posonlyargs, *method.args.args][-1]
        end: ast.expr | ast.arg = method.args.defaults[-1] if method.args.defaults else last
        argument = (call.keywords[-1].value if call.keywords else call.args[-1]) if call.args or call.keywords else None
        if argument is None:
            continue
        return _edited(
            text,
            [
                (end, f"{site.source(end)}, *, {new}=None"),
                (slices[0], f"({read} if {new} is None else {new})"),
                (argument, f"{site.source(argument)}, {new}={read}"),
            ],
        )
    return text


def _edited(text: str, changes: Sequence[tuple[ast.expr | ast.arg, str]]) -> str:
    lines = [line.encode() for line in text.split("\n")]
    for node, new in sorted(changes, key=lambda c: (c[0].lineno, c[0].col_offset), reverse=True):
        if node.lineno != node.end_lineno:
            return text
        line = lines[node.lineno - 1]
        lines[node.lineno - 1] = line[: node.col_offset] + new.encode() + line[node.end_col_offset :]
    return b"\n".join(lines).decode()


def lines_of_books(text: str, name: str) -> frozenset[int]:
    """Return the lines of a function that a split takes out of what is compiled, and those that read such lists."""
    found, tree = books(text, name), parsed(text)
    if found is None or tree is None:
        return frozenset()
    inside = next((one for one in tree.body if one.lineno <= found.function.lineno <= (one.end_lineno or 0)), None)
    slices = _slices(inside, _lists(found)) if inside else []
    return found.lines | {one.lineno for one in slices}


def draws_first(text: str, name: str) -> bool:
    """Return whether a function, by its qualified name, draws numbers before what it computes only if it is two."""
    found = books(text, name)
    first = min((one.lineno for one in found.core), default=0) if found else 0
    return found is not None and any(_draws(one) and one.lineno > first for one in found.before)


def draws(text: str) -> bool:
    """Return whether something in a file draws numbers of a series of Python's, or NumPy's."""
    tree = parsed(text)
    return tree is not None and any(map(_is_draw, calls_in(tree)))


def leaves_early(text: str, name: str) -> bool:
    """Return whether a function, by its qualified name, asks after computing whether to return before its end."""
    found = books(text, name)
    return found is not None and any(_returns(one) for one in found.after)
