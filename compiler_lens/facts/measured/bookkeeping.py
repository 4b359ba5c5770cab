"""A function in two: clocks, counters, lists and messages stay Python, and what computes is compiled by itself.

What torch.compile was given then is no graph any more; all that it computed still is. A list that compiled code adds to
has another length at each call, and is compiled for each: Python adds to it, after the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.calls import only_says, said_by
from compiler_lens.facts.breaks.rewrites.site import Change, Site, parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import (
    Function,
    called,
    calls_in,
    dotted,
    is_number,
    is_pure_call,
    parameters,
)
from compiler_lens.facts.measured.called import qualified
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources, first_line

# Of a function that torch.compile is given, `torch.compiler.disable(recursive=False)` is taken off again (torch 2.13).
MARK = "_dynamo.decorators.skip"
INNER = "_computed"  # after the name of the part that is compiled
_FILE = "text.py"
# fmt: off
_ADDING = frozenset({"append", "extend", "add", "appendleft"})
_CHANGING = _ADDING | {"insert", "pop", "popleft", "remove", "clear", "sort", "reverse"}
_CLOCKS = frozenset({"time.time", "time.perf_counter", "time.monotonic", "time.process_time", "perf_counter"})
_DRAWS = frozenset({"random.random", "random.uniform", "random.gauss", "random.randint", "np.random.rand"})
_OF_ANY = frozenset({"vars", "dir", "getattr", "__dict__"})  # what reads attributes that it does not name
_OF_NUMBERS = frozenset({"len", "round", "int", "float", "min", "max", "abs"})
_OF_SETS = frozenset({"add", "sort", "pow", "div", "sub"})  # which other things than tensors have, too
_LISTS = frozenset({"list", "deque", "set"})  # what is called for a new one
_NEVER = (ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal, ast.NamedExpr, ast.Delete)
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


class Collected(Struct, frozen=True):
    """A line that adds to a list which is there after the call, and what compiled code keeps for it."""

    site: Site
    call: ast.Call
    kept: str  # as code, where the line stands
    made: str  # what Python adds of that `value`
    attribute: str = ""  # in which the object holds the list; empty of a list of the module's

    @property
    def owner(self) -> ast.expr:
        """The list."""
        assert isinstance(self.call.func, ast.Attribute)  # noqa: S101 -- `_added` asks for a method
        return self.call.func.value


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
    there = [one.name for one in _functions(tree) if line in {one.lineno, first_line(one)}]
    return there[0] if len(there) == 1 and function_of(tree, there[0]) is not None else ""


def function_of(tree: ast.Module, name: str) -> ast.AST | None:
    """Return a function by its qualified name, or the one in another function that alone has a name."""
    inside = [one for one in _functions(tree) if one.name == name]
    return qualified(tree).get(name) or (inside[0] if len(inside) == 1 else None)


def _functions(tree: ast.Module) -> Iterator[ast.FunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def is_taken(text: str, name: str) -> bool:
    """Return whether a file has a name already, or a text that may be one."""
    tree = parsed(text)
    return tree is None or name in _identifiers([tree])


def is_borrowed(text: str, name: str) -> bool:
    """Return whether another class has a method as its own (`forward = Net.forward`): it lacks what this would call."""
    tree = parsed(text)
    given = [node.value for node in ast.walk(tree) if isinstance(node, ast.Assign)] if tree else []
    return any(isinstance(value, ast.Attribute) and value.attr == name for value in given)


def books(text: str, name: str) -> Books | None:
    """Return what a function, by its qualified name, has of both; None where they cannot be told apart."""
    tree = parsed(text)
    function = function_of(tree, name) if tree else None
    if not isinstance(function, ast.FunctionDef) or not _is_plain(function):
        return None
    if not all(dotted(getattr(mark, "func", mark)).endswith("torch.compile") for mark in function.decorator_list):
        return None
    first = function.body[0]
    site = site_at(
        Sources({_FILE: text}), SourceLine(_FILE, first.lineno, "", text.split("\n")[first.lineno - 1].strip())
    )
    if site is None or not site.has_torch_at_top:
        return None
    last = function.body[-1]
    returned = last if isinstance(last, ast.Return) else None
    if not all(_leaves(site, one) for one in function.body if one is not last and _returns(one)):
        return None
    return _told_apart(site, function, function.body[:-1] if returned else function.body, returned)


def _is_plain(function: ast.FunctionDef) -> bool:
    arguments, body = function.args, function.body
    nested = [n for one in body for n in ast.walk(one)]
    starts = zip([function.lineno, *(one.end_lineno or 0 for one in body)], body, strict=False)
    return (
        not (arguments.vararg or arguments.kwarg)
        and not any(isinstance(n, (*_NEVER, ast.FunctionDef, ast.ClassDef)) for n in nested)
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
        if is_text or (one not in computing and not core):
            before.append(one)
        elif one in computing:
            core.append(one)
        elif not _stored([one]) & _loaded(rest):
            if not _may_wait(site, one, rest):
                return None
            after.append(one)
        elif _draws(one) and not _loaded([one]) & _stored(core) and not _may_draw(site, core):
            before.append(one)
        else:
            return None
    return Books(site, function, tuple(before), tuple(core), tuple(after), returned) if core else None


def _computing(site: Site, body: Sequence[ast.stmt], returned: ast.Return | None) -> list[ast.stmt]:
    """Return the statements that do more than to keep books: a number of a tensor's is for what reads it."""
    found: list[ast.stmt] = []
    for one in reversed(body):
        is_for_books = _takes_number(site, one) and not _stored([one]) & _loaded(
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
        case ast.Assign(targets=[ast.Name()], value=value):
            names = {dotted(call.func) for call in calls_in(value)}
            return _asks(value) and names <= _CLOCKS | _DRAWS | _OF_NUMBERS
        case ast.AugAssign(target=ast.Attribute() as target, value=value):
            return dotted(target).startswith("self.") and _is_number_for_books(site, value)
    return _is_said(site, node) or _added(site, node) is not None


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


def _added(site: Site, node: ast.stmt) -> ast.Call | None:
    """Return the call that adds to a list of the object's, or of the module's, and gives nothing."""
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=name), args=[_], keywords=[]) as call):
            root = next(_roots(owner), "")
            is_outside = root == "self" or (root and root not in site.local())
            is_pure = all(_gives_a_value(site, n) for n in ast.walk(call) if n is not call)
            return call if name in _ADDING and is_outside and is_pure else None
    return None


