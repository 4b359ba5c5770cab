"""The assignments in a branch or a loop, and what of them may be computed elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, gives_several, is_number, is_pure_call

OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Pow: "**", ast.MatMult: "@", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip

_EFFECTS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add_module", "write", "print",
    "log", "debug", "info", "warning", "error", "warn", "item", "tolist", "numpy", "open", "next", "input", "exec",
    "eval", "setattr", "delattr", "backward", "step", "zero_grad",
})  # fmt: skip
# What these give shares memory with what they are called on, or may.
_SHARING = frozenset({
    "view", "reshape", "t", "transpose", "permute", "squeeze", "unsqueeze", "expand", "flatten", "select", "detach",
    "contiguous", "to", "float", "double", "half", "type_as",
})  # fmt: skip

_MOST_NAMES = 50


class Assignment(Struct, frozen=True):
    """A name that is assigned a value, or changed by an operator and a value."""

    name: str
    value: ast.expr
    operator: type[ast.operator] | None = None


def assignments(body: Sequence[ast.stmt]) -> list[Assignment] | None:
    """Return the assignments that some statements are; None where one is another, or a name is assigned twice."""
    found: list[Assignment] = []
    for statement in body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found.append(Assignment(name, value))
            case ast.AugAssign(target=ast.Name(id=name), op=op, value=value) if type(op) in OPERATORS:
                found.append(Assignment(name, value, type(op)))
            case _:
                return None
    return found if len({a.name for a in found}) == len(found) else None


def stays_tensor(site: Site, one: Assignment) -> bool:
    """Return whether a count in Python, such as `n += 1`, does not become a tensor."""
    counts = one.operator or any(n.id == one.name for n in ast.walk(one.value) if isinstance(n, ast.Name))
    return not counts or site.is_tensor(ast.Name(one.name))


def is_simple_value(node: ast.expr) -> bool:
    """Return whether a value may be computed though it is not needed, and is a tensor or a number."""
    match node:
        case ast.Constant():
            return is_number(node)
        case ast.Call(func=function, args=args, keywords=keywords):
            owner = [function.value] if isinstance(function, ast.Attribute) else []
            parts = [*args, *(k.value for k in keywords), *owner]
            return is_pure_call(node) and all(is_simple_value(n) or _is_setting(n) for n in parts)
        case ast.BinOp(left=left, right=right):
            return is_simple_value(left) and is_simple_value(right)
        case ast.UnaryOp(op=op, operand=operand):
            return not isinstance(op, ast.Not) and is_simple_value(operand)
        case ast.Subscript(value=value):
            return is_simple_value(value) and not any(isinstance(n, (ast.Call, ast.Compare)) for n in ast.walk(node))
    return bool(dotted(node))


# Functions that give no number, or an error, for some arguments: a test in front of them may be there for that.
_PARTIAL = frozenset({
    "div", "log", "log1p", "masked_select", "pow", "reciprocal", "rsqrt", "sqrt", "norm", "std", "acos", "asin", "tan",
})  # fmt: skip
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def is_guarded(site: Site, test: ast.expr, values: Sequence[ast.expr | Assignment]) -> bool:
    """Return whether a test may guard a value against being computed: it asks for what that divides or selects by."""
    asked = _made_of(site, [test])
    return any(_made_of(site, _risks(value, _above_zero(test))) & asked for value in values)


def zero_divisor(test: ast.expr, values: Sequence[ast.expr | Assignment]) -> str:
    """Return what is assumed where a value divides by what the test finds above a number: `norm` in `norm > 1.0`."""
    name = _above_zero(test)
    found = any(_divided_by(value, name) for value in values)
    return f"no gradient is taken through it where `{name}` is 0" if found else ""


def _above_zero(test: ast.expr) -> str:
    """Return the tensor that a test compares with a number above 0: its zeros are not what that test is there for."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Gt() | ast.GtE()], comparators=[ast.Constant(value=number)]):
            return name if isinstance(number, (int, float)) and number > 0 else ""
    return ""


