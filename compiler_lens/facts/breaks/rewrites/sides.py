"""What two values have to have in common so that torch.where chooses as a branch does, and what it changes."""

from __future__ import annotations

import ast
import struct
from collections.abc import Iterator, Sequence
from itertools import pairwise

from compiler_lens.facts.breaks.rewrites import memory, syntax
from compiler_lens.facts.breaks.rewrites.assignments import Assignment
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, of_torch

_CASTS = frozenset({"half", "float", "double", "bfloat16", "int", "long", "bool", "to", "type", "type_as"})
_RESHAPING = frozenset({
    "cat", "diagonal", "expand", "flatten", "gather", "index_select", "masked_select", "permute", "repeat", "reshape",
    "select", "squeeze", "stack", "t", "transpose", "unsqueeze", "view",
})  # fmt: skip
_REDUCING = frozenset({
    "all", "amax", "amin", "any", "argmax", "argmin", "logsumexp", "max", "mean", "median", "min", "norm", "prod",
    "std", "sum", "var",
})  # fmt: skip
# Their gradients are finite whatever their arguments are.
_FINITE = (_RESHAPING - {"masked_select"}) | (_CASTS - {"type"}) | {
    "add", "clamp", "clone", "contiguous", "cumsum", "detach", "flip", "full_like", "masked_fill", "mean", "neg",
    "ones_like", "relu", "sub", "sum", "tril", "triu", "zeros_like",
}  # fmt: skip
_MOST_READS = 16
_DEEPEST = 30
_FOLLOWED = 2  # assignments that a value is followed through
_SMALLEST_HALF, _LARGEST_HALF = 2**-14, 65504  # that float16 has all digits of

NAN = "gradients are nan where the side that is not chosen has no finite value or slope"
_ZEROS = "what only one side uses has a gradient of zeros, not none, where the other is chosen"


def joined(*needs: str) -> str:
    """Return several conditions as one, each said once."""
    return "; ".join(dict.fromkeys(one for said in needs for one in said.split("; ") if one))


def fit(site: Site, values: Sequence[Assignment], at: ast.expr | None = None) -> bool:
    """Return whether values can be chosen between, as far as their text shows that they cannot.

    Args:
        site: the statement that chooses.
        values: what it chooses from.
        at: the expression that chooses; else what is chosen is returned, or has their name.

    """
    for one, other in pairwise(values):
        a, b = one.computed, other.computed
        are_tensors = not is_number(site, a) and not is_number(site, b)
        if are_tensors and (_cast(site, a) != _cast(site, b) or _are_of_two(site, a, b)):
            return False
        of_one, of_other = _shape(a), _shape(b)
        if of_one[0] and of_one[0] == of_other[0] and of_one[1] != of_other[1]:
            return False
    names = {one.name for one in values}
    numbers = [is_number(site, one.computed) for one in values]
    if all(numbers) and len({_kind(site, one.computed) for one in values}) > 1:
        return False  # torch makes floats of both: a tensor of integers is then another's dtype
    if any(site.is_tensor(one.computed) for one in values):
        return not (any(numbers) and any(map(site.escapes, names)))  # who reads it knows tensors
    # of a number others may ask what a tensor is not good for: a size, an index, a branch, a key
    if any(numbers):
        return _is_in_arithmetic(site, at) if at else all(name and _are_in_arithmetic(site, name) for name in names)
    return not (_is_stored(site, at) if at else any(_are_stored(site, name) for name in names))


def keeps_memory(site: Site, values: Sequence[Assignment], name: str) -> tuple[bool, str]:
    """Return whether a new tensor is as good as one of some values itself, and what that takes for granted.

    Args:
        site: the statement that chooses.
        values: what it chooses from.
        name: what it is called from then on; "" if it is returned.

    """
    shared = [a.value for a in values if a.operator is None and memory.may_share(site, a.value)]
    if not shared:
        return True, ""
    roots = [root for value in shared if (root := memory.root_name(value))]
    if name and memory.is_written_later(site, [name, *roots]):
        return False, ""
    if name and not memory.is_kept_later(site, name):
        return True, ""
    if name and all(root == name for root in roots) and len(roots) == len(shared):
        return True, f"`{name}` is then a new tensor in each call, not the one that it was"
    said = " or ".join(dict.fromkeys(f"`{dotted(value) or site.source(value)}`" for value in shared))
    return True, f"{f'`{name}`' if name else 'the result'} is then a new tensor, never {said} itself"


def about_numbers(site: Site, values: Sequence[Assignment]) -> str:
    """Return what becomes of plain numbers among the values: of numbers alone torch makes float32."""
    numbers = [a.value for a in values if a.operator is None and is_number(site, a.value)]
    if len(numbers) < len(values):
        return " and ".join(f"`{site.source(n)}` is then a tensor" for n in numbers)
    made = "float32" if _kind(site, numbers[0]) is float else "int64"
    meets = f"what it meets has dimensions, or at least the width of {made}"
    return joined(rounded(site, numbers), meets, *(_of_halves(site, n) for n in numbers))