def _gives_a_value(site: Site, node: ast.AST) -> bool:
    is_computed = isinstance(node, ast.Call) and is_pure_call(node) and called(node) not in _OF_SETS
    return is_computed or only_says(site, node)


def _roots(node: ast.expr) -> Iterator[str]:
    """Yield the name that `a` is of `a`, `a.b` and `a["b"]`."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=owner) | ast.Subscript(value=owner, slice=ast.Constant()):
            yield from _roots(owner)


def _can_be_thrown_away(node: ast.stmt) -> bool:
    """Return whether a statement computes and does nothing else, as far as the text shows: no module is called."""
    is_plain = isinstance(node, (ast.Assign, ast.AnnAssign, ast.Return)) and not _changed([node])
    return is_plain and not any(
        isinstance(call.func, ast.Name) or dotted(call.func).startswith("self.") for call in calls_in(node)
    )


def _asks(node: ast.AST) -> bool:
    return any(dotted(call.func) in _CLOCKS | _DRAWS for call in calls_in(node))


def _draws(node: ast.stmt) -> bool:
    return _asks(node) and not any(dotted(call.func) in _CLOCKS for call in calls_in(node))


def _may_draw(site: Site, core: Sequence[ast.stmt]) -> bool:
    """Return whether statements, or functions of the file that they name, draw numbers of such a series, too."""
    tree = parsed(site.text)
    names = {dotted(call.func).rpartition(".")[2] for one in core for call in calls_in(one)}
    functions = [one for name, one in qualified(tree).items() if name.rpartition(".")[2] in names] if tree else []
    calls = (call for one in (*core, *functions) for call in calls_in(one))
    return any({"random", "rng"} & set(dotted(call.func).split(".")) for call in calls)


def _may_wait(site: Site, node: ast.stmt, rest: Sequence[ast.stmt]) -> bool:
    """Return whether a statement that keeps books does the same after some others."""
    if isinstance(node, ast.Assign) and _asks(node):  # a clock that is asked in between, a number of a series
        return False
    if _returns(node) and not all(_can_be_thrown_away(one) for one in rest):
        return False
    if any(isinstance(n, (ast.Raise, ast.Assert)) for one in rest for n in ast.walk(one)):  # it is said before that
        return False
    read = _loaded([node])
    is_handed_on = "self" in _given(rest) and any(dotted(n).startswith("self.") for n in ast.walk(node))
    if is_handed_on or read & (_stored(rest) | _changed(rest)):
        return False
    match node:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=target, attr=name))) if name in _ADDING:
            written = target
        case ast.AugAssign(target=other):
            written = other
        case _:
            return True
    texts = {dotted(n) for one in rest for n in ast.walk(one) if isinstance(n, (ast.Attribute, ast.Name))}
    names = {dotted(n) for n in ast.walk(written)} - {"", "self"}
    # A method may read what is written.
    is_called = any(dotted(call.func).startswith("self.") for one in rest for call in calls_in(one))
    return not names & texts and not is_called and not _is_mentioned_beyond(site, next(_roots(written), ""), rest)


def _is_mentioned_beyond(site: Site, name: str, rest: Sequence[ast.stmt]) -> bool:
    """Return whether functions of the file that some statements may come to mention a name that is not the object."""
    is_open = any(not is_pure_call(call) for one in rest for call in calls_in(one))
    beyond = [one for one in _come_to(site.text, rest) if one not in rest and one is not site.function]
    return is_open and name != "self" and name in _identifiers(beyond)


# -- names


def _given(statements: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that calls get which may change what they are given: of functions that nobody knows."""
    calls = (call for one in statements for call in calls_in(one) if not is_pure_call(call))
    given = (part for call in calls for part in (*call.args, *(keyword.value for keyword in call.keywords)))
    return frozenset(part.id for part in given if isinstance(part, ast.Name))


