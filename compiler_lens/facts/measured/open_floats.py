"""A float that changes with each call, where torch needs its one value: written as an operand, which a graph is given.

A graph has a float as an input where a tensor is added to it, or multiplied with it, and as a constant anywhere else:
as an exponent, a bound, what fills a tensor, `label_smoothing=`.
torch/_dynamo/output_graph.py, remove_tensorify_specialized_graphargs; torch/fx/passes/_tensorify_python_scalars.py.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Change, SeenTensors, Site, site_at
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, is_number, of_torch
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.floats import lines_of
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources, expression

OPENED = "what torch is given of the number is then a tensor, or a factor of one, with its rounding to that one's dtype"
_DTYPES = frozenset({"float", "float16", "bfloat16", "float32", "float64", "double", "half"})
_SIMPLE = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)
_CLOSED = (ast.Name, ast.Call, ast.Attribute, ast.Subscript, ast.Constant)


class _Place(Struct, frozen=True):
    """A statement, and whether each number in it is one that changes, or those of a name alone."""

    site: Site
    names: frozenset[str]  # none for each number

    def changes(self, node: ast.expr | None) -> bool:
        """Return whether an expression is a number that may be another with each call."""
        if node is None or is_number(node) or isinstance(node, ast.Constant) or self.site.is_tensor(node):
            return False
        return not self.names or any(_name_of(n) in self.names for n in ast.walk(node))

    def tensor(self, number: ast.expr, beside: ast.expr | None) -> str:
        """Return a number as a tensor without dimensions, of the dtype and the device of one that it is beside."""
        names = ast.walk(beside) if beside is not None else ()
        like = next((n.id for n in names if isinstance(n, ast.Name) and self.site.is_tensor(n)), "")
        ones = f"{like}.new_ones(())" if like else f"{self.site.torch}.ones(())"
        return f"{ones} * {self.atom(number)}"

    def atom(self, node: ast.expr) -> str:
        """Return an expression's text, in brackets where it is not one by itself."""
        text = self.site.source(node)
        return text if isinstance(node, _CLOSED) else f"({text})"


def opened(cause: RecompileCause, known: Sources, seen: SeenTensors, own: Ownership) -> Iterator[Lines]:
    """Yield statements in which torch needs the value of a float that changes, with that as a factor or a summand.

    Args:
        cause: why something was compiled again.
        known: the texts of files.
        seen: by `seen_tensors`, of the whole recording.
        own: whose they are.
    """
    if cause.cause is not CauseClass.FLOAT_ARGUMENT:
        return
    told = list(dict.fromkeys(at for at in lines_of(cause) if own.owns(at.file)))
    every = {(at.file, site.line): _Place(site, frozenset()) for at in told if (site := site_at(known, at, seen))}
    for (file, _), place in list(every.items()):
        names = _made_of(cause.subject.rpartition(".")[2], place.site)
        for line in _others(place.site, names):
            at = SourceLine(file=file, line=line, function="", code="")
            if site := site_at(known, at, seen):
                every.setdefault((file, line), _Place(site, names))
    for (file, line), place in every.items():
        found = place.site.edit(list(_changes(place)))
        if found:
            yield Lines(file, line, found.before, found.after)


def _made_of(name: str, site: Site) -> frozenset[str]:
    """Return a name, and those of the same function that are a number computed of it."""
    found = {name}
    for one in ast.walk(site.function) if site.function else ():
        match one:
            case ast.Assign(targets=[ast.Name(id=made)], value=value) if not site.is_tensor(value):
                parts = set(ast.walk(value))
                is_made = any(_name_of(n) in found for n in parts)
                found |= {made} if is_made and not any(isinstance(n, ast.Call) for n in parts) else set()
    return frozenset(found)


def _others(site: Site, names: frozenset[str]) -> Sequence[int]:
    """Return the lines of the simple statements, in the function of another, that mention one of some names."""
    if site.function is None or isinstance(site.function, ast.Lambda):
        return ()
    simple = (n for n in ast.walk(site.function) if isinstance(n, _SIMPLE))
    return [one.lineno for one in simple if any(_name_of(n) in names for n in ast.walk(one))]


