"""What the expression that broke shows by its own syntax: what a branch is there for, what asks for a value."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.remedies import Shown
from compiler_lens.facts.breaks.rewrites.assignments import Assignment, is_guarded
from compiler_lens.facts.breaks.rewrites.drawn import leaves_out
from compiler_lens.facts.breaks.rewrites.first import changing
from compiler_lens.facts.breaks.rewrites.handlers import is_caught
from compiler_lens.facts.breaks.rewrites.site import Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted
from compiler_lens.facts.breaks.rewrites.tells import told
from compiler_lens.facts.program.uses import SIZED, Use, uses
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

_OF_NAN = frozenset({"isnan", "isinf", "isfinite", "isneginf", "isposinf"})
_NUMBERS = frozenset({"item", "tolist", "int", "float", "bool"})


def shown_at(sources: Sources, at: SourceLine, column: int | None = None) -> Shown | None:
    """Return what a line shows; None where its text is not known, or shows nothing of the kind.

    Args:
        sources: the texts of files.
        at: the line.
        column: where in it, without its indent, the expression that broke begins; None where that is not known.

    """
    try:
        site = site_at(sources, at)
        return _shown(site, column) if site else None
    except RecursionError:  # an expression nested deeper than Python's stack
        return None


def _site(sources: Sources, at: SourceLine) -> Site | None:
    try:
        return site_at(sources, at)
    except RecursionError:  # an expression nested deeper than Python's stack
        return None


def column_of_only(sources: Sources, at: SourceLine, *, is_branch: bool) -> int | None:
    """Return where in its line, without the indent, the one expression begins that can have broken; None for several.

    For a torch that does not say it, as 2.11.

    Args:
        sources: the texts of files.
        at: the line.
        is_branch: whether a condition broke; else a number of a tensor's was asked for.

    """
    site = _site(sources, at)
    if site is None or not sources.has(at.file):
        return None
    asking = list(_branching(site.statement) if is_branch else _asking(site.statement))
    line = sources.line(at.file, at.line)
    if len(asking) != 1 or asking[0].lineno != site.line:
        return None
    return len(line.encode()[: asking[0].col_offset].decode()) - (len(line) - len(line.lstrip()))


def _branching(statement: ast.stmt) -> Iterator[ast.expr]:
    """Yield the conditions of a statement that ask for the truth of a value: of those that others hold, the outer."""
    pending = [n for n in ast.iter_child_nodes(statement) if isinstance(n, ast.expr)]
    if isinstance(statement, (ast.If, ast.While, ast.Assert)):
        pending = []
        if not isinstance(statement.test, ast.BoolOp):  # each of its values is asked by itself
            yield statement.test
    while pending:
        node = pending.pop()
        if isinstance(node, ast.IfExp):
            yield node.test
        elif _asked(node) in {Shown.LOGICAL, Shown.NOT, Shown.IN}:
            yield node
        else:
            pending += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]


def _asking(statement: ast.stmt) -> Sequence[ast.expr]:
    """Return what asks for a number of a tensor's in a statement: calls; without any, slices, texts, `in`, `not`."""
    own = [n for n in ast.iter_child_nodes(statement) if not isinstance(n, ast.stmt)]
    every = [n for one in own for n in ast.walk(one) if isinstance(n, ast.expr)]
    calls = [n for n in every if called(n) in {"item", "tolist"}] or [n for n in every if called(n) in _NUMBERS]
    return calls or [n for n in every if _asked(n) in {Shown.SLICE, Shown.TEXT, Shown.IN, Shown.NOT}]


# What a number that the line takes from a tensor is used for later: what comes first is what matters most.
_USED = {
    Use.BRANCH: Shown.BRANCH, Use.LOOP: Shown.LOOP, Use.KEY: Shown.KEY, Use.TEXT: Shown.TEXT, Use.SLICE: Shown.SLICE,
    Use.SIZE: Shown.SIZES,
}  # fmt: skip


def used_later(sources: Sources, at: SourceLine) -> Shown | None:
    """Return what the function does with the number that a line assigns to a name; None if nothing of the kind."""
    site = _site(sources, at)
    match site.statement if site else None:
        case (
            ast.Assign(targets=[ast.Name(id=name)], value=value) | ast.AnnAssign(target=ast.Name(id=name), value=value)
        ):
            found = uses(sources, at.file, at.line, name)
            if Use.BRANCH in found and _draws(value):
                return Shown.DRAWN
            return next((shown for use, shown in _USED.items() if use in found), None)
    return None


