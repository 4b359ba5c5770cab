"""Messages of what a tensor holds (`if torch.isnan(x).any(): print("nan", x.sum())`): Python says them after the call.

Compiled code only adds to a list the function that says one, with the tensors that it is given.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.calls import only_says, said_by
from compiler_lens.facts.breaks.rewrites.site import Change, Site, only_line, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import NOT_ON_TENSORS, called, dotted, is_boolean
from compiler_lens.facts.measured.called import named_functions
from compiler_lens.facts.measured.collected import above, has_lines, is_for_eager, taking, with_list
from compiler_lens.facts.measured.reached import free, identifiers

_SAYS = "_says"  # after the name of the function that has the messages
_NUMBERS = frozenset({"float", "int", "bool"})
_NEVER = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Lambda, ast.comprehension)


class Given(Struct, frozen=True):
    """A part of a message, and what compiled code keeps for it."""

    node: ast.expr
    kept: str


class Said(Struct, frozen=True):
    """Messages, and the test that they stand under."""

    site: Site
    messages: tuple[ast.stmt, ...]
    test: str  # as compiled code computes it; empty: there is none
    given: tuple[Given, ...]
    owner: str  # the name of the function that has them


def says(text: str, line: int) -> bool:
    """Return whether a line stands in messages of what a tensor holds, which may wait until the call is over."""
    return _said(text, line) is not None


def saying(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text in which messages wait where they are compiled, and the lines that say them after the call.

    Args:
        text: a file's.
        code: the line of a message, or of the test that it stands under.
        name: the function's that is to have those lines, qualified.
    """
    line, tree = only_line(text, code), parsed(text)
    if _waits_already(text, code):
        return text, []
    found = _said(text, line) if line else None
    if found is None or tree is None:
        return None
    used, at = identifiers([tree]), found.site.statement.lineno
    function, there = free(f"{found.owner}{_SAYS}", used), next(filter(None, map(_list_of, ast.walk(tree))), "")
    said = there or free("said", used)
    lines = text.split("\n")
    lines[at - 1 : found.site.statement.end_lineno] = _either(found, said, function)
    new, more = "\n".join(lines), [*_function(found, function), "", ""]
    if there:  # of other messages: they are said in the order in which they come
        return above(new, at, more), []
    own = identifiers(one for key, one in named_functions(text) if key == name)
    taken, message, values = free("taken", own), free("message", own), free("values", own)
    drained = [taking(said, taken), f"for {message}, *{values} in {taken}:", f"    {message}(*{values})"]
    return with_list(new, at, said, *more), drained


def _waits_already(text: str, code: str) -> bool:
    """Return whether a message waits with others: what is said at once where nothing is compiled has it still."""
    lines = (number for number, line in enumerate(text.split("\n"), 1) if line.strip() == code)
    around = (one for number in lines if (site := site_in(text, number)) for one in site.around)
    return any(isinstance(one, ast.If) and any(map(_list_of, one.body)) for one in around)


def _list_of(node: ast.AST) -> str:
    """Return the name of the list to which a statement adds a message; empty of another statement."""
    match node:
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=said), attr="append"),
                args=[ast.Tuple(elts=[ast.Name(id=function), *_])],
            )
        ):
            return said if f"{_SAYS}_" in f"{function}_" else ""
    return ""


# -- which messages


def _said(text: str, line: int) -> Said | None:
    """Return the messages at a line: with the branch around them, if that has nothing else."""
    site = site_in(text, line)
    branch = site.around[-1] if site and site.around else None
    around = _said_at(site_in(text, branch.lineno)) if isinstance(branch, ast.If) else None
    return around or _said_at(site)


def _said_at(site: Site | None) -> Said | None:
    if site is None or not isinstance(site.function, ast.FunctionDef) or is_for_eager(site):
        return None
    if not has_lines(site, site.statement) or any(isinstance(n, _NEVER) for n in ast.walk(site.statement)):
        return None
    match site.statement:
        case ast.If(test=asked, body=body, orelse=[]):
            test, messages = _test(site, asked), tuple(body)
        case ast.Expr() as message:
            test, messages = "", (message,)
        case _:
            return None
    if test is None or not all(said_by(site, one) for one in messages):
        return None
    calls = [one.value for one in messages if isinstance(one, ast.Expr) and isinstance(one.value, ast.Call)]
    outside = [call.func for call in calls if dotted(call.func).partition(".")[0] in site.local()]
    parts = [part for call in calls for part in (*call.args, *(word.value for word in call.keywords))]
    given = tuple(one for part in parts for one in _given(site, part))
    has_tensor = test or any(site.is_tensor(one.node) for one in given)
    texts = (n for one in messages for n in ast.walk(one) if isinstance(n, (ast.Constant, ast.JoinedStr)))
    is_one_line = all(n.lineno == n.end_lineno for n in texts)
    return Said(site, messages, test, given, site.function.name) if has_tensor and is_one_line and not outside else None