def _name_of(node: ast.AST) -> str:
    """Return what a name, or an attribute, is called; empty of anything else."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def _changes(place: _Place) -> Iterator[Change]:
    """Yield what is changed in a statement: of several that are within each other the outermost alone."""
    if not isinstance(place.site.statement, _SIMPLE):
        return
    done: set[ast.AST] = set()
    for node in ast.walk(place.site.statement):
        new = "" if node in done else _new(place, node)
        if new and isinstance(node, ast.expr):
            done |= set(ast.walk(node))
            is_closed = isinstance(expression(new), _CLOSED) or _is_alone(place.site, node)
            yield node, new if is_closed else f"({new})"


def _is_alone(site: Site, node: ast.expr) -> bool:
    return isinstance(site.parents().get(node), (ast.stmt, ast.Call, ast.keyword))


def _new(place: _Place, node: ast.AST) -> str:
    match node:
        case ast.BinOp(left=base, op=ast.Pow(), right=power) if place.changes(power) and place.site.is_tensor(base):
            return f"{place.atom(base)} ** ({place.tensor(power, base)})"
        case ast.BinOp(left=base, op=ast.Pow(), right=power) if place.changes(base) and place.site.is_tensor(power):
            return f"({place.tensor(base, power)}) ** {place.atom(power)}"
        case ast.BinOp(left=number, op=ast.Sub(), right=of) if place.changes(number) and place.site.is_tensor(of):
            return f"-({place.atom(of)} - {place.atom(number)})"
        case ast.Call():
            return _call(place, node)
    return ""


def _call(place: _Place, call: ast.Call) -> str:
    """Return a call that needs a number's value with one that does not; empty for others."""
    if any(isinstance(n, ast.Starred) for n in call.args) or any(one.arg is None for one in call.keywords):
        return ""
    written = _WAYS.get(called(call))
    return written(place, call) if written else ""


# Where a function takes a tensor in place of a number: as which argument of the function in `torch`, and by which name.
_BESIDE = {
    "clamp": (("min", 1), ("max", 2)), "clip": (("min", 1), ("max", 2)), "clamp_": (("min", 1), ("max", 2)),
    "where": (("input", 1), ("other", 2)), "lerp": (("weight", 2),), "lerp_": (("weight", 2),),
    "masked_fill": (("value", 2),), "masked_fill_": (("value", 2),),
}  # fmt: skip
# By which keyword a function takes a factor of its second tensor.
_FACTORS = {
    "add": "alpha", "sub": "alpha", "add_": "alpha", "sub_": "alpha",
    "addcmul": "value", "addcdiv": "value", "addcmul_": "value", "addcdiv_": "value",
}  # fmt: skip


def _beside(place: _Place, call: ast.Call) -> str:
    """Return a call with tensors for numbers; empty where another bound is a number that does not change."""
    places, is_method = _BESIDE[called(call)], not of_torch(call)
    given = {one.arg: one.value for one in call.keywords}
    given |= {name: call.args[at - is_method] for name, at in places if is_method <= at < len(call.args) + is_method}
    found = [given[name] for name, _ in places if name in given]
    numbers = [one for one in found if place.changes(one)]
    receiver = call.func.value if is_method and isinstance(call.func, ast.Attribute) else None
    first = receiver if receiver is not None else next(iter(call.args), None)
    others = [one for one in found if one not in numbers]
    are_tensors = all(map(place.site.is_tensor, others))
    if not numbers or not are_tensors or (called(call) == "where" and (is_method or not others)):
        return ""
    beside = next(iter(others), first)
    return place.site.source(call, [(one, place.tensor(one, beside)) for one in numbers])


def _times(place: _Place, call: ast.Call) -> str:
    """Return `torch.add(x, y, alpha=s)` as `torch.add(x, y * s)`."""
    name, at = _FACTORS[called(call)], int(of_torch(call))
    number = next((one.value for one in call.keywords if one.arg == name), None)
    if not place.changes(number) or number is None or len(call.args) <= at:
        return ""
    args = [place.site.source(one) for one in call.args]
    args[at] = f"{place.atom(call.args[at])} * {place.atom(number)}"
    return _written(place, call, args, {name})


