"""Rewrites of calls that torch does not follow: messages, clocks, copies, tensors made on the way, Python numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import effects, sides, syntax
from compiler_lens.facts.breaks.rewrites.messages import is_message
from compiler_lens.facts.breaks.rewrites.site import Change, Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import (
    SIMPLE,
    called,
    calls_in,
    dotted,
    of_torch,
    parameters,
)
from compiler_lens.recording.model import BreakCause


def effect(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Leave a message, or another call for its effect alone, to eager."""
    name = said_by(site, site.statement)
    if not name:
        return None
    body = [f"    {line}".rstrip() for line in site.lines()]
    return site.rewrite([f"if not {site.torch}.compiler.is_compiling():", *body], _left_out(f"`{name}`"))


def said_on_a_condition(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Leave `if x.max() > 1: log.warning(…)`, whose test is there for messages alone, to eager."""
    match site.statement:
        case ast.If(test=test, body=body, orelse=[]) if not site.edited(site.statement).startswith("elif"):
            names = [said_by(site, one) for one in body]
        case _:
            return None
    if not all(names) or not all(only_says(site, one) for one in ast.walk(test)):
        return None
    here = f"not {site.torch}.compiler.is_compiling() and {site.atom(test)}"
    said = " and ".join(f"`{name}`" for name in dict.fromkeys(names))
    return site.edit([(test, here)], _left_out(said))


def _left_out(said: str) -> str:
    return f"compiled code then runs without this {said}, and what still runs eagerly with it"


def said_by(site: Site, statement: ast.stmt) -> str:
    """Return the name of the function that a statement calls for its effect alone; empty where it does more."""
    match statement:
        case ast.Expr(value=ast.Call(func=function) as call):
            name = dotted(function)
        case _:
            return ""
    if not is_message(site, call):
        return ""
    return name if all(only_says(site, one) for one in ast.walk(call) if one is not call) else ""


def only_says(site: Site, node: ast.AST) -> bool:
    """Return whether a part of a message changes nothing: a call may count what it is asked, and then has to go on."""
    if isinstance(node, (ast.NamedExpr, ast.Await, ast.Yield, ast.YieldFrom)):
        return False
    return not isinstance(node, ast.Call) or effects.changes_nothing(node, site.tensors)


def checked_all(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Check on the device what `torch._check_tensor_all` asks for as a Python bool."""
    match site.statement:
        case ast.Expr(value=ast.Call(func=ast.Attribute(attr="_check_tensor_all"), args=[asked, *said]) as call):
            error = "RuntimeError"
        case ast.Expr(
            value=ast.Call(func=ast.Attribute(attr="_check_tensor_all_with"), args=[kind, asked, *said]) as call
        ):
            error = dotted(kind) or "its own"
        case _:
            return None
    if not of_torch(call):
        return None
    test = f"{site.atom(asked)}.all()"
    match said:
        case [ast.Lambda(body=ast.Constant(value=str() as message))] if message:
            other = ""
        case _:
            message, other = test, ", with another message"
    if error != "RuntimeError":
        other = f", not {error}{other}"
    needs = f"the error is then a RuntimeError{other}" if other else ""
    ends = "on a GPU a failed check ends the process's CUDA context"
    return site.rewrite([f"{site.torch}._assert_async({test}, {message!r})"], sides.joined(needs, ends))


def printed_in_the_graph(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Let the graph print: `torch._higher_order_ops.print` has a format and tensors or numbers."""
    match site.statement:
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"), args=args, keywords=[])) if args:
            parts = [_formatted(site, one) for one in args]
        case _:
            return None
    if any(part is None for part in parts):
        return None
    text = " ".join(part[0] for part in parts if part)
    values = [value for part in parts if part for value in part[1]]
    call = f"{site.torch}._higher_order_ops.print({', '.join([repr(text), *values])})"
    return site.rewrite([call], "it prints from the graph, at each call, on each rank")


def _formatted(site: Site, node: ast.expr) -> tuple[str, list[str]] | None:
    """Return a text with `{}` in it and what stands there; None where it may be neither a tensor nor a number."""
    match node:
        case ast.Constant(value=str() as text):
            return text.replace("{", "{{").replace("}", "}}"), []
        case ast.JoinedStr(values=parts):
            found = [_formatted(site, part) for part in parts]
            known = [part for part in found if part]
            return ("".join(t for t, _ in known), [v for _, some in known for v in some]) if all(found) else None
        case ast.FormattedValue(value=value, conversion=-1, format_spec=spec):
            is_plain = spec is None or all(isinstance(part, ast.Constant) for part in getattr(spec, "values", ()))
            tensor = _read(value) or value
            kept = "".join(str(part.value) for part in getattr(spec, "values", ()) if isinstance(part, ast.Constant))
            colon = f":{kept}" if kept else ""
            return (f"{{{colon}}}", [site.source(tensor)]) if is_plain and site.is_tensor(tensor) else None
    if (number := _read(node)) is not None:
        return "{}", [site.source(number)]
    return ("{!s}", [site.source(node)]) if site.is_tensor(node) else None


def _read(node: ast.expr) -> ast.expr | None:
    """Return the tensor of `x.item()`, of which Python writes the same; of `int(x)` it writes something else."""
    match node:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
            return tensor
    return None


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
        tree = parsed(site.text)
        if tree is None or any(dotted(n) == f"self.{name}" for n in ast.walk(tree) if isinstance(n, ast.Attribute)):
            return None  # which is something else already
        needs = f"`self.{name} = {made}` in `__init__`: it is then one for all calls"
        return site.rewrite([f"{name} = self.{name}"], needs, is_complete=False)
    needs = f"`{made}` is made by the caller and given as an argument"
    return site.rewrite([f"{name} = ..."], needs, is_complete=False)


def requires_grad(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Let the caller do `x.requires_grad = True`, or `x.requires_grad_()`, of a parameter of the function."""
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=name), attr="requires_grad")], value=ast.Constant()):
            pass
        case ast.Expr(
            value=ast.Call(
                func=ast.Attribute(value=ast.Name(id=name), attr="requires_grad_"), args=[] | [ast.Constant()]
            )
        ):
            pass
        case _:
            return None
    if site.function is None or name not in parameters(site.function) or name in site.uses().stores or site.around:
        return None
    # What is computed of it above would get a gradient, or lose it.
    above = [one for one in site.loads(name) if one.lineno < site.statement.lineno]
    if not all(_asks_for_a_size(site, one) for one in above):
        return None
    needs = f"the caller runs `{site.edited(site.statement)}` before the call"
    return site.rewrite(["..."], needs, is_complete=False)