def _test(site: Site, asked: ast.expr) -> str | None:
    """Return a test as compiled code computes it without asking for its value; None where it has to."""
    match asked:
        case _ if not all(only_says(site, one) for one in ast.walk(asked)):
            return None
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return f"~{site.atom(operand)}" if is_boolean(operand) else None
        case ast.BoolOp(op=op, values=values):
            sign = " & " if isinstance(op, ast.And) else " | "
            if all(is_boolean(one) and _test(site, one) for one in values):
                return sign.join(site.source(one) if called(one) else f"({site.source(one)})" for one in values)
            *plain, last = values  # Python asks all but the last
            is_plain = isinstance(op, ast.And) and not any(map(site.is_tensor, plain))
            return site.source(asked) if is_plain and is_boolean(last) and _test(site, last) else None
    is_one = isinstance(asked, ast.Call) or (isinstance(asked, ast.Compare) and len(asked.ops) == 1)
    is_of_tensors = not (isinstance(asked, ast.Compare) and isinstance(asked.ops[0], NOT_ON_TENSORS))
    return site.source(asked) if is_one and is_of_tensors else None


def _given(site: Site, node: ast.expr) -> Iterator[Given]:
    """Yield the parts of an expression that a function outside does not know, tensors without what reads them."""
    match node:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item" | "tolist"), args=[], keywords=[]):
            yield from _given(site, tensor)
            return
        case ast.Call(func=ast.Name(id=name), args=[of], keywords=[]) if name in _NUMBERS:
            yield from _given(site, of)
            return
        case ast.Attribute(attr="shape" | "dtype" | "device" | "ndim") if _mentions(site, node):
            yield Given(node, site.source(node))
            return
        case ast.Call(func=ast.Attribute(attr="size" | "dim" | "numel")) if _mentions(site, node):
            yield Given(node, site.source(node))
            return
    if site.is_tensor(node):
        # What is a name's, or of a view, may be written in place before it is said.
        copy = "" if isinstance(node, (ast.BinOp, ast.Compare)) or _is_reduced(node) else ".clone()"
        yield Given(node, f"{site.atom(node) if copy else site.source(node)}{copy}")
        return
    inner = [one for one in _expressions(node) if _mentions(site, one)]
    if any(site.is_tensor(n) for one in inner for n in ast.walk(one) if isinstance(n, ast.expr)):
        for one in inner:
            yield from _given(site, one)
    elif _mentions(site, node):
        yield Given(node, site.source(node))


def _is_reduced(node: ast.expr) -> bool:
    return called(node) in {"min", "max", "sum", "mean", "norm", "std", "var", "any", "all", "amax", "amin"}


def _expressions(node: ast.expr) -> Sequence[ast.expr]:
    """Return the expressions that one is made of: of an f-string those in it."""
    match node:
        case ast.JoinedStr(values=parts):
            return [part.value for part in parts if isinstance(part, ast.FormattedValue)]
        case ast.Call(args=args, keywords=words):
            of = [node.func.value] if isinstance(node.func, ast.Attribute) else []
            return [*of, *args, *(word.value for word in words)]
    return [one for one in ast.iter_child_nodes(node) if isinstance(one, ast.expr)]


def _mentions(site: Site, node: ast.expr) -> bool:
    return any(isinstance(n, ast.Name) and n.id in site.local() for n in ast.walk(node))


# -- the text


def _named(found: Said) -> Sequence[tuple[Given, str]]:
    """Return what the messages are given, with the names that it has in their function."""
    used = set(found.site.local())
    named: list[tuple[Given, str]] = []
    for one in found.given:
        name = one.node.id if isinstance(one.node, ast.Name) else free("value", used)
        used.add(name)
        named.append((one, name))
    return named


def _either(found: Said, said: str, function: str) -> Sequence[str]:
    """Return the lines that have messages wait where they are compiled, and say them at once where they are not."""
    site, pad = found.site, " " * found.site.statement.col_offset
    kept = dict.fromkeys(one.kept for one in found.given)
    values = ", ".join([function, *([found.test] if found.test else []), *kept])
    first, *rest = site.lines()
    is_branch = isinstance(site.statement, ast.If)
    own = [f"el{first}", *rest] if is_branch else ["else:", f"    {first}", *(f"    {line}" for line in rest)]
    return [
        f"{pad}if {site.torch}.compiler.is_compiling():",
        f"{pad}    {said}.append(({values}))",
        *(f"{pad}{line}".rstrip() for line in own),
    ]


def _function(found: Said, function: str) -> Iterator[str]:
    """Yield the lines of a function that says the messages."""
    site, names = found.site, dict[str, str]()  # by what is kept
    changes: list[Change] = []
    for given, name in _named(found):
        changes.append((given.node, names.setdefault(given.kept, name)))
    test = free("test", frozenset({*names.values(), *identifiers(found.messages)}))
    yield f"@{site.torch}.compiler.disable"  # Dynamo would compile it where Python calls it
    yield f"def {function}({', '.join([*([test] if found.test else []), *names.values()])}):"
    if found.test:
        yield f"    if {test}:"
    pad = " " * (8 if found.test else 4)
    for one in found.messages:
        first, *rest = site.edited(one, [change for change in changes if change[0] in set(ast.walk(one))]).split("\n")
        yield from (f"{pad}{first}", *(f"{pad}{line[one.col_offset :]}".rstrip() for line in rest))
