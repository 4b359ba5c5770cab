"""A branch that one of torch's random numbers decides, as in stochastic depth: `torch.where` chooses a result."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import sides
from compiler_lens.facts.breaks.rewrites.assignments import Assignment
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, dotted, is_number
from compiler_lens.recording.model import BreakCause

_SAME_DTYPE = "both sides are computed every time and give tensors of one shape and dtype"
_OF_DRAW = frozenset({"device", "dtype"})
_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_DEEPEST = 10
_WIDEST = 100
_LEAST, _MOST = 1e-6, 1e6  # no float32 that is computed with makes 0 or inf of what is between


class _Chance(Struct, frozen=True):
    """The number that a drawn one is compared with, or the rest to 1 of it."""

    of: str  # `self.p` of `self.p` and of `1 - self.p`; empty for a constant
    is_rest: bool = False
    origin: str = ""  # what `of` was computed of: `self.p` of `keep = 1 - self.p`, else itself


class _Value(Struct, frozen=True):
    """What one way returns: tensors with numbers, whose gradients are finite whatever the tensors are."""

    tensors: frozenset[str]
    chances: frozenset[_Chance] = frozenset()  # that it computes with
    divisors: frozenset[_Chance] = frozenset()
    is_float: bool = False  # of tensors of ints, too


def leaves_out(site: Site, branch: ast.If) -> bool:
    """Return whether a number that is drawn decides if a layer, or another function, is called."""
    _, chance = _compared(site, _parts(branch.test)[1])
    is_over = isinstance(branch.body[-1], (ast.Return, ast.Continue))
    arms = [*branch.body, *branch.orelse, *(site.following if is_over else ())]
    return chance is not None and any(_is_of_user(call) for one in arms for call in calls_in(one))


def _is_of_user(call: ast.Call) -> bool:
    """Return whether a call is of a name or of an attribute of `self`, which may be a layer."""
    is_name = isinstance(call.func, ast.Name) and not hasattr(builtins, call.func.id)
    return is_name or dotted(call.func).startswith("self.")


class _Choice(Struct, frozen=True):
    """What a branch chooses between, and what becomes of it."""

    name: str  # of what is assigned; empty where it is returned
    values: Sequence[ast.expr]
    last: ast.stmt | None = None  # a statement below the branch that is its other side
    is_before_other: bool = True  # there is no `else`

    @property
    def both(self) -> list[Assignment]:
        return [Assignment(self.name, node) for node in self.values]


def chosen(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `if on: return torch.where(drawn < p, a, b)` for `if on and drawn.item() < p: return a` before `return b`.

    Only what is computed of the same tensors by numbers alone is computed without need: that draws nothing, keeps
    nothing, and gives each tensor the gradient that it had.
    """
    choice = _choice(site)
    if choice is None or site.edited(site.statement).startswith("elif") or not isinstance(site.statement, ast.If):
        return None
    plain, asked = _parts(site.statement.test)
    compared, chance = _compared(site, asked)
    if chance is None or not all(map(_is_plain, plain)):
        return None
    one, other = choice.values
    known = replace(choice, values=[one, _where_known(other, _known(plain))])
    return _as_one(site, plain, compared, chance, known)


def _choice(site: Site) -> _Choice | None:
    match site.statement:
        case ast.If(body=[ast.Return(value=ast.expr() as one)], orelse=[ast.Return(value=ast.expr() as other)]):
            return _Choice("", [one, other], is_before_other=False)
        case ast.If(body=[ast.Return(value=ast.expr() as one)], orelse=[]):
            match site.following[:1]:
                case [ast.Return(value=ast.expr() as other) as last]:
                    return _Choice("", [one, other], last)
        case ast.If(body=[ast.Assign(targets=[ast.Name(id=name)], value=one)], orelse=[]):
            return _Choice(name, [one, ast.Name(name)]) if site.defined_before(name) else None
        case ast.If(
            body=[ast.Assign(targets=[ast.Name(id=name)], value=one)],
            orelse=[ast.Assign(targets=[ast.Name(id=also)], value=other)],
        ) if name == also:
            return _Choice(name, [one, other], is_before_other=False)
    return None