def rounded(site: Site, numbers: Sequence[ast.expr]) -> str:
    """Return that numbers are rounded to float32, where they are none of it."""
    inexact = [n for n in numbers if not is_exact(n)]
    return " and ".join(f"`{site.source(n)}` is then rounded to float32" for n in inexact)


def _of_halves(site: Site, node: ast.expr) -> str:
    """Return that a number which float16 does not hold meets none: a GPU makes float16 of a tensor of it."""
    size = abs(_number(site, node))
    return "" if size == 0 or _SMALLEST_HALF <= size <= _LARGEST_HALF else f"`{site.source(node)}` meets no float16"


def is_exact(node: ast.expr) -> bool:
    """Return whether a number is the same in float32; of anything else False."""
    number = without_sign(node)
    if not isinstance(number, ast.Constant) or not isinstance(number.value, (int, float)):
        return False
    if isinstance(number.value, int):
        return True
    try:
        return bool(struct.unpack("f", struct.pack("f", number.value))[0] == number.value)
    except OverflowError:
        return False


def without_sign(node: ast.expr) -> ast.expr:
    """Return `1` of `-1`."""
    return node.operand if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.USub, ast.UAdd)) else node


def gradients(site: Site, values: Sequence[Assignment], *, but: Sequence[ast.AST] = ()) -> str:
    """Return what the gradients of the sides that are not chosen change; of parts in `but` they are finite."""
    names = [set(_names(site, one.computed)) for one in values]
    if any(a != b for a, b in pairwise(names)):
        return f"{_ZEROS}; {NAN}"  # what it was computed of may have no finite one
    return "" if all(has_finite_gradient(one.computed, but=but) for one in values) else NAN


def has_finite_gradient(  # noqa: C901 -- one for each kind of syntax
    node: ast.expr, *, but: Sequence[ast.AST] = (), depth: int = _DEEPEST
) -> bool:
    """Return whether a gradient of zeros through a value is one of zeros, whatever the value is."""
    if node in but:
        return True
    match node:
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
            parts = [left, right]
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            parts = [n for n in (left, right) if not syntax.is_number(without_sign(n))]
            if len(parts) > 1:
                return False
        case ast.BinOp(left=left, op=ast.Div(), right=right) if syntax.is_number(without_sign(right)):
            parts = [left]
        case ast.UnaryOp(operand=operand):
            parts = [operand]
        case ast.Subscript(value=value):
            parts = [value]
        case ast.Compare():
            return True
        case ast.Call(func=function, args=args) if called(node) in _FINITE:
            owner = [function.value] if isinstance(function, ast.Attribute) and not of_torch(node) else []
            parts = [*owner, *args]
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            pass
        case _:
            return bool(dotted(node)) or isinstance(node, ast.Constant)
    return depth > 0 and all(has_finite_gradient(part, but=but, depth=depth - 1) for part in parts)


def _names(site: Site, node: ast.expr) -> Iterator[str]:
    """Yield the tensors that a value is made of, as far as they are no plain numbers."""
    match node:
        case ast.Name() | ast.Attribute() if dotted(node):
            if not is_number(site, node) and dotted(node) not in ("torch", site.torch, "F"):
                yield dotted(node)
        case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=keywords):
            for part in (owner, *args, *(k.value for k in keywords)):
                yield from _names(site, part)
        case ast.Call(args=args, keywords=keywords):
            for part in (*args, *(k.value for k in keywords)):
                yield from _names(site, part)
        case ast.Subscript(value=value):
            yield from _names(site, value)
        case _:
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    yield from _names(site, child)


def is_number(site: Site, node: ast.expr) -> bool:
    """Return whether a value is a plain number, or a name of one."""
    value = _resolved(site, node)
    return value is not None and syntax.is_number(value)


def _resolved(site: Site, node: ast.expr) -> ast.expr | None:
    """Return `1` of `-1`, and of `-k` where `k = 1`."""
    node = without_sign(node)
    value = site.value_of(node.id) if isinstance(node, ast.Name) else node
    return without_sign(value) if value is not None else None


def _number(site: Site, node: ast.expr) -> float:
    """Return what `is_number` finds, without its sign."""
    value = _resolved(site, node)
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, (int, float)) else 0


def _kind(site: Site, node: ast.expr) -> type:
    return type(_number(site, node))


def _is_in_arithmetic(site: Site, node: ast.expr) -> bool:
    """Whether a value only goes into arithmetic with tensors, at once or by a name."""
    match site.parents().get(node):
        case ast.Assign(targets=[ast.Name(id=name)]):
            return _are_in_arithmetic(site, name)
    return _meets_tensor(site, node)


def _meets_tensor(site: Site, node: ast.expr) -> bool:
    match site.parents().get(node):
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() | ast.Pow(), right=right):
            return site.is_tensor(right if left is node else left)
        case ast.AugAssign(target=target, value=value):
            return value is node and site.is_tensor(target)
    return False


