"""What a call does besides giving a value: nothing, something that stays, or another value each time."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from compiler_lens.facts.breaks.rewrites.syntax import (
    Function,
    called,
    calls_in,
    dotted,
    is_pure_call,
    is_tensor,
    of_torch,
    parameters,
)

# fmt: off
_READING = frozenset({
    "len", "str", "repr", "int", "float", "bool", "round", "type", "id", "min", "max", "sum", "abs", "format", "list",
    "tuple", "sorted", "isinstance", "getattr", "dict", "set", "range", "zip", "enumerate",
})
_READING_METHODS = frozenset({
    "item", "tolist", "numpy", "cpu", "detach", "size", "numel", "dim", "format", "keys", "values", "items",
    "memory_allocated", "max_memory_allocated", "perf_counter", "time", "current_device", "now", "strftime",
    "upper", "lower", "strip", "split",
})
_READING_WITH_ARGUMENT = frozenset({"get", "join"})  # of a dict and a text; a queue gives what it had, a thread waits
_CHANGING = frozenset({
    "append", "appendleft", "extend", "insert", "pop", "popitem", "popleft", "remove", "discard", "clear", "update",
    "setdefault", "write", "writelines", "put", "put_nowait", "send", "setattr", "delattr", "setitem", "seed", "step",
    "next", "register_buffer", "shuffle", "copyto", "fill", "acquire", "release", "setflags", "exec",
    "manual_seed", "makedirs", "mkdir", "unlink", "rename", "putenv",
})
_CHANGING_ALONE = frozenset({"add", "sort", "reverse", "partition", "resize"})  # and give nothing that is read
_FRESH = frozenset({"copy", "deepcopy", "clone", "item", "tolist"})
_NEW_OF_TORCH = frozenset({"arange", "empty", "eye", "full", "linspace", "logspace", "ones", "zeros"})  # of numbers
_CLOCKS = frozenset({"time", "perf_counter", "monotonic", "process_time", "now", "today"})
_DRAWS_OF_TORCH = frozenset({
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "multinomial",
    "poisson", "dropout", "rsample", "sample", "normal_", "uniform_", "exponential_", "bernoulli_", "random_",
})
_DRAWS = _DRAWS_OF_TORCH | {
    "next", "input", "random", "urandom", "uuid1", "uuid4", "randrange", "normal", "uniform", "integers", "choice",
    "choices", "shuffle", "permutation", "permuted", "gauss", "standard_normal", "random_sample", "betavariate", "beta",
    "token_hex", "token_bytes", "readline", "recv", "pop", "popleft", "popitem", "get_nowait",
}
_DRAWING_MODULES = frozenset({"random", "secrets"})
# fmt: on


def changes_nothing(call: ast.Call, tensors: AbstractSet[str]) -> bool:
    """Return whether a call gives a value and does nothing else, where some names are tensors for sure.

    A set has an `add` as well as a tensor: what other things than tensors can do, too, counts of a tensor alone.
    """
    if isinstance(call.func, ast.Name):
        return call.func.id in _READING
    if called(call) in _READING_METHODS or dotted(call.func).startswith("math."):
        return True
    if called(call) in _READING_WITH_ARGUMENT and call.args:
        first = call.args[0]
        return not isinstance(first, ast.Constant) or isinstance(first.value, str)
    return is_pure_call(call) and (of_torch(call) or is_tensor(call, tensors))


def varies(function: Function) -> bool:
    """Return whether a function asks for a clock, a random number or the next of something."""
    return any(called(call) in _CLOCKS for call in calls_in(function)) or any(_draws(c) for c in calls_in(function))


def changed_of_module(tree: ast.Module) -> frozenset[str]:
    """Return the names of a module whose values something in it changes in place, or gives anew."""
    nodes = list(ast.walk(tree))
    stored = Counter(n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load))
    outer = {name for n in nodes if isinstance(n, ast.Global) for name in n.names}
    written = {root for node in _written(tree) for root in _roots(node)}
    return frozenset(outer | written | {name for name, times in stored.items() if times > 1})


_FILLS = frozenset({"add", "append", "appendleft", "extend", "insert"})


def selects(function: Function) -> bool:
    """Return whether a function takes the rows where a condition is true: how many depends on values."""
    masks = {
        target.id
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and _is_condition(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    taken = [n.slice for n in ast.walk(function) if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Load)]
    return any(_is_condition(one) or (isinstance(one, ast.Name) and one.id in masks) for one in taken)


def collects_some(function: Function) -> bool:
    """Return whether a function fills a list, of which it depends on values how long it gets.

    That is where it passes over an element, or ends the loop, by a test.
    """
    filled = [call for call in calls_in(function) if called(call) in _FILLS]
    tested = (ast.If, ast.While, ast.Continue, ast.Break)
    loops = [node for node in ast.walk(function) if isinstance(node, (ast.For, ast.While))]
    return any(
        isinstance(loop, ast.While) or any(isinstance(node, tested) for node in ast.walk(loop))
        for loop in loops
        if any(call in set(ast.walk(loop)) for call in filled)
    )


def _is_condition(node: ast.expr) -> bool:
    match node:
        case ast.Compare() | ast.UnaryOp(op=ast.Invert()):
            return True
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr(), right=right):
            return _is_condition(left) or _is_condition(right)
        case ast.Call(func=ast.Attribute(attr="isfinite" | "isnan" | "bool" | "gt" | "lt" | "ge" | "le" | "ne" | "eq")):
            return True
    return False


def draws(function: Function) -> bool:
    """Return whether a function asks for a random number or the next of something, but of torch."""
    return any(
        _of_a_drawing_module(one) or (called(one) in _DRAWS - _DRAWS_OF_TORCH and not of_torch(one))
        for one in calls_in(function)
    )


def _draws(call: ast.Call) -> bool:
    return called(call) in _DRAWS or _of_a_drawing_module(call)


def _of_a_drawing_module(call: ast.Call) -> bool:
    return not _DRAWING_MODULES.isdisjoint(dotted(call.func).split(".")[:-1])


def changed(function: Function) -> frozenset[str]:
    """Return which names that a function does not make itself it may change in place, as far as its text shows."""
    made: dict[str, set[str]] = {}  # what else a name of the function's own may be
    for targets, value in _assigned(function):
        for node in ast.walk(targets):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                made.setdefault(node.id, set()).update(_roots(value))
    found: set[str] = set()
    left = {root for node in _written(function) for root in _roots(node)}
    while left - found:
        found |= left
        left = {root for name in left for root in made.get(name, ())}
    outer = {name for n in ast.walk(function) if isinstance(n, (ast.Global, ast.Nonlocal)) for name in n.names}
    return frozenset(name for name in found if name not in made or name in parameters(function)) | outer


def _assigned(tree: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.NamedExpr(target=target, value=value):
                yield target, value
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield target, value
            case ast.withitem(optional_vars=ast.expr() as target, context_expr=value):
                yield target, value


def _written(tree: ast.AST) -> Iterator[ast.expr]:
    """Yield what is written in place: the owner of an attribute or an item, what a method or a function changes."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=owner, ctx=ast.Store() | ast.Del()):
                yield owner
            case ast.Subscript(value=owner, ctx=ast.Store() | ast.Del()):
                yield owner
            case ast.AugAssign(target=ast.Name() as target):
                yield target
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=owner, attr=method))) if method in _CHANGING_ALONE:
                yield owner
            case ast.Call(args=args, keywords=words):
                yield from (word.value for word in words if word.arg == "out")
                is_said = any(word.arg == "inplace" for word in words)
                name = called(node)
                if is_said or name in _CHANGING or (name.endswith("_") and not name.endswith("__")):
                    yield from (*_owner(node), *args[:1])