def _divided_by(value: ast.expr | Assignment, name: str) -> list[ast.Name]:
    """Return where a value divides by a name. No number is an error there: the quotient by 0 is thrown away."""
    found = [value.value] if isinstance(value, Assignment) and value.operator is ast.Div else []
    nodes = ast.walk(value.value if isinstance(value, Assignment) else value)
    found += [n.right for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    return [divisor for divisor in found if isinstance(divisor, ast.Name) and divisor.id == name]


def _risks(value: ast.expr | Assignment, above_zero: str) -> list[ast.AST]:
    """Return what a value is not computed for whatever it is."""
    safe = _divided_by(value, above_zero)
    found: list[ast.AST] = []
    if isinstance(value, Assignment):
        if value.operator in _DIVISIONS and value.value not in safe:
            found += [ast.Name(value.name), value.value] if value.operator is ast.Pow else [value.value]
        value = value.value
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and node.right in safe:
            continue
        if isinstance(node, ast.BinOp) and isinstance(node.op, _DIVISIONS):
            found += [node.left, node.right] if isinstance(node.op, ast.Pow) else [node.right]
        elif isinstance(node, ast.Subscript):
            found += [node.slice]
        elif called(node) in _PARTIAL:
            found += [node]
    return found


def _made_of(site: Site, nodes: Sequence[ast.AST]) -> set[str]:
    """The names in some expressions, and in what these names are assigned."""
    found: set[str] = set()
    left = [name for node in nodes for name in _names_in(node)]
    while left and len(found) < _MOST_NAMES:
        name = left.pop()
        if name in found or name in ("torch", site.torch, "F"):
            continue
        found.add(name)
        value = site.value_of(name)
        left += _names_in(value) if value else ()
    return found


@lru_cache(maxsize=256)
def _names_in(node: ast.AST) -> tuple[str, ...]:
    return tuple(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def _is_setting(node: ast.expr) -> bool:
    kinds = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.Load)
    return all(isinstance(n, kinds) for n in ast.walk(node))


def new_value(site: Site, one: Assignment) -> str:
    """Return what a name has after an assignment, as an expression."""
    text = site.source(one.value)
    if one.operator is None:
        return text
    closed = isinstance(one.value, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript))
    return f"{one.name} {OPERATORS[one.operator]} {text if closed else f'({text})'}"


def runs_in_cond(node: ast.expr) -> bool:
    """Return whether a value may be computed inside of torch.cond: it changes nothing in place and is one tensor."""
    kinds = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Lambda, ast.JoinedStr, ast.BoolOp, ast.IfExp)
    if isinstance(node, kinds) or (isinstance(node, ast.Call) and gives_several(node)):
        return False
    return not any(map(_has_effect, calls_in(node)))


def _has_effect(call: ast.Call) -> bool:
    name = called(call)
    random = name.startswith("rand") or "random" in dotted(call.func).split(".") or name in ("dropout", "bernoulli")
    writes = any(k.arg in ("inplace", "out") for k in call.keywords)
    return not name or random or writes or name in _EFFECTS or (name.endswith("_") and not name.endswith("__"))


def as_function(
    site: Site, name: str, operands: list[str], body: list[Assignment], targets: list[str]
) -> Iterator[str]:
    """Yield the lines of a function for torch.cond or while_loop; for the target "" it returns the one value."""
    yield f"def {name}({', '.join(operands)}):"
    if targets == [""]:
        yield f"    return {_own(site, body[0])}"
        return
    for one in body:
        yield f"    {one.name} = {_own(site, one)}"
    yield f"    return {', '.join(t if body else f'{t}.clone()' for t in targets)}"


def _own(site: Site, one: Assignment) -> str:
    """Return a value that shares no memory with an operand: torch.cond refuses those that do."""
    text = new_value(site, one)
    fresh = one.operator or isinstance(one.value, (ast.BinOp, ast.UnaryOp, ast.Compare))
    if isinstance(one.value, ast.Call):
        fresh = called(one.value) not in _SHARING
    return text if fresh else f"{text}.clone()"


def as_tuple(names: Sequence[str]) -> str:
    """Return a tuple of names as Python writes it."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
