"""The assignments in a branch or a loop, and what of them may be computed elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted

OPERATORS = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/",
    ast.Pow: "**", ast.MatMult: "@", ast.FloorDiv: "//", ast.Mod: "%",
}  # fmt: skip
_ERRONEOUS = (ast.FloorDiv, ast.Mod)  # of ints, by 0
_DIVISIONS = (ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)
_EFFECTS = frozenset({
    "append", "extend", "insert", "pop", "remove", "clear", "update", "setdefault", "add_module", "write", "print",
    "log", "debug", "info", "warning", "error", "warn", "item", "tolist", "numpy", "open", "next", "input", "exec",
    "eval", "setattr", "delattr", "backward", "step", "zero_grad", "dropout", "bernoulli",
})  # fmt: skip
# What these give shares memory with what they are called on, or may.
_SHARING = frozenset({
    "view", "reshape", "t", "transpose", "permute", "squeeze", "unsqueeze", "expand", "flatten", "select", "detach",
    "contiguous", "to", "float", "double", "half", "type_as",
})  # fmt: skip
# Functions that give no number, or an error, for some arguments: a test in front of them may be there for that.
_PARTIAL = frozenset({
    "div", "log", "log1p", "masked_select", "pow", "reciprocal", "rsqrt", "sqrt", "norm", "std", "acos", "asin", "tan",
})  # fmt: skip
_READING = frozenset({
    "item", "tolist", "float", "int", "bool", "len", "abs", "size", "dim", "numel", "isinstance", "hasattr", "min",
    "max", "sum", "any", "all", "finfo", "iinfo", "round",
})  # fmt: skip
_DRAWING = frozenset({
    "normal", "normal_", "multinomial", "poisson", "alpha_dropout", "feature_dropout", "feature_alpha_dropout",
    "dropout1d", "dropout2d", "dropout3d", "rrelu", "gumbel_softmax", "scaled_dot_product_attention",
})  # fmt: skip
_ABOVE_ZERO = frozenset({"log", "log1p", "reciprocal", "rsqrt", "sqrt"})  # finite for any above 0
_ERRORS = frozenset({"masked_select"})  # what is an error for some arguments, or has another shape
_SETTING = (ast.Constant, ast.Tuple, ast.List, ast.UnaryOp, ast.USub, ast.Load)
_NOT_IN_COND = (ast.Constant, ast.Tuple, ast.List, ast.Dict, ast.Lambda, ast.JoinedStr, ast.BoolOp, ast.IfExp)
_MOST_NAMES = 50


class Assignment(Struct, frozen=True):
    """A name that is assigned a value, or changed by an operator and a value; without a name a value alone."""

    name: str
    value: ast.expr
    operator: type[ast.operator] | None = None

    @property
    def computed(self) -> ast.expr:
        """What the name is from then on."""
        return ast.BinOp(ast.Name(self.name), self.operator(), self.value) if self.operator else self.value


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
    return one.name not in _names_in(one.computed) or site.is_tensor(ast.Name(one.name))


def is_simple_value(node: ast.expr) -> bool:
    """Return whether a value may be computed though it is not needed, and is a tensor or a number."""
    if isinstance(node, ast.Constant) or syntax.is_number(node):
        return syntax.is_number(node)
    match node:
        case ast.Call(func=function, args=args, keywords=keywords):
            owner = [function.value] if isinstance(function, ast.Attribute) else []
            parts = [*args, *(k.value for k in keywords), *owner]
            settings = [n for n in parts if all(isinstance(inner, _SETTING) for inner in ast.walk(n))]
            return syntax.is_pure_call(node) and all(n in settings or is_simple_value(n) for n in parts)
        case ast.BinOp(left=left, right=right):
            return is_simple_value(left) and is_simple_value(right)
        case ast.UnaryOp(op=op, operand=operand):
            return not isinstance(op, ast.Not) and is_simple_value(operand)
        case ast.Subscript(value=value):
            return is_simple_value(value) and not any(isinstance(n, (ast.Call, ast.Compare)) for n in ast.walk(node))
    return bool(dotted(node))


def is_guarded(
    site: Site, test: ast.expr, values: Sequence[Assignment], *, but: Sequence[ast.AST] = (), only_errors: bool = False
) -> bool:
    """Return whether a test may guard a value against being computed: it asks for what that divides or selects by.

    Args:
        site: where they stand.
        test: what decides.
        values: what it decides about.
        but: parts of them that nothing need guard.
        only_errors: look for what is an error then, not for what is no number.

    """
    asked, name = _made_of(site, [test]) - _counted_only(site, test), _above_zero(test)
    risks = (risk for one in values for risk in _risks(one.computed, name, only_errors=only_errors))
    return any(_made_of(site, [risk]) & asked for risk in risks if risk not in but)


def _counted_only(site: Site, test: ast.expr) -> set[str]:
    """Return what loops count with, where a test takes elements by that alone: it asks for none of these numbers."""
    loops = (one for one in site.around if isinstance(one, ast.For))
    counts = {n.id for one in loops for n in ast.walk(one.target) if isinstance(n, ast.Name)}
    inside = {n for one in ast.walk(test) if isinstance(one, ast.Subscript) for n in ast.walk(one.slice)}
    return counts - {n.id for n in ast.walk(test) if isinstance(n, ast.Name) and n not in inside}


def kept_above(site: Site, test: ast.expr, one: Assignment) -> list[tuple[ast.expr, ast.expr, str]]:
    """Return the roots and logarithms of what a test finds above a number, with what they are of, and that kept there.

    `loss.clamp(min=1).sqrt()` is the same where `loss > 1`, and has a number, and a gradient, everywhere else.
    """
    name = "" if one.operator else _above_zero(test)  # what is changed in place is none that `clamp` could go back to
    bound = site.source(test.comparators[0]) if name and isinstance(test, ast.Compare) else ""
    found: list[tuple[ast.expr, ast.expr, str]] = []
    for node in ast.walk(one.value):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name(id=of) as inner), args=[]) if of == name != "":
                pass
            case ast.Call(args=[ast.Name(id=of) as inner]) if of == name != "" and syntax.of_torch(node):
                pass
            case _:
                continue
        if called(node) in _ABOVE_ZERO:
            found.append((node, inner, f"{name}.clamp(min={bound})"))
    return found


def _above_zero(test: ast.expr) -> str:
    """Return the tensor that a test compares with a number above 0: its zeros are not what that test is there for."""
    match test:
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Gt() | ast.GtE()], comparators=[ast.Constant(value=number)]):
            return name if isinstance(number, (int, float)) and number > 0 else ""
    return ""


def _divides_by(node: ast.AST, name: str) -> bool:
    """Whether it is a quotient by a name. No number is an error there: the quotient by 0 is thrown away."""
    match node:
        case ast.BinOp(op=ast.Div(), right=ast.Name(id=divisor)):
            return divisor == name
    return False


def _risks(value: ast.expr, above_zero: str, *, only_errors: bool = False) -> list[ast.AST]:
    """Return what a value is not computed for whatever it is."""
    found: list[ast.AST] = []
    divisions, partial = (_ERRONEOUS, _ERRORS) if only_errors else (_DIVISIONS, _PARTIAL)
    for node in ast.walk(value):
        if isinstance(node, ast.BinOp) and isinstance(node.op, divisions) and not _divides_by(node, above_zero):
            found += [node.left, node.right] if isinstance(node.op, ast.Pow) else [node.right]
        elif isinstance(node, ast.Subscript):
            found.append(node.slice)
        elif called(node) in partial:
            found.append(node)
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


def new_value(site: Site, one: Assignment, changes: Sequence[Change] = ()) -> str:
    """Return what a name has after an assignment, as an expression; with parts of it changed."""
    text = _as_no_leaf(site, one.value) or site.source(one.value, changes)
    if one.operator is None:
        return text
    closed = isinstance(one.value, (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript))
    return f"{one.name} {OPERATORS[one.operator]} {text if closed else f'({text})'}"


def _as_no_leaf(site: Site, value: ast.expr) -> str:
    """Return `torch.zeros_like(x, requires_grad=True)` without that: what is chosen has a gradient; empty of others."""
    match value:
        case ast.Call(func=function, args=args, keywords=words) if syntax.of_torch(value):
            others = [word for word in words if word.arg != "requires_grad"]
            given = [*map(site.source, args), *(f"{word.arg}={site.source(word.value)}" for word in others)]
            return f"{site.source(function)}({', '.join(given)})" if len(others) < len(words) else ""
        case ast.Call(func=ast.Attribute(value=inner, attr="requires_grad_"), args=[], keywords=[]):
            return site.source(inner)
    return ""


def runs_in_cond(node: ast.expr) -> bool:
    """Return whether a value may be computed inside of torch.cond: it changes nothing in place and is one tensor."""
    is_never = isinstance(node, _NOT_IN_COND) or syntax.is_number(node)
    if is_never or (isinstance(node, ast.Call) and syntax.gives_several(node)):
        return False
    return all(called(call) and not has_effect(call) for call in syntax.calls_in(node))


def has_effect(call: ast.Call) -> bool:
    """Return whether a call does more than to compute a value, by its name: it writes, or draws random numbers."""
    name = called(call)
    is_random = name.startswith("rand") or "random" in dotted(call.func).split(".")
    in_place = syntax.writes(call) or (name.endswith("_") and not name.endswith("__"))
    return is_random or in_place or name in _EFFECTS


def does_more(call: ast.Call) -> bool:
    """Return the same, where a logarithm is known from a message: `math.log(2)`, `x.log()`."""
    is_of_numbers = isinstance(call.func, ast.Attribute) and dotted(call.func.value) in ("math", "np", "numpy", "torch")
    is_logarithm = called(call) == "log" and (is_of_numbers or (syntax.is_method(call) and not call.args))
    return has_effect(call) and not is_logarithm


def is_repeatable(site: Site, node: ast.expr) -> bool:
    """Return whether to compute a value once more, or once less, changes nothing: no call draws a number, or counts."""
    if any(isinstance(n, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)) for n in ast.walk(node)):
        return False
    return all(_is_repeatable(site, call) for call in syntax.calls_in(node))


def _is_repeatable(site: Site, call: ast.Call) -> bool:
    if syntax.is_pure_call(call) or (called(call) in _READING and not dotted(call.func).startswith("self.")):
        return True
    is_of_tensor = isinstance(call.func, ast.Attribute) and site.is_tensor(call.func.value)
    is_known = syntax.of_torch(call) or is_of_tensor
    return is_known and not has_effect(call) and called(call) not in _DRAWING


def as_function(
    site: Site, name: str, operands: list[str], body: list[Assignment], targets: list[str]
) -> Iterator[str]:
    """Yield the lines of a function for torch.cond or while_loop; for the target "" it returns the one value."""
    yield f"def {name}({', '.join(operands)}):"
    for one in body:
        text = new_value(site, one)
        # torch.cond refuses what shares memory with an operand
        fresh = one.operator or isinstance(one.value, (ast.BinOp, ast.UnaryOp, ast.Compare))
        if isinstance(one.value, ast.Call):
            fresh = called(one.value) not in _SHARING
        yield f"    {f'{one.name} =' if one.name else 'return'} {text if fresh else f'{text}.clone()'}"
    if targets != [""]:
        yield f"    return {', '.join(t if body else f'{t}.clone()' for t in targets)}"


def as_tuple(names: Sequence[str]) -> str:
    """Return a tuple of names as Python writes it."""
    return f"({', '.join(names)}{',' if len(names) == 1 else ''})"