def _are_in_arithmetic(site: Site, name: str) -> bool:
    """Whether all that reads a name computes with it and with tensors."""
    reads = [n for n in site.loads(name) if memory.is_come_to(site, n)]
    if len(reads) > _MOST_READS or site.escapes(name):
        return False
    return all(_meets_tensor(site, read) for read in reads)


def _is_stored(site: Site, node: ast.expr, depth: int = _FOLLOWED) -> bool:
    """Whether a value, or what is computed of it, is kept where others than the function may find it."""
    child: ast.AST = node
    parent = site.parents().get(child)
    while isinstance(parent, ast.expr):
        if isinstance(parent, ast.Call):
            return called(parent) in memory.KEEPING and child is not parent.func
        child, parent = parent, site.parents().get(parent)
    match parent:
        case ast.Assign(targets=targets):
            names = [n.id for n in targets if isinstance(n, ast.Name)]
            return len(names) < len(targets) or (depth > 0 and any(_are_stored(site, n, depth - 1) for n in names))
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return not isinstance(target, ast.Name)
    return False


def _are_stored(site: Site, name: str, depth: int = _FOLLOWED) -> bool:
    reads = [n for n in site.loads(name) if memory.is_come_to(site, n)]
    return site.escapes(name) or len(reads) > _MOST_READS or any(_is_stored(site, n, depth) for n in reads)


def _cast(site: Site, node: ast.expr, depth: int = _DEEPEST) -> str:
    """Return the conversion that a value's dtype is of, as text; empty if there is none."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=keywords) if not of_torch(node):
            if called(node) in _CASTS:
                words = [*map(ast.dump, args), *(ast.dump(k) for k in keywords)]
                return " ".join([called(node), *words])
            is_same = called(node) in _RESHAPING | syntax.ELEMENTWISE
            return _cast(site, owner, depth - 1) if is_same and depth else ""
        case ast.BinOp(left=left, right=right) if depth:
            return _cast(site, right if is_number(site, left) else left, depth - 1)
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner) if depth:
            return _cast(site, inner, depth - 1)
    return ""


def _are_of_two(site: Site, one: ast.expr, other: ast.expr) -> bool:
    """Whether two values have another dtype in all that was recorded."""
    return len({_dtype(site, one), _dtype(site, other)} - {""}) > 1


_OF_CASTS = {"half": "float16", "float": "float32", "double": "float64", "bfloat16": "bfloat16"}


def _dtype(site: Site, node: ast.expr, depth: int = _DEEPEST) -> str:
    """Return the dtype of floats that a value has in all that was recorded; empty if that is not known."""
    match node:
        case ast.Name() | ast.Attribute() if name := dotted(node):
            seen = site.dtype_of(name)
            return seen if "float" in seen else ""  # what is computed of others may have another
        case ast.BinOp(left=left, right=right) if depth:
            parts = [one for one in (left, right) if not is_number(site, one)]
        case ast.UnaryOp(operand=inner) | ast.Subscript(value=inner):
            parts = [inner]
        case ast.Call(func=ast.Attribute(value=owner), args=args) if depth:
            if called(node) in _OF_CASTS and not of_torch(node):
                return _OF_CASTS[called(node)]
            is_same = called(node) in syntax.ELEMENTWISE | _RESHAPING - {"cat", "stack"}
            parts = [] if not is_same else args[:1] if of_torch(node) else [owner]
        case _:
            return ""
    found = {_dtype(site, one, depth - 1) for one in parts} if depth else set()
    return found.pop() if len(found) == 1 else ""


def _shape(node: ast.expr, depth: int = _DEEPEST) -> tuple[str, tuple[str, ...]]:
    """Return what a value is computed of, element by element, and what was done to that one's shape."""
    inner: ast.expr
    match node:
        case ast.Call(func=ast.Attribute(value=owner), args=args, keywords=keywords):
            inner, rest = (args[0], args[1:]) if of_torch(node) and args else (owner, args)
            words = "".join(map(ast.dump, [*rest, *keywords]))
            if called(node) in _REDUCING:
                done = f"reduced {words}"
            elif called(node) in _RESHAPING:
                done = f"{called(node)} {words}"
            elif called(node) in syntax.ELEMENTWISE | _CASTS | {"clone", "detach", "contiguous"}:
                done = ""
            else:
                return "", ()
        case ast.Subscript(value=inner):
            done = "indexed"
        case ast.BinOp(left=left, right=right) if syntax.is_number(without_sign(left)):
            inner, done = right, ""
        case ast.BinOp(left=left, right=right) if syntax.is_number(without_sign(right)):
            inner, done = left, ""
        case ast.UnaryOp(operand=operand):
            inner, done = operand, ""
        case _:
            return dotted(node), ()
    if not depth:
        return "", ()
    base, before = _shape(inner, depth - 1)
    return base, (*before, done) if done else before
