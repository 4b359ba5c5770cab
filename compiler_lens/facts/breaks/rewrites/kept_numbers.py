"""Numbers of tensors that a program computes on with: tensors without dimensions do, where a trial shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, parameters
from compiler_lens.recording.model import BreakCause

_PRICE = "what asks for the number gets a tensor without dimensions, which prints as one, and which JSON does not take"
_OF_MATH = "; where `math` raises an error, torch gives nan or infinity"
_MATH = frozenset({"cos", "exp", "isfinite", "isinf", "isnan", "log", "log10", "log2", "sin", "sqrt", "tan", "tanh"})
_DOUBLE = f"{_PRICE}; it is of float64, as the number was"
_NUMPY = frozenset({"np", "numpy"})


def kept_in_tensor(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `x.detach()` for `x.item()` where the number is given on, or kept."""
    return _kept(site, ".detach()", _PRICE)


def kept_as_double(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write the same with as many digits as Python's number has."""
    return _kept(site, ".detach().double()", _DOUBLE)


def largest_kept(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `torch.where` for `best = max(best, x.item())`: Python's `max` keeps the first, also before a nan."""
    match site.statement:
        case ast.Assign(targets=[target], value=ast.Call(func=ast.Name(id="max" | "min" as name), args=[one, other])):
            tensors = [_tensor_of(one), _tensor_of(other)]
        case _:
            return None
    tensor = next((found for found in tensors if found is not None), None)
    if tensor is None or None not in tensors or not dotted(target):
        return None
    value = site.free("value")
    first, second = (
        site.source(node) if found is None else value for node, found in zip((one, other), tensors, strict=True)
    )
    lines = [f"{value} = {site.atom(tensor)}.detach()"]
    chosen = f"{second} {'>' if name == 'max' else '<'} {first}, {second}, {first}"
    return site.rewrite([*lines, f"{dotted(target)} = {site.torch}.where({chosen})"], _PRICE)


def _tensor_of(node: ast.AST) -> ast.expr | None:
    """Return the tensor of `x.item()` and `float(x)`."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
            return inner
        case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]):
            return inner
    return None


def element_of_table(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `torch.as_tensor(table)[t]` for `float(table[t])` of a table of NumPy's, which a graph has as a tensor."""
    if not isinstance(site.statement, (ast.Return, ast.Assign, ast.AugAssign)):
        return None
    changes: list[Change] = []
    for call in calls_in(site.statement):
        match call:
            case ast.Call(func=ast.Name(id="float"), args=[ast.Subscript(value=table, slice=place)], keywords=[]) if (
                _is_of_numpy(site, table)
            ):
                changes.append((call, f"{site.torch}.as_tensor({site.source(table)})[{site.source(place)}]"))
                changes += _beside(site, call)
    functions = list(_of_math(site, [node for node, _ in changes]))
    return site.edit([*changes, *functions], _DOUBLE + (_OF_MATH if functions else "")) if changes else None


def function_of_element(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `torch.sqrt(1 - a)` for `math.sqrt(1 - a)` of what is a tensor without dimensions now."""
    names = [n for n in ast.walk(site.statement) if isinstance(n, ast.Name) and _is_element(site, n.id)]
    functions = list(_of_math(site, names))
    return site.edit(functions, _DOUBLE + _OF_MATH) if functions else None


def _is_element(site: Site, name: str) -> bool:
    """Whether a name is an element of a table that was made a tensor."""
    value = site.value_of(name)
    parts = [value.body, value.orelse] if isinstance(value, ast.IfExp) else [value]
    return any(
        isinstance(one, ast.Subscript) and isinstance(one.value, ast.Call) and called(one.value) == "as_tensor"
        for one in parts
    )


def _beside(site: Site, call: ast.Call) -> Iterator[Change]:
    """Yield the plain number that a line has in place of an element, as a tensor like one."""
    match site.parents().get(call):
        case ast.IfExp(body=one, orelse=other):
            number = other if one is call else one
            if isinstance(number, ast.Constant) and isinstance(number.value, (int, float)):
                yield number, f"{site.torch}.tensor({float(number.value)}, dtype={site.torch}.float64)"


def _is_of_numpy(site: Site, node: ast.expr) -> bool:
    """Whether all that a name or an attribute is assigned in the file is computed by NumPy."""
    name, tree = dotted(node), parsed(site.text)
    assigned = [one for one in ast.walk(tree) if isinstance(one, ast.Assign)] if tree and name else []
    values = [one.value for one in assigned if any(dotted(target) == name for target in one.targets)]
    return bool(values) and all(
        any(dotted(call.func).split(".")[0] in _NUMPY for call in calls_in(value)) for value in values
    )


def _kept(site: Site, written: str, price: str) -> Rewrite | None:
    if not isinstance(site.statement, (ast.Return, ast.Assign, ast.AugAssign)):
        return None
    if any(isinstance(n, ast.Subscript) and _is_of_numpy(site, n.value) for n in ast.walk(site.statement)):
        return None  # no tensor
    changes: list[Change] = []
    others: list[Change] = []  # of which it does not show that they are of tensors
    for call in calls_in(site.statement):
        match call:
            case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
                changes.append((call, f"{site.atom(inner)}{written}{_copied(site, inner)}"))
            case ast.Call(func=ast.Name(id="float"), args=[inner], keywords=[]) if not _has_item(inner):
                is_sure = site.is_tensor(inner)
                (changes if is_sure else others).append((call, f"{site.atom(inner)}{written}{_copied(site, inner)}"))
            case ast.Call(func=ast.Name(id="divmod" | "int" | "round" | "str" | "format" | "print")):
                return None
    if not changes and len(others) == 1:  # torch says that one is
        changes = others
    functions = list(_of_math(site, [node for node, _ in changes]))
    is_text = any(isinstance(n, (ast.JoinedStr, ast.Slice)) for n in ast.walk(site.statement))
    return None if is_text else site.edit([*changes, *functions], price + (_OF_MATH if functions else ""))


def _copied(site: Site, tensor: ast.expr) -> str:
    """Return what copies a tensor that others hold: a parameter has another value after the next step."""
    value = site.value_of(tensor.id) if isinstance(tensor, ast.Name) else None
    is_given = isinstance(tensor, ast.Name) and site.function is not None and tensor.id in parameters(site.function)
    is_held = any(isinstance(one, (ast.Attribute, ast.Subscript)) for one in (tensor, value))
    return ".clone()" if is_given or is_held else ""


def _of_math(site: Site, numbers: Sequence[ast.AST]) -> Iterator[Change]:
    """Yield functions of `math` that are asked for what is computed of numbers, as those of torch."""
    found: dict[ast.expr, str] = {}
    for number in numbers:
        node = site.parents().get(number)
        while isinstance(node, (ast.BinOp, ast.UnaryOp, ast.Call)):
            match node:
                case ast.Call(func=function, args=[_], keywords=[]) if _is_of_math(function):
                    found[function] = f"{site.torch}.{called(node)}"
                case ast.Call():
                    break
            node = site.parents().get(node)
    yield from found.items()


def _is_of_math(function: ast.expr) -> bool:
    module, _, name = dotted(function).rpartition(".")
    return module == "math" and name in _MATH


def _has_item(node: ast.expr) -> bool:
    return any(isinstance(call.func, ast.Attribute) and call.func.attr == "item" for call in calls_in(node))
