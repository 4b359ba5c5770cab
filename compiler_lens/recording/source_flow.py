"""What syntax alone says of a function's course: what need not run, and what comes of a list of row numbers."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_SILENT = (ast.Name, ast.Constant, ast.expr_context, ast.arguments, ast.arg)  # none of these calls anything

# What makes a list of row numbers, and what asks one of them for its value.
_ROW_NUMBERS = frozenset(("nonzero", "argwhere", "where", "flatnonzero", "unique"))
_ASKING = frozenset(("item", "tolist", "int", "bool", "float", "len"))

Arms = frozenset[int]


def arms(tree: ast.AST) -> Mapping[int, Arms]:
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


def repeated(tree: ast.AST) -> frozenset[int]:
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
    if isinstance(node, (ast.For, ast.AsyncFor, ast.While)):
        return node.body
    if isinstance(node, _COMPREHENSIONS):
        return [*([node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]), *node.generators[1:]]
    return []


def _arms(node: ast.AST) -> Iterator[Iterable[ast.AST]]:
    """The parts of a node that do not run each time that it does."""
    if isinstance(node, (ast.If, ast.For, ast.AsyncFor, ast.While)):
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
    elif isinstance(node, _COMPREHENSIONS):
        yield _again(node)


def is_generator(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Return whether a function yields, itself and not a function inside of it."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            waiting += ast.iter_child_nodes(node)
    return False


def lines_on_rows(function: ast.AST, number: int) -> frozenset[int]:
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
        for field in ("body", "orelse"):
            yield from _asking(getattr(statement, field, ()), rows)


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