def _asks_for_a_size(site: Site, name: ast.Name) -> bool:
    match site.parents().get(name):
        case ast.Attribute(attr="shape" | "dtype" | "device" | "ndim" | "size" | "dim" | "numel"):
            return True
    return False


# -- copies and identity


def deep_copy(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `t.detach().clone()` for `copy.deepcopy(t)`."""
    if not isinstance(site.statement, SIMPLE) or "TensorVariable" not in cause.context:
        return None
    calls = [n for n in calls_in(site.statement) if dotted(n.func) in ("copy.deepcopy", "deepcopy")]
    if not all(len(n.args) == 1 and site.is_tensor(n.args[0]) for n in calls):
        return None
    each = dict.fromkeys(f"`{site.source(n.args[0])}`" for n in calls)
    needs = (
        f"{' and '.join(each)} without requires_grad: of a leaf that has it the deepcopy has it, too, of another it is"
        " an error"
    )
    return site.edit([(n, f"{site.atom(n.args[0])}.detach().clone()") for n in calls], needs)


def data_of(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `x.copy_(v)` for `x.data = v`."""
    match site.statement:
        case ast.Assign(targets=[ast.Attribute(value=x, attr="data")], value=value):
            lines = [f"with {site.torch}.no_grad():", f"    {site.source(x)}.copy_({site.source(value)})"]
        case _:
            return None
    old, new = f"`{site.source(x)}`", f"`{site.source(value)}`"
    needs = [f"{new} has the shape, dtype and device of {old}", f"{old} has no views, and is none"]
    if not syntax.is_new_tensor(value):
        needs.append(f"neither {new} nor {old} is written in place later")
    needs.append(f"nothing that was computed of {old} is still to run backward")
    return site.rewrite(lines, "; ".join(needs))


def converted(site: Site, cause: BreakCause) -> Rewrite | None:
    """Convert a buffer where it is of another dtype or device alone: `if self.b.dtype != d: self.b = self.b.to(d)`.

    Torch does not follow the assignment; where there is nothing to convert, it is not come to.
    """
    match site.statement:
        case ast.Assign(
            targets=[ast.Attribute() as target],
            value=ast.Call(func=ast.Attribute(value=owner, attr="to"), args=[], keywords=words),
        ) if "TensorVariable()" in cause.context:
            given = {word.arg or "": word.value for word in words}
        case _:
            return None
    name = dotted(target)
    if not name or name != dotted(owner) or not given or not given.keys() <= {"dtype", "device"}:
        return None
    if not all(dotted(value) for value in given.values()):
        return None
    tests = [f"{name}.{kind} != {site.source(value)}" for kind, value in given.items()]
    lines = [f"if {' or '.join(tests)}:", *(f"    {line}" for line in site.lines())]
    return site.rewrite(
        lines, f"`{name}` has that {' and '.join(given)} when it is called: else the graph still breaks"
    )


def other_kernels(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Leave `torch.backends.cudnn.flags()` out of a `with` that has something else, too."""
    match site.statement:
        case ast.With(items=[_, _, *_] as items):
            kept = [one for one in items if not _is_of_cudnn(one.context_expr)]
        case _:
            return None
    head = site.text.split("\n")[site.statement.lineno - 1].strip()
    is_one_line = head.endswith(":") and site.statement.body[0].lineno > site.statement.lineno
    if not kept or len(kept) == len(items) or not is_one_line or not head.startswith("with "):
        return None
    parts = [site.source(one.context_expr) for one in kept]
    named = [site.source(one.optional_vars) if one.optional_vars else "" for one in kept]
    text = ", ".join(f"{part} as {name}" if name else part for part, name in zip(parts, named, strict=True))
    needs = "on a GPU cuDNN then computes what is compiled there: other kernels, which round in another way"
    return Rewrite((head,), (f"with {text}:",), is_complete=True, needs=needs)


def _is_of_cudnn(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=function):
            return dotted(function).endswith("backends.cudnn.flags")
    return False


def same_memory(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `a is b` for `a.data_ptr() == b.data_ptr()`."""
    statement, needs = site.statement, "neither is empty, or a view (`.detach()`, `.data`) of the other's memory"
    if not isinstance(statement, (ast.If, ast.While, *SIMPLE)):
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
    if isinstance(statement, SIMPLE) or not changes:
        return site.edit(changes, needs)
    if not test.lineno == test.end_lineno == statement.lineno:
        return None
    before, after = (site.edited(statement, edits).split("\n")[0].rstrip() for edits in ((), changes))
    return Rewrite((before,), (after,), is_complete=True, needs=needs)


_SAME_IN_NUMPY = frozenset({
    "abs", "sin", "cos", "tan", "tanh", "exp", "log", "log1p", "expm1", "sqrt", "square", "floor", "ceil",
    "maximum", "minimum", "matmul",
})  # fmt: skip


def numpy_function(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write torch's function of the same name for `torch.from_numpy(np.sin(x.numpy()))`."""
    changes: list[Change] = []
    needs: dict[str, None] = {}
    for node in calls_in(site.statement):
        if not of_torch(node) or called(node) not in ("from_numpy", "as_tensor", "tensor"):
            continue
        match node:
            case ast.Call(args=[ast.Call(args=arrays, keywords=[]) as inner], keywords=[]):
                is_of_numpy = dotted(inner.func).split(".")[0] in ("np", "numpy") and called(inner) in _SAME_IN_NUMPY
                tensors = [_tensor_of(a) for a in arrays]
            case _:
                return None
        known = [one for one in tensors if one is not None]
        if not is_of_numpy or len(known) < len(tensors):
            return None
        changes.append((node, f"{site.torch}.{called(inner)}({', '.join(site.source(one) for one in known)})"))
        # Of integers NumPy makes float64, and a tensor that requires grad has no array.
        names = " and ".join(dict.fromkeys(f"`{site.source(one)}`" for one in known))
        kinds = "both float32 or both float64" if len(known) > 1 else "float32 or float64"
        is_detached = all(any(called(c) == "detach" for c in calls_in(one)) for one in known)
        needs[f"{names}: {kinds}, with dimensions{'' if is_detached else ', and without requires_grad'}"] = None
    return site.edit(changes, "; ".join(needs)) if isinstance(site.statement, SIMPLE) else None


# Of an array of a floating dtype each gives a number of that dtype.
_NUMBERS_OF_NUMPY = frozenset({"percentile", "quantile", "median", "mean", "max", "min", "amax", "amin"})
_WITH_A_NUMBER = frozenset({"percentile", "quantile"})


def array_number(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `np.fmax(0.1, np.percentile(a, 10))` for `max(0.1, float(np.percentile(a, 10)))`, which only `a` meets."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            found = _chosen_number(value)
        case _:
            return None
    if found is None or site.function is None or site.value_of(name) is not value:
        return None
    call, other, function = found
    array = call.args[0] if call.args and isinstance(call.args[0], ast.Name) else None
    if array is None or not _is_array(site, array.id) or not _meets_alone(site, name, array.id):
        return None
    module, text = dotted(call.func).partition(".")[0], site.source(call)
    needs = ""
    if other is not None:
        first, second = (text, site.source(other)) if function in {"maximum", "minimum"} else (site.source(other), text)
        text = f"{module}.{function}({first}, {second})"
        if not isinstance(sides.without_sign(other), ast.Constant):
            needs = f"`{site.source(other)}` is a number in each call, and no nan"
    return site.edit([(value, text)], needs)


def number_above(site: Site, cause: BreakCause) -> Rewrite | None:
    """Rewrite the number that a line compares an array with, where it was computed above."""
    names = (n.id for n in ast.walk(site.statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load))
    values = [value for name in dict.fromkeys(names) if (value := site.value_of(name)) is not None]
    above = (site.parents().get(value) for value in values if value.lineno < site.line)
    rules = (array_number(replace(site, statement=one), cause) for one in above if isinstance(one, ast.Assign))
    return next(filter(None, rules), None)


def _chosen_number(node: ast.expr) -> tuple[ast.Call, ast.expr | None, str] | None:
    """Return NumPy's call that gives a number, what `max` or `min` compares it with, and NumPy's name for that.

    Python keeps the first of two where the second is nan: `np.fmax(a, nan)` is `a`, `np.maximum(nan, a)` is nan.
    """
    match node:
        case ast.Call(func=ast.Name(id="max" | "min" as name), args=[one, other], keywords=[]):
            number = _number_of_numpy(other)
            if number is not None and _number_of_numpy(one) is None and _is_at_hand(one):
                return number, one, f"f{name}"
            number = _number_of_numpy(one)
            if number is not None and _is_at_hand(other):
                return number, other, f"{name}imum"
        case _:
            alone = _number_of_numpy(node)
            return (alone, None, "") if alone is not None else None
    return None


def _is_at_hand(node: ast.expr) -> bool:
    return syntax.is_number(sides.without_sign(node)) or bool(dotted(node))


def _number_of_numpy(node: ast.expr) -> ast.Call | None:
    """Return `np.mean(a)` of `float(np.mean(a))`."""
    match node:
        case ast.Call(
            func=ast.Name(id="float"), args=[ast.Call(func=function, args=[_, *more], keywords=[]) as call], keywords=[]
        ) if dotted(function).rpartition(".")[0] in {"np", "numpy"} and called(call) in _NUMBERS_OF_NUMPY:
            are_numbers = all(syntax.is_number(one) for one in more)
            return call if are_numbers and len(more) == (called(call) in _WITH_A_NUMBER) else None
    return None


def _is_array(site: Site, name: str) -> bool:
    value = site.value_of(name)
    return value is not None and _tensor_of(value) is not None


def _meets_alone(site: Site, name: str, array: str) -> bool:
    """Whether all that reads a name compares it with an array, or computes with both."""
    reads = site.loads(name)
    for read in reads:
        match site.parents().get(read):
            case ast.Compare(left=left, ops=[op], comparators=[right]) if not isinstance(op, syntax.NOT_ON_TENSORS):
                other = right if left is read else left
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div(), right=right):
                other = right if left is read else left
            case _:
                return False
        if dotted(other) != array:
            return False
    return bool(reads)


def _tensor_of(node: ast.expr) -> ast.expr | None:
    """Return the tensor of `x.detach().cpu().numpy()`: what is a copy on the CPU stays one."""
    match node:
        case ast.Call(func=ast.Attribute(value=owner, attr="numpy"), args=[], keywords=[]):
            return owner
    return None


# -- numbers

_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
# What a tensor gives in its own dtype, or, of integers, is an error.
_OF_ITS_DTYPE = frozenset({"max", "min", "amax", "amin", "median", "mean", "norm", "std", "var", "logsumexp"})
_IN_FLOAT32 = frozenset({"logsumexp", "norm", "prod", "sum"})  # what autocast computes, and gives, in float32
_MOST_READS = 16
_DEPTH = 4  # assignments that a value is followed through
_LONGEST_NAMED = 30  # characters of an expression that a condition names


_Needs = dict[str, dict[str, None]]  # what is taken for granted of `{s}`, and of which tensors that is


class _Meeting(Struct, frozen=True):
    """Where a number comes to a tensor in arithmetic."""

    tensor: ast.expr
    is_computed: bool = False  # numbers were computed of it before
    divides: bool = False  # another number: by 0 that is an error of Python's
    is_power: bool = False


def python_number(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Keep the tensor of `x * s.item()`, where the number only goes into arithmetic with tensors."""
    statement = site.statement
    if not isinstance(statement, SIMPLE):
        return _iterated(site, statement) if isinstance(statement, ast.For) else None
    if stacked := _stacked(site):
        return stacked
    every = {n: tensor for n in calls_in(statement) if (tensor := _number_of(site, n)) is not None}
    changes: list[Change] = []
    needs: _Needs = {}
    for call, tensor in every.items():
        parent = site.parents().get(call)
        if parent in every:  # of float(x.item()) the outer one
            continue
        met = _meetings(site, call, _DEPTH)
        # True + True is 2 of numbers, and True of tensors.
        if not met or called(tensor) in ("any", "all") or (syntax.is_boolean(tensor) and _is_computed(met)):
            return None
        changes.append((call, _kept(site, call, tensor)))
        if not syntax.has_no_dimensions(tensor):
            _add(needs, "{s} without dimensions", site, tensor)
        for need in _alike(site, tensor, met, is_int=called(call) == "int"):
            _add(needs, need, site, tensor)
    return site.edit(changes, _told(needs))


def _add(needs: _Needs, need: str, site: Site, tensor: ast.expr) -> None:
    text = f"`{site.source(tensor)}`"
    needs.setdefault(need, {})[text if len(text) <= _LONGEST_NAMED else "the number's tensor"] = None


def _told(needs: _Needs) -> str:
    return "; ".join(need.replace("{s}", " and ".join(tensors)) for need, tensors in needs.items())


def _kept(site: Site, call: ast.Call, tensor: ast.expr) -> str:
    """Write the tensor of a number, which takes no gradient, and is as it was when the tensor is written in place.

    Also what is only read at once is kept for a backward.
    """
    match site.parents().get(call):
        case ast.UnaryOp():
            is_copied = False
        case ast.BinOp(left=left, right=right):
            is_copied = site.is_tensor(right if left is call else left)
        case _:
            is_copied = True
    copied = ".clone()" if is_copied and not syntax.is_new_tensor(tensor) else ""
    return f"{site.atom(tensor)}{'.long()' if called(call) == 'int' else '.detach()'}{copied}"


def _is_computed(met: Sequence[_Meeting]) -> bool:
    return any(one.is_computed for one in met)


def _alike(site: Site, tensor: ast.expr, met: Sequence[_Meeting], *, is_int: bool) -> Iterator[str]:
    """Yield when a tensor computes what its number does: of numbers Python computes in float64, and without a limit."""
    texts = list(dict.fromkeys(site.source(one.tensor) for one in met))
    is_own = _is_of(site, tensor, met)
    is_named = len(texts) == 1 and len(texts[0]) <= _LONGEST_NAMED and _is_one(site, met)
    x = f"`{texts[0]}`" if is_named and "item(" not in texts[0] else "what it meets"
    if is_int:
        yield "{s} within int64, and not nan"
    if _is_computed(met):
        yield f"{x} of float32" + ("" if is_own else ", {s} of float32 or int64, all on one device")
        yield "numbers are then rounded as float32 is"
    elif not is_own:
        yield f"{x} of a floating-point dtype, {{s}} of the same or of integers, all on one device"
    elif called(tensor) not in _OF_ITS_DTYPE or is_int or any(one.is_power for one in met):
        yield f"{x} of a floating-point dtype"
    if is_own and called(tensor) in _IN_FLOAT32 and not is_int and not _is_computed(met):
        yield "no autocast around it: that makes {s} float32"
    if any(one.divides for one in met):
        yield "where Python raises ZeroDivisionError, there is inf or nan"


def _is_of(site: Site, tensor: ast.expr, met: Sequence[_Meeting]) -> bool:
    """Whether a number is a reduction of the very tensor that it meets: both are on one device, and of one dtype."""
    reduced = tensor.func.value if isinstance(tensor, ast.Call) and isinstance(tensor.func, ast.Attribute) else None
    while reduced is not None:
        match reduced:
            case ast.Name(id=name):
                of_it = syntax.has_no_dimensions(tensor) and {site.source(one.tensor) for one in met} == {name}
                return of_it and _is_one(site, met)
            case ast.Call(func=ast.Attribute(value=inner, attr="abs" | "detach" | "clone"), args=[], keywords=[]):
                reduced = inner
            case _:
                return False
    return False


def _is_one(site: Site, met: Sequence[_Meeting]) -> bool:
    """Whether the names of what a number meets still mean what they mean in the statement that reads the number."""
    if site.function is None or {one.tensor for one in met} <= set(ast.walk(site.statement)):
        return True
    names = {n.id for one in met for n in ast.walk(one.tensor) if isinstance(n, ast.Name)}
    given = parameters(site.function)
    return all(len(site.uses().stores.get(name, ())) + (name in given) <= 1 for name in names)


def _number_of(site: Site, call: ast.expr) -> ast.expr | None:
    """Return the tensor that a call makes a Python number of."""
    match call:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item"), args=[]):
            return tensor
        case ast.Call(func=ast.Name(id="float" | "int"), args=[inner]):
            if called(inner) == "item":
                return _number_of(site, inner)
            return inner if site.is_tensor(inner) else None
    return None


def _meetings(site: Site, node: ast.AST, depth: int) -> tuple[_Meeting, ...]:
    """Return where a number meets tensors in arithmetic; nothing if it is used otherwise, too."""
    parent = site.parents().get(node)
    match parent:
        case ast.BinOp(left=left, op=op, right=right) if isinstance(op, _ARITHMETIC):
            other = right if left is node else left
            if site.is_tensor(other):
                return (_Meeting(other, is_power=isinstance(op, ast.Pow)),)
            # Of numbers a power is exact, or an error; of tensors it is what their dtype can hold.
            met = () if isinstance(op, ast.Pow) else _meetings(site, parent, depth)
            divides = isinstance(op, ast.Div) and right is node
            return tuple(replace(one, is_computed=True, divides=one.divides or divides) for one in met)
        case ast.UnaryOp(op=ast.USub()):
            return tuple(replace(one, is_computed=True) for one in _meetings(site, parent, depth))
        case ast.AugAssign(target=target, op=op, value=value) if isinstance(op, _ARITHMETIC):
            is_met = value is node and site.is_tensor(target)
            return (_Meeting(target, is_power=isinstance(op, ast.Pow)),) if is_met else ()
        case ast.Assign(targets=[ast.Name(id=name)]) if depth and site.value_of(name) is not None:
            return _all_meet(site, site.loads(name), depth - 1)
    return ()


def _all_meet(site: Site, reads: Sequence[ast.Name], depth: int) -> tuple[_Meeting, ...]:
    each = [_meetings(site, n, depth) for n in reads] if len(reads) <= _MOST_READS else []
    return tuple(one for met in each for one in met) if all(each) else ()


def _iterated(site: Site, loop: ast.For) -> Rewrite | None:
    """Write `for v in t.unbind():` for `for v in t.tolist():`, whose `v` only goes into arithmetic with tensors."""
    match loop:
        case ast.For(target=ast.Name(id=name), iter=ast.Call(func=ast.Attribute(value=tensor, attr="tolist"))):
            head = site.head(loop)
        case _:
            return None
    inside = [n for s in loop.body for n in syntax.loads(s, name)]
    is_left = site.function is None or site.escapes(name) or set(site.loads(name)) - set(inside)
    met = _all_meet(site, inside, 0)
    if len(head) != 1 or is_left or not met:
        return None
    copied = "" if syntax.is_new_tensor(tensor) else ".clone()"
    after = f"for {name} in {site.atom(tensor)}.detach(){copied}.unbind():"
    needs: _Needs = {}
    for need in ("{s} with one dimension", *_alike(site, tensor, met, is_int=False)):
        _add(needs, need, site, tensor)
    return Rewrite((head[0].rstrip(),), (after,), is_complete=True, needs=_told(needs))


def _stacked(site: Site) -> Rewrite | None:
    """Write `torch.stack([a, b])` for `torch.tensor([a.item(), b.item()])`."""
    changes: list[Change] = []
    are_floats = False
    for node in calls_in(site.statement):
        if not of_torch(node) or called(node) != "tensor" or len(node.args) != 1:
            continue
        parts = node.args[0].elts if isinstance(node.args[0], ast.List) else []
        known = [tensor for part in parts if (tensor := _number_of(site, part)) is not None]
        if not parts or len(known) != len(parts) or node.keywords or any(called(p) == "int" for p in parts):
            return None
        are_floats = are_floats or any(called(p) == "float" for p in parts)
        listed = ", ".join(f"{site.atom(t)}.detach()" for t in known)
        changes.append((node, f"{site.torch}.stack([{listed}])"))
    kinds = "float32" if are_floats else "float32, or all int64"
    needs = f"all of them are {kinds}, without dimensions, and on the device where their list is to be"
    return site.edit(changes, needs)


def repeated(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `x.repeat(n, *[1] * x.dim())` for `torch.stack([x] * n)`, which wants to know how many it stacks."""
    changes: list[Change] = []
    for call in calls_in(site.statement):
        match call:
            case ast.Call(args=[ast.BinOp(left=ast.List(elts=[one]), op=ast.Mult(), right=count)], keywords=[]):
                tensor = dotted(one)
            case _:
                continue
        if of_torch(call) and called(call) == "stack" and tensor:
            changes.append((call, f"{tensor}.repeat({site.source(count)}, *[1] * {tensor}.dim())"))
    needs = "of no copies it is a tensor without rows, where `torch.stack` is an error"
    return site.edit(changes, needs) if isinstance(site.statement, SIMPLE) else None


# What torch says of an index of tuples of tensors, each a number.
_INDEXED = "<built-in function setitem>", "<built-in function getitem>"
_OF_SINGLE = re.compile(r"\(\(FakeTensor\(\.\.\.,[^()]{0,60}size=\(\), dtype=torch\.int64\)")


def stacked_index(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `x[torch.stack(rows), torch.stack(columns)]` for an index of `rows, columns = zip(*places)`."""
    indices = [n for n in ast.walk(site.statement) if isinstance(n, ast.Subscript) and isinstance(n.slice, ast.Tuple)]
    is_told = any(name in cause.explanation for name in _INDEXED) and _OF_SINGLE.search(cause.explanation)
    if not isinstance(site.statement, SIMPLE) or len(indices) != 1 or not is_told:
        return None
    parts = indices[0].slice.elts if isinstance(indices[0].slice, ast.Tuple) else []
    names = [part for part in parts if isinstance(part, ast.Name) and _is_zipped(site, part.id)]
    return site.edit(
        [(name, f"{site.torch}.stack({name.id})") for name in names],
        " and ".join(f"`{name.id}`" for name in names) + " have tensors of int64 without dimensions, as in this run",
    )


def _is_zipped(site: Site, name: str) -> bool:
    """Whether a name is assigned once, as one of several that `zip(*places)` gives."""
    assigned = [n for n in ast.walk(site.function or site.statement) if isinstance(n, ast.Assign)]
    for one in assigned:
        match one:
            case ast.Assign(
                targets=[ast.Tuple(elts=elements)],
                value=ast.Call(func=ast.Name(id="zip"), args=[ast.Starred()], keywords=[]),
            ) if name in {element.id for element in elements if isinstance(element, ast.Name)}:
                return len(site.uses().stores.get(name, ())) == 1
    return False


RANDOM_NEEDS = "the numbers then come from torch's generator: torch.manual_seed, not another library's"
# The same number to the bit. Torch breaks a graph at the method of C alone: those of Python it draws ahead of each call
# (`call_random_fn` in torch/_dynamo/variables/user_defined.py, torch 2.13).
BY_METHOD: Mapping[str, str] = {"random.random": "random.uniform(0.0, 1.0)"}
_IN_THE_GRAPH = frozenset({*BY_METHOD, "random.uniform"})
_RANDOM = {
    "np.random.rand": "rand", "np.random.random": "rand", "numpy.random.rand": "rand",
    "numpy.random.random": "rand", "np.random.randn": "randn", "numpy.random.randn": "randn",
}  # fmt: skip


def random_number(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Draw a random number that only goes into arithmetic so that it is drawn in the graph: NumPy's by torch."""
    calls = [n for n in calls_in(site.statement) if dotted(n.func) in {*_RANDOM, *BY_METHOD} and not n.args]
    met = [_meetings(site, n, _DEPTH) for n in calls]
    if not calls or not isinstance(site.statement, SIMPLE) or not all(met):
        return None
    if any(dotted(n.func) in _RANDOM for n in calls):
        changes: list[Change] = [(n, f"{site.torch}.{_RANDOM.get(dotted(n.func), 'rand')}(())") for n in calls]
        return site.edit(changes, f"{RANDOM_NEEDS}; what they meet has dimensions, or at least the width of float32")
    is_computed = any(one.is_computed for several in met for one in several)
    if not is_computed:
        return number_that_is_asked(site, _cause)
    # Torch computes with one of Python's random numbers and a tensor alone (2.13).
    changes = [(n, f"{site.torch}.as_tensor({BY_METHOD[dotted(n.func)]}, dtype={site.torch}.float64)") for n in calls]
    return site.edit(changes, "what it meets has dimensions")


def number_that_is_asked(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Draw one of Python's random numbers in the graph: where another line asks for it, that is to be written, too."""
    calls = [n for n in calls_in(site.statement) if dotted(n.func) in BY_METHOD and not n.args]
    if not calls or not isinstance(site.statement, SIMPLE):
        return None
    return site.edit([(n, BY_METHOD[dotted(n.func)]) for n in calls], "")


def is_drawn(node: ast.AST) -> bool:
    """Return whether this draws one of Python's random numbers, and compiled code may."""
    return isinstance(node, ast.Call) and dotted(node.func) in _IN_THE_GRAPH


_FROM_ZERO_TO_ONE = frozenset({"np.random.uniform", "numpy.random.uniform"})


def number_for_training(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Draw the number of `self.training and number < p` in training alone: in evaluation nobody asks for it.

    Torch's generator, which the rest of the program may draw from, is left where it is.
    """
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=function, args=args, keywords=[]) as call):
            bounds = [one.value if isinstance(one, ast.Constant) else None for one in args]
        case _:
            return None
    drawn = dotted(function)
    is_unit = _RANDOM.get(drawn) == "rand" or drawn in BY_METHOD
    is_known = (drawn in _FROM_ZERO_TO_ONE and bounds == [0, 1]) or (is_unit and not bounds)
    reads = site.loads(name)
    is_asked = bool(reads) and all(_asked_in_training(site, read) for read in reads)
    if not is_known or not is_asked or site.escapes(name):
        return None
    needs = f"in evaluation `{drawn}` is not called, and gives others later; in training it still breaks the graph"
    return site.edit([(call, f"{site.source(call)} if self.training else 0.0")], needs)


def _asked_in_training(site: Site, node: ast.AST) -> bool:
    """Whether a value is in a later part of an `and` whose first one is `self.training`."""
    parent = site.parents().get(node)
    while isinstance(parent, ast.expr):
        match parent:
            case ast.BoolOp(op=ast.And(), values=[first, *_]) if first is not node and dotted(first) == "self.training":
                return True
        node, parent = parent, site.parents().get(parent)
    return False