def _owner(call: ast.Call) -> tuple[ast.expr, ...]:
    """Return what a method is called of; nothing of a function of torch's or NumPy's."""
    is_function = of_torch(call) or dotted(call.func).split(".")[0] in ("np", "numpy")
    return (call.func.value,) if isinstance(call.func, ast.Attribute) and not is_function else ()


def _roots(node: ast.AST) -> Iterator[str]:
    """Yield the names whose memory an expression may be: those of what it is a part or a view of."""
    match node:
        case ast.Name(id=name):
            yield name
        case ast.Attribute(value=owner) | ast.Subscript(value=owner) | ast.Starred(value=owner):
            yield from _roots(owner)
        case ast.Call(args=args):
            for one in () if _is_fresh(node) else (*_owner(node), *args):
                yield from _roots(one)
        case ast.IfExp(body=one, orelse=other):
            yield from (*_roots(one), *_roots(other))
        case ast.List(elts=parts) | ast.Tuple(elts=parts) | ast.BoolOp(values=parts):
            for part in parts:
                yield from _roots(part)


def _is_fresh(node: ast.AST) -> bool:
    """Whether a call gives what shares no memory with what it is given."""
    is_new = isinstance(node, ast.Call) and of_torch(node) and called(node) in _NEW_OF_TORCH
    return is_new or called(node) in _FRESH