def _as_one(site: Site, plain: Sequence[ast.expr], compared: str, chance: _Chance, choice: _Choice) -> Rewrite | None:
    """Return the two ways as one, under what Python asks first and what the numbers of both need."""
    found = [value for node in choice.values if (value := _value(site, chance, node)) is not None]
    if len(found) < len(choice.values) or found[0].tensors != found[1].tensors or not sides.fit(site, choice.both):
        return None
    if all(dotted(node) for node in choice.values) or not sides.keeps_memory(site, choice.both, choice.name)[0]:
        return None
    asked = [*(_in_brackets(site, node) for node in plain), *_within(found)]
    new, needs = _where(site, compared, choice), _needs(site, chance, choice, found)
    if not asked:
        return site.rewrite(new, needs, last=choice.last)
    kept = site.lines() if _within(found) or not choice.is_before_other else []
    if choice.name and kept:
        kept = ["else:", *(f"    {line}".rstrip() for line in kept)]
    return site.rewrite([f"if {' and '.join(asked)}:", *(f"    {line}" for line in new), *kept], needs)


def _needs(site: Site, chance: _Chance, choice: _Choice, found: Sequence[_Value]) -> str:
    """Return what it takes for granted to compute both."""
    is_sure = len(found[0].tensors) == 1 and all(one.is_float for one in found)
    unknown = sorted(one for one in found[0].tensors if one not in site.tensors)
    return sides.joined(
        "" if is_sure else _SAME_DTYPE,
        *(f"`{one}` is a tensor" for one in unknown),
        f"`{chance.of}` is a number" if chance.of else "",
        sides.keeps_memory(site, choice.both, choice.name)[1],
    )


def _in_brackets(site: Site, node: ast.expr) -> str:
    return f"({site.source(node)})" if isinstance(node, ast.BoolOp) else site.source(node)


def _where(site: Site, compared: str, choice: _Choice) -> list[str]:
    head = f"{choice.name} = " if choice.name else "return "
    parts = [compared, *(node.id if isinstance(node, ast.Name) else site.source(node) for node in choice.values)]
    line = f"{head}{site.torch}.where({', '.join(parts)})"
    return [line] if len(line) <= _WIDEST else [f"{head}{site.torch}.where(", *(f"    {one}," for one in parts), ")"]


def _within(found: Sequence[_Value]) -> list[str]:
    """Return the test that the numbers of both ways are finite: outside of it the statement stays as it was.

    What is computed and not chosen has a gradient of zeros, and zero times inf is a nan, as is zero by zero.
    """
    used = {chance.of for one in found for chance in one.chances}
    by = {(chance.of, chance.is_rest) for one in found for chance in one.divisors}
    return [
        f"{f'{_LEAST} <' if (name, False) in by else '0 <='} {name} {'<' if (name, True) in by else '<='} 1"
        for name in sorted(used)
    ]


# -- the test


def _parts(test: ast.expr) -> tuple[list[ast.expr], ast.expr]:
    """Return what `and` asks first, and what it asks last."""
    match test:
        case ast.BoolOp(op=ast.And(), values=[*first, last]):
            return first, last
    return [], test


def _is_plain(node: ast.expr) -> bool:
    """Return whether a part of a test may be asked twice: it calls nothing."""
    match node:
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _is_plain(operand)
        case ast.BoolOp(values=parts):
            return all(map(_is_plain, parts))
        case ast.Compare(left=left, comparators=others):
            return all(bool(dotted(part)) or isinstance(part, ast.Constant) for part in (left, *others))
    return bool(dotted(node))


def _known(plain: Sequence[ast.expr]) -> Mapping[str, bool]:
    """Return which names are true, or are not, once Python has asked for them."""
    known = {dotted(node): True for node in plain if dotted(node)}
    denied = [node.operand for node in plain if isinstance(node, ast.UnaryOp)]
    return known | {dotted(node): False for node in denied if dotted(node)}


def _where_known(node: ast.expr, known: Mapping[str, bool]) -> ast.expr:
    """Return `a` of `a if self.training else b`, where Python has asked for that."""
    match node:
        case ast.IfExp(test=ast.UnaryOp(op=ast.Not(), operand=asked), body=other, orelse=one):
            pass
        case ast.IfExp(test=asked, body=one, orelse=other):
            pass
        case _:
            return node
    answer = known.get(dotted(asked))
    return node if answer is None else one if answer else other


def _compared(site: Site, asked: ast.expr) -> tuple[str, _Chance | None]:
    """Return the test as a tensor without dimensions, and what is compared with the number that is drawn."""
    match asked:
        case ast.Call(func=ast.Attribute(value=ast.Compare() as inner, attr="item"), args=[], keywords=[]):
            return _compared(site, inner)
        case ast.Call(func=ast.Name(id="bool"), args=[ast.Compare() as inner], keywords=[]):
            return _compared(site, inner)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if isinstance(op, _ORDERED):
            drawn = [(part, text) for part in (left, right) if (text := _drawn(site, part))]
        case _:
            return "", None
    if len(drawn) != 1:
        return "", None
    chance = _chance(site, right if drawn[0][0] is left else left)
    return (site.source(asked, drawn), chance) if chance else ("", None)


