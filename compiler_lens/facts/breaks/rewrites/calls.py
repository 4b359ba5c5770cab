"""Rewrites of calls that torch does not follow: messages, clocks, copies, tensors made on the way."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.rewrites.site import Change, Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, is_simple, of_torch, parameters
from compiler_lens.recording.model import BreakCause

_LOGGERS = frozenset({"logger", "log", "_logger", "LOG", "LOGGER", "logging", "_log", "self.logger", "self.log"})
_EFFECTS = frozenset({
    "print", "breakpoint", "warnings.warn", "pdb.set_trace", "time.sleep", "gc.collect", "sys.stdout.write",
    "sys.stdout.flush", "torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.reset_peak_memory_stats",
})  # fmt: skip
_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})


def effect(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Leave a message, or another call for its effect alone, to eager."""
    match site.statement:
        case ast.Expr(value=ast.Call(func=function)):
            name = dotted(function)
        case _:
            return None
    owner, _, level = name.rpartition(".")
    if name not in _EFFECTS and not (owner in _LOGGERS and level in _LEVELS):
        return None
    first, *rest = site.edited(site.statement).split("\n")
    lines = [first, *(line[site.statement.col_offset :] for line in rest)]
    body = [f"    {line}".rstrip() for line in lines]
    needs = f"compiled code then runs without this `{name}`"
    return site.rewrite([f"if not {site.torch}.compiler.is_compiling():", *body], needs)


def made_outside(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Make a parameter, or a tensor that requires grad, once, in `__init__`, and not in the function."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            made = site.source(value)
        case _:
            return None
    if site.function is None or any(n.id in site.local() for n in ast.walk(value) if isinstance(n, ast.Name)):
        return None
    if "self" in parameters(site.function):
        return site.rewrite([f"{name} = self.{name}"], f"`self.{name} = {made}` in `__init__`", is_complete=False)
    needs = f"`{made}` is made by the caller and given as an argument"
    return site.rewrite([f"{name} = ..."], needs, is_complete=False)


def requires_grad(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Let the caller do `x.requires_grad = True`, or `x.requires_grad_()`, of a parameter of the function."""
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad"), *_]):
            pass
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_"))):
            pass
        case _:
            return None
    if site.function is None or name not in parameters(site.function) or site.assigns(name):
        return None
    needs = f"the caller runs `{site.edited(site.statement)}` before the call"
    return site.rewrite(["..."], needs, is_complete=False)


# -- copies and identity

_COPY = "the copy then never requires grad; the deepcopy of a leaf that does would"


def deep_copy(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `t.detach().clone()` for `copy.deepcopy(t)`."""
    if not is_simple(site.statement) or "TensorVariable" not in cause.context:
        return None
    calls = [n for n in calls_in(site.statement) if dotted(n.func) in ("copy.deepcopy", "deepcopy")]
    if not all(len(n.args) == 1 and site.is_tensor(n.args[0]) for n in calls):
        return None
    return site.edit([(n, f"{site.atom(n.args[0])}.detach().clone()") for n in calls], _COPY)


def data_of(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `x.copy_(v)` for `x.data = v`."""
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(value=x, attr="data")], value=value):
            lines = [f"with {site.torch}.no_grad():", f"    {site.source(x)}.copy_({site.source(value)})"]
            return site.rewrite(lines, "the value has the same shape and dtype, and no other tensor shares this memory")
    return None


def same_memory(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `a is b` for `a.data_ptr() == b.data_ptr()`."""
    statement, needs = site.statement, "neither is a view of the other's memory"
    if not isinstance(statement, (ast.If, ast.While)) and not is_simple(statement):
        return None
    test = getattr(statement, "test", statement)
    changes: list[Change] = []
    for node in ast.walk(test):
        match node:
            case ast.Compare(
                left=ast.Call(func=ast.Attribute(value=one, attr="data_ptr")),
                ops=[ast.Eq() | ast.NotEq() as sign],
                comparators=[ast.Call(func=ast.Attribute(value=other, attr="data_ptr"))],
            ):
                same = "is" if isinstance(sign, ast.Eq) else "is not"
                changes.append((node, f"{site.atom(one)} {same} {site.atom(other)}"))
    if is_simple(statement) or not changes:
        return site.edit(changes, needs)
    if not test.lineno == test.end_lineno == statement.lineno:
        return None
    before, after = (site.edited(statement, edits).split("\n")[0].rstrip() for edits in ((), changes))
    return Rewrite((before,), (after,), is_complete=True, needs=needs)


def numpy_function(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write torch's function of the same name for `torch.from_numpy(np.sin(x.numpy()))`."""
    changes: list[Change] = []
    for node in calls_in(site.statement):
        if not of_torch(node) or called(node) not in ("from_numpy", "as_tensor", "tensor"):
            continue
        match node:
            case ast.Call(args=[ast.Call(keywords=[]) as inner], keywords=[]):
                pass
            case _:
                return None
        if dotted(inner.func).split(".")[0] not in ("np", "numpy"):
            return None
        arrays = [a for a in inner.args if called(a) == "numpy"]
        if called(inner) not in _SAME_IN_NUMPY or len(arrays) != len(inner.args):
            return None
        tensors = ", ".join(_tensor_of(site, a) for a in arrays)
        changes.append((node, f"{site.torch}.{called(inner)}({tensors})"))
    return site.edit(changes) if is_simple(site.statement) else None


_SAME_IN_NUMPY = frozenset({
    "abs", "sin", "cos", "tan", "tanh", "exp", "log", "log1p", "expm1", "sqrt", "square", "floor", "ceil", "sign",
    "maximum", "minimum", "matmul", "dot",
})  # fmt: skip


def _tensor_of(site: Site, node: ast.expr) -> str:
    """Return the tensor of `x.detach().cpu().numpy()`."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="numpy" | "cpu")):
            return _tensor_of(site, owner)
    return site.source(node)
