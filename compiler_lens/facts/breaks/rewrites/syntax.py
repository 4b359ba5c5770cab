"""What a piece of syntax is, by the names that everybody uses for torch's functions."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

Function = ast.FunctionDef | ast.AsyncFunctionDef
OF_A_GENERATOR = (ast.Yield, ast.YieldFrom, ast.Await)
SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert)  # no block of statements

# fmt: off
ELEMENTWISE = frozenset({
    "abs", "ceil", "clamp", "clamp_max", "clamp_min", "cos", "div", "double", "exp", "expm1", "float", "floor", "gelu",
    "half", "log", "log1p", "masked_fill", "mul", "nan_to_num", "neg", "pow", "reciprocal", "relu", "round", "rsqrt",
    "sigmoid", "sign", "silu", "sin", "softplus", "sqrt", "square", "tan", "tanh", "trunc",
})
_BOOLEAN = frozenset({
    "all", "any", "bool", "eq", "ge", "gt", "isclose", "isfinite", "isin", "isinf", "isnan", "le", "logical_and",
    "logical_not", "logical_or", "logical_xor", "lt", "ne",
})
_REDUCING = frozenset({
    "amax", "amin", "argmax", "argmin", "logsumexp", "max", "mean", "median", "min", "norm", "numel", "prod", "std",
    "sum", "var",
})
# Over all elements, unless `reduction` says otherwise.
LOSSES = frozenset({
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "huber_loss", "kl_div", "l1_loss",
    "mse_loss", "nll_loss", "smooth_l1_loss",
})
# Operators without side effects that give one tensor.
_PURE = ELEMENTWISE | _BOOLEAN | _REDUCING - {"numel"} | {
    "add", "bmm", "clone", "contiguous", "cumsum", "detach", "expand", "flatten", "flip", "full_like", "gather",
    "index_select", "int", "log_softmax", "long", "masked_select", "matmul", "maximum", "minimum", "mm", "ones_like",
    "permute", "repeat", "reshape", "select", "softmax", "squeeze", "stack", "sub", "t", "to", "transpose", "tril",
    "triu", "type_as", "unsqueeze", "view", "where", "zeros_like", "cat",
}
_GIVE_PAIRS = frozenset({"max", "min", "median"})  # with a dim they give values and indices
_GIVE_SEVERAL = frozenset({"topk", "sort", "split", "chunk", "unbind", "kthvalue", "mode", "tensor_split"})
# Methods that things other than tensors have too: no evidence.
_SHARED = frozenset({
    "add", "bool", "double", "expand", "float", "half", "int", "log", "repeat", "round", "select", "sub", "to",
    "view", "where",
})
OF_TENSORS = (_PURE | {"item", "nonzero", "numel"}) - _SHARED
_NO_TENSOR = frozenset({"item", "tolist", "size", "dim", "numel", "data_ptr", "float", "int", "len", "bool", "str"})
_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.JoinedStr)
_TORCH = ("torch", "th", "F", "functional", "torch.nn.functional", "nn.functional")
NOT_ON_TENSORS = (ast.Is, ast.IsNot, ast.In, ast.NotIn)
# fmt: on


def parameters(function: Function) -> tuple[str, ...]:
    """Return all parameters by name."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return tuple(a.arg for a in named if a is not None)


def called(node: ast.AST) -> str:
    """Return the last part of what a call calls, "sum" of `x.sum()` and `torch.sum(x)`; empty for anything else."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)):
            return name
    return ""


def calls_in(node: ast.AST) -> list[ast.Call]:
    """Return every call in a piece of syntax, outer ones before those inside of them."""
    return [n for n in ast.walk(node) if isinstance(n, ast.Call)]


def dotted(node: ast.AST) -> str:
    """Return `torch.nn.functional` as text; empty for anything but names and dots."""
    if isinstance(node, ast.Attribute):
        return f"{outer}.{node.attr}" if (outer := dotted(node.value)) else ""
    return node.id if isinstance(node, ast.Name) else ""


def of_torch(call: ast.Call) -> bool:
    """Return whether a call is of a function of torch's, by the names that everybody uses."""
    return isinstance(call.func, ast.Attribute) and dotted(call.func.value) in _TORCH


def is_method(call: ast.Call) -> bool:
    """Return whether a call is of a method of a value, not of a module's or of the user's own object."""
    return isinstance(call.func, ast.Attribute) and dotted(call.func.value) not in (
        "self",
        "math",
        "np",
        "numpy",
        *_TORCH,
    )


def gives_several(call: ast.Call) -> bool:
    """Return whether a call gives more than one tensor."""
    with_dim = called(call) in _GIVE_PAIRS and (len(call.args) > of_torch(call) or bool(call.keywords))
    return with_dim or called(call) in _GIVE_SEVERAL


def writes(call: ast.Call) -> bool:
    """Return whether a call writes its result to one of its arguments, as far as they say."""
    return any(k.arg in ("inplace", "out") for k in call.keywords)


def is_pure_call(call: ast.Call) -> bool:
    """Return whether a call computes one tensor and does nothing else."""
    is_known = called(call) in _PURE and (of_torch(call) or is_method(call))
    return is_known and not writes(call) and not gives_several(call)


def has_no_dimensions(node: ast.expr) -> bool:
    """Return whether an expression is a reduction over all dimensions, or a loss of torch's, or computed of these."""
    match node:
        case ast.BinOp(left=left, right=right):
            parts = [one for one in (left, right) if not is_number(one)]
            return bool(parts) and all(map(has_no_dimensions, parts))
        case ast.UnaryOp(operand=operand):
            return has_no_dimensions(operand)
    if (
        isinstance(node, ast.Call)
        and called(node) in LOSSES
        and dotted(node.func).split(".")[0] in {"F", "torch", "nn"}
    ):
        return not any(one.arg in {"reduction", None} for one in node.keywords)
    reduced = isinstance(node, ast.Call) and is_method(node) and not node.args and not node.keywords
    return reduced and called(node) in _REDUCING | {"any", "all"}