def _drawn(site: Site, node: ast.expr) -> str:
    """Return the tensor of `torch.rand(1).item()`, as a double, which is what Python compares; empty if it is none."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Call() as call, attr="item"), args=[], keywords=[]):
            return f"{text}.double()" if (text := _drawn(site, call)) else ""
        case ast.Call(func=ast.Name(id="float"), args=[ast.Call() as call], keywords=[]):
            return f"{text}.double()" if (text := _drawn(site, call)) else ""
        case ast.Call(func=function, args=args, keywords=keywords) if dotted(function) == f"{site.torch}.rand":
            pass
        case _:
            return ""
    is_plain = all(not isinstance(n, ast.Call) for part in (*args, *keywords) for n in ast.walk(part))
    if not is_plain or not args or any(one.arg not in _OF_DRAW for one in keywords):
        return ""
    has_none = len(args) == 1 and isinstance(args[0], (ast.Tuple, ast.List)) and not args[0].elts
    return site.source(node) if has_none else f"{site.source(node)}.reshape(())"


def _chance(site: Site, node: ast.expr) -> _Chance | None:
    """Return what `p` or `1 - p` is, or the name of it; None where it may be a tensor, or something else."""
    match node:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=right) if dotted(right):
            inner = _chance(site, right)
            return replace(inner, is_rest=True) if inner else None
    if is_number(node):
        return _Chance("")
    if not dotted(node) or site.is_tensor(node):
        return None
    return _Chance(dotted(node), origin=_origin(site, node) or dotted(node))


def _origin(site: Site, node: ast.expr) -> str:
    """Return `self.p` of a name that is `1 - self.p`."""
    match site.value_of(node.id) if isinstance(node, ast.Name) else None:
        case ast.BinOp(left=ast.Constant(value=1), op=ast.Sub(), right=right) if isinstance(node, ast.Name):
            return dotted(right) if site.defined_before(node.id) else ""
    return ""


# -- the two results


def _value(site: Site, chance: _Chance, node: ast.expr, depth: int = _DEEPEST) -> _Value | None:
    """Return what a value is computed of; None where it may draw, keep, or raise, or have a gradient that is none."""
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right) if depth:
            return _sum(*(_value(site, chance, part, depth - 1) for part in (left, right)))
        case ast.BinOp(left=left, op=ast.Mult(), right=right) if depth:
            factor, of = (left, right) if _is_factor(site, chance, left) else (right, left)
            return _scaled(site, chance, _value(site, chance, of, depth - 1), factor)
        case ast.BinOp(left=left, op=ast.Div(), right=right) if depth:
            return _scaled(site, chance, _value(site, chance, left, depth - 1), right, is_divisor=True)
        case ast.UnaryOp(op=ast.USub(), operand=operand) if depth:
            return _value(site, chance, operand, depth - 1)
    if not dotted(node) or _is_factor(site, chance, node):
        return None
    return _Value(frozenset({dotted(node)}))


def _sum(one: _Value | None, other: _Value | None) -> _Value | None:
    if one is None or other is None:
        return None
    return _Value(
        one.tensors | other.tensors,
        one.chances | other.chances,
        one.divisors | other.divisors,
        one.is_float or other.is_float,
    )


def _scaled(
    site: Site, chance: _Chance, value: _Value | None, factor: ast.expr, *, is_divisor: bool = False
) -> _Value | None:
    """Return a value that is multiplied, or divided, by a number."""
    if value is None or not _is_factor(site, chance, factor):
        return None
    number = sides.without_sign(factor)
    if isinstance(number, ast.Constant):
        is_float = value.is_float or is_divisor or isinstance(number.value, float)
        is_zero = is_divisor and not number.value
        return None if is_zero else _Value(value.tensors, value.chances, value.divisors, is_float)
    by = frozenset({found}) if (found := _chance(site, factor)) else frozenset()
    return _Value(
        value.tensors, value.chances | by, value.divisors | (by if is_divisor else set()), value.is_float or is_divisor
    )


def _is_factor(site: Site, chance: _Chance, node: ast.expr) -> bool:
    """Return whether a value is a number that is finite wherever `0 < p < 1`: `p`, `1 - p`, or written out."""
    match sides.without_sign(node):
        case ast.Constant(value=bool()):
            return False
        case ast.Constant(value=int() | float() as number):
            return number == 0 or _LEAST < abs(number) < _MOST
    found = _chance(site, node)
    return found is not None and bool(chance.of) and found.origin == chance.origin
