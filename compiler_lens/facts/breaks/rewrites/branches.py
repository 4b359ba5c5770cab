"""Rewrites of branches and assertions that depend on a tensor's values."""

from __future__ import annotations

import ast

from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.assignments import (
    OPERATORS,
    Assignment,
    as_function,
    as_tuple,
    assignments,
    is_guarded,
    is_simple_value,
    new_value,
    runs_in_cond,
    stays_tensor,
    zero_divisor,
)
from compiler_lens.facts.breaks.rewrites.conditions import condition, is_boolean
from compiler_lens.facts.breaks.rewrites.loops import search, while_loop
from compiler_lens.facts.breaks.rewrites.numbers import RANDOM_NEEDS
from compiler_lens.facts.breaks.rewrites.site import Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_simple
from compiler_lens.recording.model import BreakCause

_SAME_SHAPE = "both sides are computed every time and give tensors of one shape and dtype"
_NEUTRAL = {ast.Add: "0", ast.Sub: "0", ast.Mult: "1", ast.Div: "1"}  # x += 0 and x *= 1 change nothing
_NEVER = (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom, ast.Starred)
_WIDEST = 100


def branching(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite a statement that asks a tensor for a bool."""
    statement, found = site.statement, None
    if any(isinstance(n, _NEVER) for n in ast.walk(statement)):
        return None
    if isinstance(statement, (ast.Assert, ast.If, ast.While)):
        test = condition(site, statement.test) if _is_asked_by(cause, statement.test) else None
        if test is None:
            return None
        if isinstance(statement, ast.Assert):
            message = _message(statement.msg) if statement.msg else ""
            found = site.rewrite([_check(site, test, message)], _asynchronous("AssertionError"))
        elif isinstance(statement, ast.While):
            found = while_loop(site, statement, test)
        else:
            found = _branch(site, statement, test)
    elif is_simple(statement):
        found = _conditional_expression(site)
    if found is None or not any(dotted(n) == "random.random" for n in ast.walk(statement)):
        return found
    return replace(found, needs=_joined(found.needs, RANDOM_NEEDS))


def _joined(*needs: str) -> str:
    return "; ".join(filter(None, needs))


def _is_asked_by(cause: BreakCause, test: ast.expr) -> bool:
    """Return whether it is the test that broke, not a statement on the same line."""
    if cause.gb_type == "Data-dependent branching":
        return True
    names = {called(n) for n in ast.walk(test)}
    if cause.gb_type == "Data dependent operator":
        return any(f"aten.{name}." in cause.context for name in names if name)
    if "Random.random" in cause.context:
        return "random" in names
    return cause.gb_type.startswith("Unsupported Tensor.item()") and bool(names & {"item", "bool", "float", "int"})


# -- if


def _branch(site: Site, node: ast.If, test: str) -> Rewrite | None:
    match node:
        case ast.If(body=[ast.Raise(exc=ast.expr() as error)], orelse=[]):
            return None if _is_elif(site) else _raise(site, node, error, test)
        case ast.If(body=[*_, ast.Break()]):
            return search(site, node, test)
        case ast.If(body=[*_, ast.Return()]):
            return _returns(site, node, test)
    first, second = assignments(node.body), assignments(node.orelse)
    if first is None or second is None or not _same_targets(site, first, second):
        return None
    return _chosen(site, node, test, first, second)


def _chosen(site: Site, node: ast.If, test: str, first: list[Assignment], second: list[Assignment]) -> Rewrite | None:
    """Write torch.where for the same targets on either side if both sides may be computed, else torch.cond."""
    both = [*first, *second]
    if any(is_simple_value(a.value) and not stays_tensor(site, a) for a in both):
        return None
    if not all(is_simple_value(a.value) for a in both):
        return _cond(site, test, first, second)
    if is_guarded(site, node.test, both) or not _are_values(site, first, second):
        return None
    is_optional = not second and all(a.operator for a in first)
    needs = "the value is computed every time" if is_optional else _SAME_SHAPE
    lines = _as_elif(site, _selected(site, test, first, second))
    return site.rewrite(lines, _joined(needs, zero_divisor(node.test, both)))


def _raise(site: Site, node: ast.If, call: ast.expr, test: str) -> Rewrite | None:
    message = _message(call.args[0]) if isinstance(call, ast.Call) and call.args else ""
    inverse = test[2:-1] if test.startswith("~(") and _closes_at_end(test) else f"~({test})"
    if is_boolean(node.test) and called(node.test):
        inverse = f"~{test}"
    name = dotted(call.func if isinstance(call, ast.Call) else call)
    return site.rewrite([_check(site, inverse, message)], _asynchronous(name or "its own"))


def _asynchronous(error: str) -> str:
    return f"the error is then a RuntimeError, not {error}; on a GPU a failed check ends the process's CUDA context"


def _check(site: Site, test: str, message: str) -> str:
    return f"{site.torch}._assert_async({test}{f', {message}' if message else ''})"


def _message(node: ast.expr) -> str:
    """Return a message that needs no tensor's value; of an f-string what is constant in it."""
    match node:
        case ast.Constant(value=str()):
            return ast.unparse(node)
        case ast.JoinedStr(values=parts):
            text = "".join(str(p.value) if isinstance(p, ast.Constant) else "..." for p in parts).strip(". :")
            return repr(text) if text else ""
    return ""


def _returns(site: Site, node: ast.If, test: str) -> Rewrite | None:
    match (*node.body, *(node.orelse or site.following[:1])):
        case (ast.Return(value=ast.expr() as first), ast.Return(value=ast.expr() as second) as otherwise):
            last = None if node.orelse else otherwise
        case _:
            return None
    if last and _is_elif(site):
        return None
    if not (is_simple_value(first) and is_simple_value(second)):
        return _cond(site, test, [Assignment("", first)], [Assignment("", second)], last)
    if is_guarded(site, node.test, [first, second]) or not _alike(site, first, second):
        return None
    lines = _where(site, "return ", test, site.source(first), site.source(second))
    needs = _joined(_SAME_SHAPE, zero_divisor(node.test, [first, second]))
    return site.rewrite(_as_elif(site, lines), needs, last=last)


def _same_targets(site: Site, first: list[Assignment], second: list[Assignment]) -> bool:
    names = [a.name for a in first]
    if second:
        return names == [a.name for a in second]
    return all(site.defined_before(name) for name in names)


def _are_values(site: Site, first: list[Assignment], second: list[Assignment]) -> bool:
    others = [b.value for b in second] or [ast.Name(a.name) for a in first]
    operators = [b.operator for b in second] or [None for _ in first]
    return all(
        a.operator or operator or _alike(site, a.value, other)
        for a, other, operator in zip(first, others, operators, strict=True)
    )


def _alike(site: Site, one: ast.expr, other: ast.expr) -> bool:
    """Whether at least one of two values is a tensor or a number by its looks: a bare name may be anything."""
    bare = (ast.Name, ast.Attribute, ast.Subscript)
    return any(not isinstance(n, bare) or site.is_tensor(n) for n in (one, other))


def _selected(site: Site, test: str, first: list[Assignment], second: list[Assignment]) -> list[str]:
    lines: list[str] = []
    if len(first) > 1:  # the test may read what the first line assigns
        lines, test = [f"{(name := site.free('chosen'))} = {test}"], name
    others: list[Assignment | None] = [*second] if second else [None] * len(first)
    for one, other in zip(first, others, strict=True):
        head, a, b = _sides(site, one, other)
        lines += _where(site, head, test, a, b)
    return lines


def _sides(site: Site, one: Assignment, other: Assignment | None) -> tuple[str, str, str]:
    """How the line begins, and the value of either side."""
    in_place = one.operator and (other.operator is one.operator if other else one.operator in _NEUTRAL)
    if in_place and one.operator:
        b = site.source(other.value) if other else _NEUTRAL[one.operator]
        return f"{one.name} {OPERATORS[one.operator]}= ", site.source(one.value), b
    return f"{one.name} = ", new_value(site, one), new_value(site, other) if other else one.name


def _where(site: Site, head: str, test: str, a: str, b: str) -> list[str]:
    line = f"{head}{site.torch}.where({test}, {a}, {b})"
    if len(line) <= _WIDEST:
        return [line]
    return [f"{head}{site.torch}.where(", *(f"    {part}," for part in (test, a, b)), ")"]


def _is_elif(site: Site) -> bool:
    return site.edited(site.statement).startswith("elif")


def _as_elif(site: Site, lines: list[str]) -> list[str]:
    return ["else:", *(f"    {line}" for line in lines)] if _is_elif(site) else lines


# -- torch.cond


def _cond(
    site: Site, test: str, first: list[Assignment], second: list[Assignment], last: ast.stmt | None = None
) -> Rewrite | None:
    both = [*first, *second]
    if not all(runs_in_cond(a.value) for a in both) or _is_elif(site):
        return None
    targets = [a.name for a in first]
    # Tensors and names to be changed; the functions see all others as they stand around them.
    loaded = [n.id for a in both for n in ast.walk(a.value) if isinstance(n, ast.Name)]
    loaded += [a.name for a in both if a.operator or not second]
    known = [n for n in dict.fromkeys(loaded) if n in site.local() and (n in site.tensors or n in targets)]
    operands = [name for name in known if site.defined_before(name)]
    if_true, if_false = site.free("if_true"), site.free("if_false")
    head = f"{', '.join(targets)} = " if targets != [""] else "return "
    lines = [
        *as_function(site, if_true, operands, first, targets),
        *as_function(site, if_false, operands, second, targets),
        f"{head}{site.torch}.cond({test}, {if_true}, {if_false}, {as_tuple(operands)})",
    ]
    needs = "both functions give tensors of one shape, dtype and layout, and change nothing else"
    return site.rewrite(lines, needs, last=last)


# -- a if test else b


def _conditional_expression(site: Site) -> Rewrite | None:
    found = [n for n in ast.walk(site.statement) if isinstance(n, ast.IfExp)]
    if len(found) != 1:
        return None
    node, first, second = found[0], found[0].body, found[0].orelse
    if not (is_simple_value(first) and is_simple_value(second) and _alike(site, first, second)):
        return None
    test = condition(site, node.test)
    if test is None or is_guarded(site, node.test, [first, second]):
        return None
    new = f"{site.torch}.where({test}, {site.source(first)}, {site.source(second)})"
    return site.edit([(node, new)], _joined(_SAME_SHAPE, zero_divisor(node.test, [first, second])))


def _closes_at_end(text: str) -> bool:
    """Whether the bracket of `~(…)` closes at the end of the text, not before."""
    depth = 0
    for place, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0 and sign == ")":
            return place == len(text) - 1
    return False