def _loaded(statements: Iterable[ast.AST]) -> frozenset[str]:
    nodes = [n for one in statements for n in ast.walk(one)]
    read = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)}
    return frozenset(
        read | {n.target.id for n in nodes if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)}
    )


def _stored(statements: Iterable[ast.AST]) -> frozenset[str]:
    nodes = [n for one in statements for n in ast.walk(one)]
    written = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return frozenset(written | brought(nodes))


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
            case ast.Call(func=ast.Attribute(value=owner, attr=name)) if name.endswith("_") or name in _ADDING:
                found |= {n.id for n in ast.walk(owner) if isinstance(n, ast.Name)}
    return frozenset(found)


def _surely_stored(statements: Iterable[ast.stmt]) -> frozenset[str]:
    return _stored(one for one in statements if isinstance(one, (ast.Assign, ast.AugAssign, ast.AnnAssign)))


# -- the text


def split(text: str, name: str, collected: Sequence[str] = ()) -> str | None:
    """Return a text in which a function is two; None where that cannot be done, or is done.

    Args:
        text: a file's.
        name: the function's, qualified.
        collected: lines, of functions that this one calls, that add to a list of the module's, or of an object's:
            compiled code keeps what they add in a list that each call finds empty. It may be two already then.
    """
    is_inside = bool(collected) and name not in dict(_named(text))  # of another function: what it comes to is not known
    if "\r" in text or is_inside:
        return None
    drained: list[str] = []
    for line in collected:
        made = _collecting(text, line, name) if not _is_read_within(text, line, name) else None
        if made is None:
            return None
        text, lines = made
        drained += lines
    if drained and _is_two(text, name):
        return _emptying(text, name, drained)
    text = _with_reads_as_arguments(text, name)
    found = books(text, name)
    if found is None or not (drained or found.lines):
        return None
    return _written(found, drained)


def _is_two(text: str, name: str) -> bool:
    tree = parsed(text)
    functions = qualified(tree) if tree else {}
    marks = functions[name].decorator_list if name in functions else []
    return f"{name}{INNER}" in functions and any(dotted(mark).endswith(f".{MARK}") for mark in marks)


def _emptying(text: str, name: str, drained: Sequence[str]) -> str | None:
    """Return a text in which a function that is two empties more lists, once what computes has run."""
    tree = parsed(text)
    function = qualified(tree)[name] if tree else None
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


def _written(found: Books, drained: Sequence[str]) -> str | None:  # noqa: PLR0915 -- one text, from top to bottom
    site, function = found.site, found.function
    lines = site.text.split("\n")
    result, extra = "", list[Computed]()
    reads = _reads(found)
    own = parameters(function)
    in_class = bool(own) and own[0] == "self"
    given = [n for n in (*own, *sorted(_stored(found.before))) if n != "self" or not in_class]
    needed = _loaded(found.core) | (
        _loaded([found.returned]) if found.returned and not _is_names(found.returned) else set()
    )
    texts_after, still = _after(found, extra)
    is_kept = found.returned is not None and _is_names(found.returned)
    asked = still | (_loaded([found.returned]) if found.returned and is_kept else frozenset())
    order = dict.fromkeys(n.id for one in found.core for n in ast.walk(one) if isinstance(n, ast.Name))
    outputs = [n for n in order if n in _stored(found.core) & asked]
    inputs = [n for n in dict.fromkeys(given) if n in needed or n in outputs or n in _loaded_by(extra)]
    not_given = (_stored(found.core) & asked) - set(outputs)  # an import: a name that no call gives back
    if not_given or not set(outputs) <= _surely_stored(found.core) | set(inputs):
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
    if (
        is_taken(site.text, inner)
        or is_borrowed(site.text, function.name)
        or in_class != ("." in name_at(site.text, function.lineno))
    ):
        return None
    pad, deep = lines[function.lineno - 1][: function.col_offset], " " * function.body[0].col_offset
    call = f"{'self.' if in_class else ''}{inner}({', '.join([*inputs, *(code for _, code in reads.values())])})"
    head = lines[function.lineno - 1 : function.body[0].lineno - 1]
    outer = [*head, *(line for one in found.before for line in _chunk(found, one))]
    if takes == [result] and not texts_after:
        call, takes, result = f"return {call}", [], ""
        gives = [site.source(node) for node in (found.returned.value,) if node] if found.returned else []
    call = f"{', '.join(takes)} = {call}" if takes else call
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