def is_new_tensor(node: ast.expr) -> bool:
    """Return whether an expression, if it is a tensor, has memory of its own: no view, and no tensor as it was."""
    if isinstance(node, (ast.BinOp, ast.Compare, ast.UnaryOp)):
        return True
    computed = _REDUCING | _BOOLEAN | ELEMENTWISE - {"double", "float", "half"} - {"bool"}
    return isinstance(node, ast.Call) and called(node) in computed and is_pure_call(node)


def loads(tree: ast.AST, name: str) -> list[ast.Name]:
    """Return where a name is read."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


_NUMBERS = frozenset({"e", "inf", "nan", "pi"})


def is_number(node: ast.AST) -> bool:
    """Return whether an expression is a plain number, as it is written: `2`, `float("nan")`, `math.inf`."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, (int, float)) and not isinstance(value, bool)
        case ast.Call(func=ast.Name(id="float"), args=[ast.Constant()], keywords=[]):
            return True
        case ast.Attribute(value=ast.Name(id="math" | "torch" | "np" | "numpy"), attr=name):
            return name in _NUMBERS
    return False


def is_text(one: ast.stmt) -> bool:
    """Return whether a statement is a text by itself, as a docstring is."""
    return isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant)


def is_boolean(node: ast.expr) -> bool:
    """Return whether an expression on tensors is a tensor of bools."""
    match node:
        case ast.Compare(ops=[op]):
            return not isinstance(op, NOT_ON_TENSORS)
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return is_boolean(left) and is_boolean(right)
        case ast.UnaryOp(op=ast.Invert(), operand=operand):
            return is_boolean(operand)
        case ast.Call():
            return called(node) in _BOOLEAN and is_pure_call(node)
    return False


def tensor_names(
    tree: ast.AST,
    candidates: frozenset[str],
    seen: frozenset[str] = frozenset(),
    arrays: frozenset[str] = frozenset(),
) -> frozenset[str]:
    """Return those of some names that are tensors for sure, by how a function declares, makes and uses them.

    Those that are `seen` were tensors whenever torch compiled the function; `arrays` may be NumPy's, which have most of
    a tensor's methods.
    """
    found: set[str] = set(seen)
    assigned: list[tuple[str, ast.expr]] = []
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as kind):
                words = [getattr(n, key, "") for n in ast.walk(kind) for key in ("id", "attr", "value")]
                found |= {name for word in words if isinstance(word, str) and "Tensor" in word}
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method)) if method in OF_TENSORS:
                found.add(name)
            case ast.Call(func=ast.Attribute(ast.Compare(ast.Name(id=name), _, others), method)):  # (x > 3).any()
                found |= {name} if method in OF_TENSORS and all(map(is_number, others)) else set()
            case ast.Assign(value=value):
                assigned += [(target, value) for target in targets(node)]
    for target, value in assigned * 2:  # a name may be made of names that come later in the text
        with suppress(RecursionError):  # nested deeper than Python's stack
            if target not in found and is_tensor(value, found - arrays, arrays):
                found.add(target)
    no_tensors = {target for target, value in assigned if called(value) in _NO_TENSOR or isinstance(value, _LITERALS)}
    return frozenset(found & candidates) - no_tensors - arrays - {"self", "cls"}


def is_tensor(  # noqa: PLR0911 -- one for each kind of syntax
    node: ast.expr, names: AbstractSet[str], arrays: AbstractSet[str] = frozenset()
) -> bool:
    """Return whether an expression is a tensor for sure, where some names are, and others may be arrays."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Call):
        owner = node.func.value if isinstance(node.func, ast.Attribute) else node.func
        if arrays and not of_torch(node) and _first_name(owner) in arrays:
            return False
        is_self = owner is not node.func and dotted(owner) == "self"
        by_self = is_self and any(is_tensor(one, names, arrays) for one in node.args)
        is_shared = called(node) in _SHARED and not is_tensor(owner, names, arrays)
        is_known = of_torch(node) or (is_method(node) and not is_shared)
        return by_self or (called(node) in _PURE and is_known)
    if isinstance(node, ast.BinOp):
        return is_tensor(node.left, names, arrays) or is_tensor(node.right, names, arrays)
    if isinstance(node, ast.Compare):
        return any(is_tensor(part, names, arrays) for part in (node.left, *node.comparators))
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and is_tensor(node.operand, names, arrays)
    return isinstance(node, ast.Subscript) and is_tensor(node.value, names, arrays)


def _first_name(node: ast.AST) -> str:
    """Return `x` of `x.abs().T[0]`."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def indices(part: ast.Subscript) -> Sequence[ast.expr]:
    """Return what a part is taken by, one for each dimension that is named: `i` and `:n` of `x[i, :n]`."""
    return part.slice.elts if isinstance(part.slice, ast.Tuple) else [part.slice]


def stored(node: ast.AST) -> set[str]:
    """Return the names that are assigned in a statement, or in several under one."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def pairs(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return each target of an assignment with what it is given, as far as the text shows that of a tuple."""
    match target, value:
        case ast.Tuple(elts=several), ast.Tuple(elts=values):
            return list(zip(several, values, strict=True)) if len(several) == len(values) else []
        case ast.Tuple(), _:
            return []
    return [(target, value)]


def targets(assign: ast.Assign) -> list[str]:
    """Return the names that are assigned alone."""
    return [t.id for t in assign.targets if isinstance(t, ast.Name)]
