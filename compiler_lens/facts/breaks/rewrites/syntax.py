"""What a piece of syntax is, by the names that everybody uses for torch's functions."""

from __future__ import annotations

import ast
from collections.abc import Set as AbstractSet

Function = ast.FunctionDef | ast.AsyncFunctionDef

# fmt: off
_ELEMENTWISE = frozenset({
    "abs", "ceil", "clamp", "cos", "div", "double", "exp", "expm1", "float", "floor", "gelu", "half", "log1p", "log",
    "masked_fill", "mul", "neg", "pow", "reciprocal", "relu", "round", "rsqrt", "sigmoid", "sign", "silu", "sin",
    "softplus", "sqrt", "square", "tan", "tanh", "trunc",
})
BOOLEAN = frozenset({
    "all", "any", "bool", "eq", "ge", "gt", "isclose", "isfinite", "isin", "isinf", "isnan", "le", "logical_and",
    "logical_not", "logical_or", "logical_xor", "lt", "ne",
})
_REDUCING = frozenset({
    "amax", "amin", "argmax", "argmin", "logsumexp", "max", "mean", "median", "min", "norm", "numel", "prod", "std",
    "sum", "var",
})
# Operators without side effects that give one tensor.
PURE = (
    _ELEMENTWISE | BOOLEAN | _REDUCING - {"numel"}
    | frozenset({
    "add", "bmm", "clone", "contiguous", "cumsum", "detach", "expand", "flatten", "flip", "full_like", "gather",
    "index_select", "int", "log_softmax", "long", "masked_select", "matmul", "maximum", "minimum", "mm", "ones_like",
    "permute", "repeat", "reshape", "select", "softmax", "squeeze", "stack", "sub", "t", "to", "transpose", "tril",
    "triu", "type_as", "unsqueeze", "view", "where", "zeros_like", "cat",
})
)
_GIVE_PAIRS = frozenset({"max", "min", "median"})  # with a dim they give values and indices
_GIVE_SEVERAL = frozenset({"topk", "sort", "split", "chunk", "unbind", "kthvalue", "mode", "tensor_split"})
# Methods that things other than tensors have too: no evidence.
_SHARED = frozenset({
    "add", "bool", "double", "expand", "float", "half", "int", "log", "repeat", "round", "select", "sub", "to",
    "view", "where",
})
_NO_TENSOR = frozenset({"item", "tolist", "size", "dim", "numel", "data_ptr", "float", "int", "len", "bool", "str"})
_FUNCTIONAL = ("F", "functional", "torch.nn.functional", "nn.functional")
# fmt: on

SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr, ast.Assert)


def is_simple(statement: ast.stmt) -> bool:
    """Return whether a statement has no block of statements."""
    return isinstance(statement, SIMPLE)


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
    return isinstance(call.func, ast.Attribute) and dotted(call.func.value) in ("torch", "th", *_FUNCTIONAL)


def is_method(call: ast.Call) -> bool:
    """Return whether a call is of a method of a value, not of a module's or of the user's own object."""
    return isinstance(call.func, ast.Attribute) and dotted(call.func.value) not in ("self", "math", "np", "numpy") and (
        not of_torch(call)
    )  # fmt: skip


def gives_several(call: ast.Call) -> bool:
    """Return whether a call gives more than one tensor."""
    with_dim = called(call) in _GIVE_PAIRS and (len(call.args) > of_torch(call) or bool(call.keywords))
    return with_dim or called(call) in _GIVE_SEVERAL


def is_pure_call(call: ast.Call) -> bool:
    """Return whether a call computes one tensor and does nothing else."""
    writes = any(k.arg in ("inplace", "out") for k in call.keywords)
    is_known = called(call) in PURE and (of_torch(call) or is_method(call))
    return is_known and not writes and not gives_several(call)


def is_elementwise(call: ast.Call) -> bool:
    """Return whether a call treats every element by itself."""
    return called(call) in _ELEMENTWISE and (of_torch(call) or is_method(call))


def has_no_dimensions(node: ast.expr) -> bool:
    """Return whether an expression is a reduction over all dimensions."""
    reduced = isinstance(node, ast.Call) and is_method(node) and not node.args and not node.keywords
    return reduced and called(node) in _REDUCING | {"any", "all"}


def loads(tree: ast.AST, name: str) -> list[ast.Name]:
    """Return where a name is read."""
    return [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load)]


def is_number(node: ast.AST) -> bool:
    """Return whether a constant is a plain number."""
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and not isinstance(node.value, bool)


def tensor_names(tree: ast.AST, candidates: frozenset[str]) -> frozenset[str]:
    """Return those of some names that are tensors for sure, by how a function declares, makes and uses them."""
    nodes = list(ast.walk(tree))
    annotated = {n.arg for n in nodes if isinstance(n, ast.arg) and n.annotation and _speaks_of_tensors(n.annotation)}
    found = annotated | {name for n in nodes if isinstance(n, ast.Call) and (name := _used_as_tensor(n))}
    assigns = [(t, n.value) for n in nodes if isinstance(n, ast.Assign) for t in targets(n)]
    for _ in range(2):  # a name that is made of names that come later in the text
        for target, value in assigns:
            if target not in found and _is_tensor_at_all(value, found):
                found.add(target)
    others = {target for target, value in assigns if called(value) in _NO_TENSOR or isinstance(value, _LITERALS)}
    return frozenset(found & candidates) - others - {"self", "cls"}


def _speaks_of_tensors(annotation: ast.expr) -> bool:
    parts = (getattr(n, "id", "") or getattr(n, "attr", "") or getattr(n, "value", "") for n in ast.walk(annotation))
    return any("Tensor" in part for part in parts if isinstance(part, str))


def _is_tensor_at_all(value: ast.expr, names: AbstractSet[str]) -> bool:
    try:
        return is_tensor(value, names)
    except RecursionError:  # nested deeper than Python's stack
        return False


_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.JoinedStr)


def _used_as_tensor(call: ast.Call) -> str:
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    if isinstance(owner, ast.Compare) and all(is_number(n) for n in owner.comparators):  # (x > 3).any()
        owner = owner.left
    if not isinstance(call.func, ast.Attribute) or not isinstance(owner, ast.Name):
        return ""
    return owner.id if call.func.attr in (PURE | {"item", "nonzero", "numel"}) - _SHARED else ""


def is_tensor(node: ast.expr, names: AbstractSet[str]) -> bool:
    """Return whether an expression is a tensor for sure, where some names are."""
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.Call):
        arguments = any(is_tensor(a, names) for a in node.args)
        by_self = isinstance(node.func, ast.Attribute) and dotted(node.func.value) == "self"
        method = is_method(node) and (called(node) not in _SHARED or is_tensor(_receiver(node), names))
        return (called(node) in PURE and (of_torch(node) or method)) or (by_self and arguments)
    if isinstance(node, ast.BinOp):
        return is_tensor(node.left, names) or is_tensor(node.right, names)
    if isinstance(node, ast.Compare):
        return any(is_tensor(part, names) for part in (node.left, *node.comparators))
    if isinstance(node, ast.UnaryOp):
        return not isinstance(node.op, ast.Not) and is_tensor(node.operand, names)
    return isinstance(node, ast.Subscript) and is_tensor(node.value, names)


def _receiver(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def targets(assign: ast.Assign) -> list[str]:
    """Return the names that are assigned alone."""
    return [t.id for t in assign.targets if isinstance(t, ast.Name)]