def _is_names(returned: ast.Return) -> bool:
    match returned.value:
        case None | ast.Name():
            return True
        case ast.Tuple(elts=parts):
            return all(isinstance(one, ast.Name) for one in parts)
    return False


def _loaded_by(extra: Sequence[Computed]) -> frozenset[str]:
    trees = (parsed(one.code) for one in extra)
    return _loaded(tree for tree in trees if tree)


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
    added = _added(site, statement)
    if added and site.is_tensor(added.args[0]) and not isinstance(added.args[0], (ast.Name, ast.Subscript)):
        yield added.args[0]
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
    calls = [call for one in found.after if (call := _added(found.site, one))]
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


def leaves_early(text: str, name: str) -> bool:
    """Return whether a function, by its qualified name, asks after computing whether to return before its end."""
    found = books(text, name)
    return found is not None and any(_returns(one) for one in found.after)


# -- what functions that it calls add to lists of the module's, and of objects


def collects(text: str, line: int) -> bool:
    """Return whether a line adds to a list what compiled code may keep for later."""
    return _collected(text, line) is not None


def _collected(text: str, line: int) -> Collected | None:
    at = text.split("\n")[line - 1].strip() if line <= text.count("\n") + 1 else ""
    site = site_at(Sources({_FILE: text}), SourceLine(_FILE, line, "", at)) if at else None
    call = _added(site, site.statement) if site else None
    if site is None or call is None or not isinstance(call.func, ast.Attribute) or called(call) == "extend":
        return None
    attribute = _list_of_object(site, call.func.value)
    is_outside = not any(n.id in site.local() for n in ast.walk(call.func.value) if isinstance(n, ast.Name))
    if _is_for_eager(site) or not (attribute or is_outside):
        return None
    match call.args[0]:  # a number of then: what it is of may change in place before the call ends
        case ast.Call(func=ast.Attribute(value=tensor, attr="item" | "tolist" as name), args=[]):
            return Collected(site, call, f"{site.atom(tensor)}.detach().clone()", f"value.{name}()", attribute)
        case ast.Call(func=ast.Name(id="float" | "int" as name), args=[tensor]) if site.is_tensor(tensor):
            return Collected(site, call, f"{site.atom(tensor)}.detach().clone()", f"{name}(value)", attribute)
    return Collected(site, call, site.source(call.args[0]), "value", attribute) if attribute else None


def _is_for_eager(site: Site) -> bool:
    """Return whether a branch around a statement asks what is compiling: what compiled code adds is kept already."""
    tests = (one.test for one in site.around if isinstance(one, ast.If))
    return any(called(n) == "is_compiling" for test in tests for n in ast.walk(test))