def _smoothed(place: _Place, call: ast.Call) -> str:
    """Return a cross entropy whose smoothing changes as the two that it is made of: it is linear in that number."""
    number = next((one.value for one in call.keywords if one.arg == "label_smoothing"), None)
    if not place.changes(number) or number is None:
        return ""
    plain = _written(place, call, [place.site.source(one) for one in call.args], {"label_smoothing"})
    share = place.atom(number)
    return f"(1 - {share}) * {plain} + {share} * {plain[:-1]}, label_smoothing=1.0)"


def _written(place: _Place, call: ast.Call, args: Sequence[str], without: set[str]) -> str:
    more = [f"{one.arg}={place.site.source(one.value)}" for one in call.keywords if one.arg not in without]
    return f"{place.site.source(call.func)}({', '.join((*args, *more))})"


def _filled(place: _Place, call: ast.Call) -> str:
    """Return a tensor that is made of a number as ones of its shape times that, or as zeros and that."""
    site, of = place.site, place.site.source(call.func).rpartition(".")[0]
    more = {one.arg: one.value for one in call.keywords}
    dtype = more.get("dtype")
    is_known = dtype is None or dotted(dtype).rpartition(".")[2] in {*_DTYPES, "dtype"}
    if not is_known or not more.keys() <= {"dtype", "device"}:
        return ""
    rest = "".join(f", {name}={site.source(value)}" for name, value in more.items())
    match called(call), call.args:
        case "full_like", [like, number] if of_torch(call) and not more and place.changes(number):
            return f"{of}.zeros_like({site.source(like)}) + {place.atom(number)}"
        case "full", [size, number] if of_torch(call) and place.changes(number):
            return f"{of}.ones({site.source(size)}{rest}) * {place.atom(number)}"
        case "tensor" | "as_tensor" | "scalar_tensor", [number] if of_torch(call) and _is_one(place, number):
            return f"{of}.ones((){rest}) * {place.atom(number)}"
        case "new_tensor", [number] if not of_torch(call) and _is_one(place, number):
            return f"{of}.new_ones((){rest}) * {place.atom(number)}"
    return ""


def _is_one(place: _Place, number: ast.expr) -> bool:
    """Return whether a tensor is made of one number, as far as its text shows."""
    return place.changes(number) and not isinstance(number, (ast.List, ast.Tuple, ast.ListComp, ast.GeneratorExp))


def _drawn(place: _Place, call: ast.Call) -> str:
    """Return `torch.normal(mean=m, std=s, size=n)` as `torch.randn(n) * s + m`, which draws the same."""
    site = place.site
    if not of_torch(call) or not any(map(place.changes, (*call.args[:2], *(one.value for one in call.keywords)))):
        return ""
    given = dict(zip(("mean", "std", "size"), call.args, strict=False))
    given |= {one.arg or "": one.value for one in call.keywords}
    mean, std, size = (given.pop(name, None) for name in ("mean", "std", "size"))
    if mean is None or std is None or size is None or not given.keys() <= {"generator", "dtype", "device"}:
        return ""
    more = "".join(f", {name}={site.source(value)}" for name, value in given.items())
    drawn = f"{site.torch}.randn({site.source(size)}{more}) * {place.atom(std)}"
    is_zero = isinstance(mean, ast.Constant) and not mean.value
    return drawn if is_zero else f"{drawn} + {place.atom(mean)}"


_WAYS: Mapping[str, Callable[[_Place, ast.Call], str]] = {
    **dict.fromkeys(_BESIDE, _beside),
    **dict.fromkeys(_FACTORS, _times),
    **dict.fromkeys(("full_like", "full", "tensor", "as_tensor", "scalar_tensor", "new_tensor"), _filled),
    "normal": _drawn,
    "cross_entropy": _smoothed,
}