def bounds_at(sources: Sources, at: SourceLine) -> int | None:
    """Return the first line below one that has in a slice the name which that assigns; None if there is none."""
    site = _site(sources, at)
    match site.statement if site else None:
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
            slices = (n for n in ast.walk(site.function) if isinstance(n, ast.Slice)) if site and site.function else ()
            lines = (n.lineno for n in slices if any(getattr(one, "id", "") == name for one in ast.walk(n)))
            return min((line for line in lines if line > at.line), default=None)
    return None


_POSTFIX = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)


def columns_at(sources: Sources, at: SourceLine, column: int, *, is_branch: bool) -> tuple[int, int] | None:
    """Return where in its line the expression stands that broke, by characters; None where the line is not known.

    Args:
        sources: the texts of files.
        at: the line.
        column: where in it, without its indent, the expression begins.
        is_branch: whether a condition broke, which is all that begins there; else it is a call.

    """
    site = _site(sources, at)
    if site is None or not sources.has(at.file):
        return None
    line = sources.line(at.file, at.line)
    begin = len(line) - len(line.lstrip()) + column
    bytes_before = len(line[:begin].encode())
    here = [n for n in _around(site, column) if isinstance(n, ast.expr) and n.col_offset == bytes_before]
    here = [n for n in here if n.lineno == site.line]
    calls = [n for n in here if isinstance(n, _POSTFIX)]
    if not here:
        return None
    found: ast.expr = here[-1] if is_branch or not calls else calls[-1]
    match found:
        case ast.IfExp(test=test) if test.lineno == site.line:  # what begins there is asked by its condition
            found, begin = test, len(line.encode()[: test.col_offset].decode())
    if found.end_lineno != site.line or found.end_col_offset is None:
        return begin, len(line.rstrip())
    return begin, len(line.encode()[: found.end_col_offset].decode())


def _shown(site: Site, column: int | None) -> Shown | None:  # noqa: PLR0911 -- one for each kind
    statement, asks = site.statement, list(_around(site, column))
    if any(map(_draws, asks)) and _is_tested(statement, asks):
        return Shown.DRAWN
    match statement:
        case ast.Assert(msg=ast.expr() as message) if not isinstance(message, ast.Constant):
            return Shown.MESSAGE
        case ast.While(test=test) if column is None or test in asks:
            return Shown.WHILE
        case ast.If(test=test) if column is None or test in asks:
            is_in = any(_asked(n) is Shown.IN for n in ([test] if column is None else asks))
            is_of_number = any(called(n) in _NUMBERS for n in ast.walk(test))
            return Shown.IN if is_in and not is_of_number else _arm(site, statement)
        case ast.For() if "tolist" in map(called, asks):
            return Shown.LOOP_OVER
    is_called = False
    for inner, node in zip([None, *asks], asks, strict=False):
        found = Shown.BRANCH if isinstance(node, ast.IfExp) and node.test is inner else _asked(node)
        if found and not (is_called and found in {Shown.IN, Shown.LOGICAL, Shown.NOT}):
            return found
        is_called |= called(node) in _NUMBERS
    return None


def _is_tested(statement: ast.stmt, asks: Sequence[ast.AST]) -> bool:
    is_branch = isinstance(statement, (ast.If, ast.While)) and statement.test in asks
    return is_branch or any(isinstance(node, (ast.Compare, ast.BoolOp, ast.IfExp)) for node in asks)


def _draws(node: ast.AST | None) -> bool:
    """Whether this is one of NumPy's random numbers, and nothing of a tensor's."""
    match node:
        case ast.Call(func=function, args=arguments):
            of_module, _, _ = dotted(function).rpartition(".")
            return of_module in _NUMPYS and all(isinstance(one, (ast.Constant, ast.Name)) for one in arguments)
    return False


_NUMPYS = frozenset({"np.random", "numpy.random"})


def _around(site: Site, column: int | None) -> Iterator[ast.AST]:
    """Yield the expressions that begin at a column, and all around them in the statement, from within."""
    line = site.text.split("\n")[site.line - 1]
    start = len(line) - len(line.lstrip()) + (column or 0)
    begin = None if column is None else (site.line, len(line[:start].encode()))
    here = [n for n in ast.walk(site.statement) if isinstance(n, ast.expr) and (n.lineno, n.col_offset) == begin]
    node: ast.AST | None = here[-1] if here else None
    while node is not None and node is not site.statement:
        yield node
        node = site.parents().get(node)