def _list_of_object(site: Site, owner: ast.expr) -> str:
    """Return the attribute in which a method's object holds a list, as the file shows; empty if it may be another."""
    tree, own = parsed(site.text), parameters(site.function)[:1] if site.function else ()
    match owner:
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if tree and own == ("self",):
            pass
        case _:
            return ""
    given: list[ast.expr | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if any(_is_attribute(one, name) for one in targets):
                given.append(value)
            case ast.AnnAssign(target=target, value=value) if _is_attribute(target, name):
                given.append(value)
    return name if given and all(map(_is_new_list, given)) else ""


def _is_attribute(node: ast.expr, name: str) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == name


def _is_new_list(node: ast.expr | None) -> bool:
    match node:
        case ast.List() | ast.ListComp():
            return True
        case ast.Call(func=function):
            return dotted(function).rpartition(".")[2] in _LISTS
    return False


def _reached(text: str, names: Sequence[str]) -> Sequence[ast.AST]:
    """Return the functions of a file that some, by qualified names, may come to: all of which they mention the name.

    Modules are called by their `forward`, hooks by torch, and operators by Python.
    """
    functions = dict(_named(text))
    return _come_to(text, [functions[name] for name in names if name in functions])


def _come_to(text: str, begin: Sequence[ast.AST]) -> Sequence[ast.AST]:
    """Return some pieces of a file, and its functions that they may come to, those in other functions among them."""
    tree = parsed(text)
    nodes = list(ast.walk(tree)) if tree else []
    methods = qualified(tree) if tree else {}
    inner = [one for one in nodes if isinstance(one, Function) and one not in methods.values()]
    functions = [*methods.items(), *((one.name, one) for one in inner)]
    hooks = [n for n in nodes if isinstance(n, ast.Call) and called(n).startswith("register_")]
    found: dict[ast.AST, None] = {}
    left = list(begin)
    known = _identifiers(hooks) | {"forward"}
    while left:
        found.update(dict.fromkeys(left))
        known |= _identifiers(left)
        left = [one for name, one in functions if one not in found and _is_mentioned(name, known)]
    return list(found)


def _is_mentioned(name: str, known: AbstractSet[str]) -> bool:
    owner, _, last = name.rpartition(".")
    if last == "__init__":
        return owner.rpartition(".")[2] in known
    return last in known or (last.startswith("__") and last.endswith("__"))


def _identifiers(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return all names, attributes, and texts that may be of attributes."""
    every = [n for one in nodes for n in ast.walk(one)]
    names = {getattr(n, key, None) for n in every for key in ("id", "attr", "arg", "name", "value")}
    return frozenset(name for name in names if isinstance(name, str))


def _is_read_within(text: str, code: str, name: str) -> bool:
    """Return whether a list that a line adds to is read where compiled code may come: it would lack what is added."""
    places = [number for number, line in enumerate(text.split("\n"), 1) if line.strip() == code]
    found = _collected(text, places[0]) if len(places) == 1 else None
    if found is None or found.site.function is None:
        return True
    inner = [f"{name}{INNER}", *(key for key, one in _named(text) if one is found.site.function)]
    nodes = [n for one in _reached(text, [name, *inner]) for n in ast.walk(one) if n is not found.owner]
    if found.attribute:
        of_any = any(getattr(n, key, None) in _OF_ANY for n in nodes for key in ("id", "attr"))
        return of_any or any(found.attribute in (getattr(n, "attr", None), getattr(n, "value", None)) for n in nodes)
    owner = ast.dump(found.owner)
    return any(ast.dump(n) == owner for n in nodes if isinstance(n, ast.expr))


def _named(text: str) -> Iterable[tuple[str, Function]]:
    tree = parsed(text)
    return qualified(tree).items() if tree else ()


def _collecting(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text whose line adds to another list where it is compiled, and the lines that empty that one.

    Args:
        text: a file's.
        code: the line.
        name: the function's that is to have those lines, qualified.
    """
    places = [number for number, line in enumerate(text.split("\n"), 1) if line.strip() == code]
    found, tree = _collected(text, places[0]) if len(places) == 1 else None, parsed(text)
    if found is None or tree is None or found.site.statement.lineno != found.site.statement.end_lineno:
        return None
    site, call = found.site, found.call
    new = _free("added", _identifiers([tree]))
    lines = text.split("\n")
    pad = " " * site.statement.col_offset
    lines[site.statement.lineno - 1 : site.statement.lineno] = [
        f"{pad}if {site.torch}.compiler.is_compiling():",
        f"{pad}    {new}.append({f'(self, {found.kept})' if found.attribute else found.kept})",
        f"{pad}else:",
        f"{pad}    {site.source(call)}",
    ]
    top = next(one for one in tree.body if one.lineno <= site.statement.lineno <= (one.end_lineno or 0))
    first = first_line(top)
    while lines[first - 2].startswith("#") and first > 1:  # a comment on what follows
        first -= 1
    lines[first - 1 : first - 1] = [f"{new} = []  # of one call: compiled code finds it empty", "", ""]
    there = _identifiers(one for key, one in _named(text) if key == name)
    value, owner = _free("value", there), _free("owner", there)
    each, adding = (
        (f"{owner}, {value}", f"{owner}.{found.attribute}") if found.attribute else (value, site.source(found.owner))
    )
    made = found.made.replace("value", value)
    return "\n".join(lines), [f"for {each} in {new}:", f"    {adding}.{called(call)}({made})", f"{new}.clear()"]


def _free(name: str, used: AbstractSet[str]) -> str:
    return next(one for one in (name, *(f"{name}_{i}" for i in range(2, 99))) if one not in used)
