"""Rewrites of calls that torch does not follow: messages, clocks, copies, tensors made on the way."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.rewrites.site import Change, Rewrite, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_simple, of_torch, parameters
from compiler_lens.recording.model import BreakCause

_LOGGERS = frozenset({"logger", "log", "_logger", "LOG", "LOGGER", "logging", "_log", "self.logger", "self.log"})
_EFFECTS = frozenset(
    {
        "print",
        "breakpoint",
        "warnings.warn",
        "pdb.set_trace",
        "time.sleep",
        "gc.collect",
        "sys.stdout.write",
        "sys.stdout.flush",
    }
    | {"torch.cuda.synchronize", "torch.cuda.empty_cache", "torch.cuda.reset_peak_memory_stats"}
)
_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})


def effect(site: Site, _cause: BreakCause) -> Rewrite | None:
    """A message, or another call for its effect alone: left to eager."""
    call = site.statement.value if isinstance(site.statement, ast.Expr) else None
    if not isinstance(call, ast.Call):
        return None
    name = dotted(call.func)
    owner, _, level = name.rpartition(".")
    if name not in _EFFECTS and not (owner in _LOGGERS and level in _LEVELS):
        return None
    lines = site.edited(site.statement).split("\n")
    rest = [line[site.statement.col_offset :] for line in lines[1:]]
    body = [f"    {line}".rstrip() for line in (lines[0], *rest)]
    return site.rewrite(
        [f"if not {site.torch}.compiler.is_compiling():", *body], f"compiled code then runs without this `{name}`"
    )


def _moved_out(site: Site, name: str, needs: str) -> Rewrite | None:
    return site.rewrite([f"{name} = ..."], needs, is_complete=False)


def made_outside(site: Site, _cause: BreakCause) -> Rewrite | None:
    """A parameter, or a tensor that requires grad, made in the function: made once, in `__init__`."""
    node = site.statement
    if not isinstance(node, ast.Assign) or len(node.targets) != 1 or not isinstance(node.targets[0], ast.Name):
        return None
    name, function = node.targets[0].id, site.function
    if function is None or any(n.id in site.local() for n in ast.walk(node.value) if isinstance(n, ast.Name)):
        return None
    if "self" in parameters(function):
        return site.rewrite(
            [f"{name} = self.{name}"], f"`self.{name} = {site.source(node.value)}` in `__init__`", is_complete=False
        )
    return _moved_out(site, name, f"`{site.source(node.value)}` is made by the caller and given as an argument")


def requires_grad(site: Site, _cause: BreakCause) -> Rewrite | None:
    """`x.requires_grad = True` of a parameter of the function: the caller does it."""
    node = site.statement
    owner: ast.expr | None = None
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute):
        owner = node.targets[0].value if node.targets[0].attr == "requires_grad" else None
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and called(node.value) == "requires_grad_":
        owner = node.value.func.value if isinstance(node.value.func, ast.Attribute) else None
    if not isinstance(owner, ast.Name) or site.function is None or owner.id not in parameters(site.function):
        return None
    if any(
        isinstance(n.ctx, ast.Store) and n.id == owner.id for n in ast.walk(site.function) if isinstance(n, ast.Name)
    ):
        return None
    return site.rewrite(["..."], f"the caller runs `{site.edited(node)}` before the call", is_complete=False)


# -- copies and identity

_COPY = "the copy then never requires grad; the deepcopy of a leaf that does would"


def deep_copy(site: Site, cause: BreakCause) -> Rewrite | None:
    """`copy.deepcopy(t)`."""
    calls = [
        n
        for n in ast.walk(site.statement)
        if isinstance(n, ast.Call) and dotted(n.func) in ("copy.deepcopy", "deepcopy")
    ]
    if not is_simple(site.statement) or "TensorVariable" not in cause.context:
        return None
    if not all(len(n.args) == 1 and site.is_tensor(n.args[0]) for n in calls):
        return None
    return site.edit([(n, f"{site.atom(n.args[0])}.detach().clone()") for n in calls], _COPY)


def data_of(site: Site, _cause: BreakCause) -> Rewrite | None:
    """`x.data = v`."""
    node = site.statement
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if not isinstance(target, ast.Attribute) or target.attr != "data" or not isinstance(node, ast.Assign):
        return None
    x, value = site.source(target.value), site.source(node.value)
    lines = [f"with {site.torch}.no_grad():", f"    {x}.copy_({value})"]
    return site.rewrite(lines, "the value has the same shape and dtype, and no other tensor shares this memory")


def same_memory(site: Site, _cause: BreakCause) -> Rewrite | None:
    """`a.data_ptr() == b.data_ptr()`."""
    heads = getattr(site.statement, "test", site.statement)
    if not isinstance(site.statement, (ast.If, ast.While)) and not is_simple(site.statement):
        return None
    changes: list[Change] = []
    for node in ast.walk(heads):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1:
            continue
        sides = (node.left, node.comparators[0])
        owners = [s.func.value for s in sides if isinstance(s, ast.Call) and isinstance(s.func, ast.Attribute)]
        sign = {ast.Eq: "is", ast.NotEq: "is not"}.get(type(node.ops[0]))
        if sign and len(owners) == len(sides) and all(called(s) == "data_ptr" for s in sides):
            changes.append((node, f"{site.atom(owners[0])} {sign} {site.atom(owners[1])}"))
    return _head_edit(site, changes, "neither is a view of the other's memory")


def _head_edit(site: Site, changes: list[Change], needs: str) -> Rewrite | None:
    if is_simple(site.statement) or not changes:
        return site.edit(changes, needs)
    lines = site.edited(site.statement).split("\n")
    test = getattr(site.statement, "test", site.statement)
    if test.lineno != test.end_lineno or test.lineno != site.statement.lineno:
        return None
    after = site.edited(site.statement, changes).split("\n")
    return Rewrite((lines[0].rstrip(),), (after[0].rstrip(),), is_complete=True, needs=needs)


def numpy_function(site: Site, _cause: BreakCause) -> Rewrite | None:
    """`torch.from_numpy(np.sin(x.numpy()))`: torch has a function of that name."""
    changes: list[Change] = []
    for node in ast.walk(site.statement):
        if (
            not isinstance(node, ast.Call)
            or not of_torch(node)
            or called(node) not in ("from_numpy", "as_tensor", "tensor")
        ):
            continue
        inner = node.args[0] if len(node.args) == 1 and not node.keywords else None
        if not isinstance(inner, ast.Call) or dotted(inner.func).split(".")[0] not in ("np", "numpy") or inner.keywords:
            return None
        arrays = [a for a in inner.args if called(a) == "numpy"]
        if called(inner) not in _SAME_IN_NUMPY or len(arrays) != len(inner.args):
            return None
        tensors = ", ".join(_tensor_of(site, a) for a in arrays)
        changes.append((node, f"{site.torch}.{called(inner)}({tensors})"))
    return site.edit(changes) if is_simple(site.statement) else None


# fmt: off
_SAME_IN_NUMPY = frozenset({
    "abs", "sin", "cos", "tan", "tanh", "exp", "log", "log1p", "expm1", "sqrt", "square", "floor", "ceil", "sign",
    "maximum", "minimum", "matmul", "dot",
})
# fmt: on


def _tensor_of(site: Site, node: ast.expr) -> str:
    """The tensor of `x.detach().cpu().numpy()`."""
    while called(node) in ("numpy", "cpu") and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return site.source(node)