def _asked(node: ast.AST) -> Shown | None:  # noqa: PLR0911 -- one for each kind
    match node:
        case ast.Compare(ops=[ast.In() | ast.NotIn()]):
            return Shown.IN
        case ast.UnaryOp(op=ast.Not()):
            return Shown.NOT
        case ast.BoolOp() | ast.Compare(ops=[_, _, *_]):  # `0 < x < 1` is `0 < x and x < 1`
            return Shown.LOGICAL
        case ast.Slice() if any(isinstance(n, ast.Name) for n in ast.walk(node)):
            return Shown.SLICE
        case ast.JoinedStr():
            return Shown.TEXT
        case ast.Call(args=arguments) if called(node) in SIZED and any(map(_has_numbers, arguments)):
            return Shown.SIZES
        case ast.ListComp(elt=made) | ast.GeneratorExp(elt=made) | ast.SetComp(elt=made):
            return Shown.LOOKED_UP if _looks_up(made, node.generators[0]) else None
    return None


def _has_numbers(argument: ast.AST) -> bool:
    """Whether numbers of a `.tolist()` are an argument, also in a list; not a tensor that is made of them."""
    match argument:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name == "tolist"
    return any(
        _has_numbers(one) for one in ast.iter_child_nodes(argument) if isinstance(one, (ast.expr, ast.comprehension))
    )


def _looks_up(made: ast.expr, each: ast.comprehension) -> bool:
    """Whether what a comprehension makes of each number of a `.tolist()` is looked up by that."""
    if called(each.iter) != "tolist" or not isinstance(each.target, ast.Name):
        return False
    name = each.target.id
    for node in ast.walk(made):
        match node:
            case (
                ast.Subscript(slice=ast.Name(id=key))
                | ast.Call(func=ast.Attribute(attr="get"), args=[ast.Name(id=key), *_])
            ) if key == name:
                return True
    return False


_LEAVING = (ast.Return, ast.Raise, ast.Continue)


def _arm(site: Site, node: ast.If) -> Shown:
    match node:
        case ast.If(body=[ast.Raise(), *_], orelse=[]):
            # What a handler of the function catches is the other side of a branch, and an assertion is no such error.
            return Shown.BRANCH if is_caught(site) else Shown.RAISES
    change = changing(site, node)
    found = change if change is Shown.INITIALISES else told(site, node)
    if found is not None and not (_only_leaves(node) and _of_nan(node.test)):
        return found
    match node:
        case ast.If(test=test, body=[*_, ast.Return() | ast.Raise() | ast.Continue()], orelse=[]) if _of_nan(test):
            return Shown.LEAVES
        case ast.If(body=[*_, ast.Break()], orelse=[]):
            return Shown.STOPS
        case ast.If(  # `mask.sum() == 0`, `mask.sum() < 1`, `not mask.any()`
            test=ast.UnaryOp(op=ast.Not())
            | ast.Compare(ops=[ast.Eq() | ast.LtE()], comparators=[ast.Constant(value=0)])
            | ast.Compare(ops=[ast.Lt()], comparators=[ast.Constant(value=1)]),
            body=[ast.Continue(), *_],
            orelse=[],
        ):
            return Shown.BRANCH if is_guarded(site, node.test, _values(site.following)) else Shown.SAVES_WORK
    return Shown.LEAVES_OUT if leaves_out(site, node) else change or Shown.BRANCH


def _only_leaves(node: ast.If) -> bool:
    return len(node.body) == 1 and isinstance(node.body[0], _LEAVING)


def _of_nan(test: ast.expr) -> bool:
    """Whether a test asks for what is not finite, in one of torch's or Python's ways, and for nothing else."""
    asked = [called(node) for node in ast.walk(test) if isinstance(node, ast.Call)]
    match test:
        case ast.Compare(left=left, ops=[ast.NotEq()], comparators=[right]) if ast.dump(left) == ast.dump(right):
            return True
        case ast.BoolOp(values=values):
            return all(map(_of_nan, values))
    return not _OF_NAN.isdisjoint(asked)


def _values(statements: Sequence[ast.stmt]) -> list[Assignment]:
    """All that some statements compute, whether or not it has a name."""
    found: list[Assignment] = []
    for node in (n for statement in statements for n in ast.walk(statement)):
        match node:
            case ast.AugAssign(target=target, op=op, value=value):
                found.append(Assignment("", ast.BinOp(target, op, value)))
            case ast.stmt():
                found += [Assignment("", n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.expr)]
    return found
