"""Methods that only keep books in what their object owns, of tensors that they take numbers of: they may run later."""

from __future__ import annotations

import ast
import builtins
import copy
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from enum import IntEnum
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.messages import LEVELS, is_message_in
from compiler_lens.facts.breaks.rewrites.others import assigned
from compiler_lens.facts.breaks.rewrites.plain import is_plain
from compiler_lens.facts.breaks.rewrites.syntax import (
    OF_TENSORS,
    Function,
    called,
    dotted,
    is_pure_call,
    of_torch,
    parameters,
)

# fmt: off
_GRAD_MODES = frozenset({"torch.no_grad", "torch.inference_mode"})
_OF_NUMBERS = frozenset({"float", "int", "bool", "len"})
_OF_VALUES = frozenset({
    "abs", "all", "any", "dict", "enumerate", "list", "max", "min", "range", "reversed", "round", "set", "sorted",
    "sum", "tuple", "zip",
})
# Functions of NumPy's whose result shares no memory with what they are given.
_NUMPY = frozenset({
    "abs", "arange", "argmax", "bincount", "concatenate", "full", "histogram", "mean", "median", "ones", "percentile",
    "quantile", "sqrt", "stack", "std", "sum", "unique", "var", "zeros", "zeros_like",
})
OF_CONTAINERS = frozenset({
    "add", "append", "appendleft", "clear", "copy", "count", "discard", "extend", "fill", "get", "index", "insert",
    "items", "keys", "max", "mean", "min", "pop", "popleft", "remove", "reverse", "setdefault", "sort", "sum", "total",
    "update", "values",
})
_MORE_OF_TENSORS = frozenset({"bincount", "cpu", "max", "median", "min", "nonzero", "topk", "unique"})
_CONTAINERS = frozenset({"Counter", "OrderedDict", "defaultdict", "deque", "dict", "list", "set"})
_ARRAYS = frozenset({f"{module}.{name}" for module in ("np", "numpy") for name in ("full", "ones", "zeros")})
_BASES = frozenset({"object", "nn.Module", "torch.nn.Module"})
_OF_ATTRIBUTES = frozenset({"__delattr__", "__getattr__", "__getattribute__", "__setattr__", "setattr"})
_SHAPES = frozenset({"device", "dtype", "ndim", "shape"})
_GIVE_NUMBERS = frozenset({"dim", "item", "numel", "size", "tolist"})
_EVIDENT = OF_TENSORS | {"cpu", "numpy", "tolist"}  # what numbers and texts do not have
_PARTS = (
    ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.IfExp, ast.Compare, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.Slice,
    ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp, ast.JoinedStr, ast.FormattedValue,
)
# fmt: on


class Kind(IntEnum):
    """What a value may be; of several the largest."""

    PLAIN = 0  # numbers, texts, what is made of them here, and what the object owns
    ARRAY = 1  # of NumPy's, which may share memory with a tensor
    TENSOR = 2
    UNKNOWN = 3


class Known(Struct, frozen=True):
    """What a method's text is read with."""

    tree: ast.Module
    owner: ast.ClassDef
    names: Mapping[str, Kind]  # of local names, and of constants of the module's
    function: ast.FunctionDef
    giving: AbstractSet[str] = frozenset()  # methods of the object's own that give a number, and are given nothing


def methods_of(owner: ast.ClassDef) -> Mapping[str, ast.FunctionDef]:
    """Return the methods of a class by their names, where there is one of a name."""
    found = [one for one in owner.body if isinstance(one, ast.FunctionDef)]
    names = [one.name for one in found]
    return {one.name: one for one in found if names.count(one.name) == 1}


def evident_tensors(function: ast.FunctionDef) -> frozenset[str]:
    """Return the parameters of which a method asks what tensors have."""
    asked = (n.func.value for n in ast.walk(function) if isinstance(n, ast.Call) and called(n) in _EVIDENT
             and isinstance(n.func, ast.Attribute))  # fmt: skip
    return frozenset(n.id for n in asked if isinstance(n, ast.Name)) & frozenset(parameters(function))


def run_with(
    tree: ast.Module, owner: ast.ClassDef, function: ast.FunctionDef, kinds: Mapping[str, Kind]
) -> frozenset[ast.FunctionDef]:
    """Return a method, and those that it calls, if it only keeps books in what its object owns; else nothing.

    Args:
        tree: the file's.
        owner: the class.
        function: the method.
        kinds: what it is given, by its parameters.
    """
    found = _run_with(tree, owner, function, kinds, ()) if _is_simple(tree, owner) else frozenset[ast.FunctionDef]()
    is_owned = all(_is_owned(tree, owner, name, found) for name in attributes_of(found))
    names = {one.name for one in found}
    is_other = any(names & set(methods_of(one)) for one in derived(tree, owner)) or any(
        _is_set(n, names) for n in ast.walk(tree)
    )
    given = {name for one in owner.body if not isinstance(one, ast.FunctionDef) for name in _names_of(one)}
    return found if is_owned and not is_other and not given & names else frozenset()


def class_around(tree: ast.Module, function: Function | None) -> ast.ClassDef | None:
    """Return the class of the module's that a function is a method of; None of any other function."""
    is_method = function is not None and parameters(function)[:1] == ("self",)
    classes = (one for one in tree.body if isinstance(one, ast.ClassDef))
    return next((one for one in classes if is_method and function in one.body), None)


def module_around(tree: ast.Module, function: Function | None) -> ast.ClassDef | None:
    """Return the same where that is a module of torch's, and no class of the file derives from it."""
    owner = class_around(tree, function)
    return owner if owner and is_module(owner) and not derived(tree, owner) else None


def is_module(owner: ast.ClassDef) -> bool:
    """Return whether a class is a module of torch's, by the name of what it derives from."""
    return any(dotted(base).endswith("Module") for base in owner.bases)


def modules_of(tree: ast.Module, method: Function | None, torch: str) -> str:
    """Return, as code, all modules that the object of a method has; it may be a trainer, and no module itself."""
    owner = class_around(tree, method)
    if owner is None or owner.bases:
        return "self.modules()"
    return f"(one for held in vars(self).values() if isinstance(held, {torch}.nn.Module) for one in held.modules())"


def derived(tree: ast.Module, owner: ast.ClassDef) -> list[ast.ClassDef]:
    """Return the classes of a file that derive from one, by its name."""
    return [one for one in _classes(tree) if owner.name in {dotted(base).rpartition(".")[2] for base in one.bases}]


def _is_set(node: ast.AST, names: AbstractSet[str]) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in names and not isinstance(node.ctx, ast.Load)


def _classes(tree: ast.Module) -> list[ast.ClassDef]:
    return [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]


def _is_simple(tree: ast.Module, owner: ast.ClassDef) -> bool:
    """Return whether attributes and methods of a class are what its text shows, and containers are Python's."""
    bases = {dotted(one) for one in owner.bases}
    names = {n.name for n in ast.walk(tree) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    names |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == "setattr"}
    is_plain = bases <= _BASES and not owner.keywords and not owner.decorator_list
    return is_plain and not names & {*_CONTAINERS, *_OF_ATTRIBUTES}


def attributes_of(functions: AbstractSet[ast.FunctionDef]) -> frozenset[str]:
    """Return the attributes of their object that methods mention, other than one another."""
    nodes = (n for one in functions for n in ast.walk(one) if isinstance(n, ast.Attribute))
    return frozenset(n.attr for n in nodes if dotted(n.value) == "self") - {one.name for one in functions}


def changing(tree: ast.Module, functions: AbstractSet[ast.FunctionDef]) -> frozenset[str]:
    """Return the attributes of their object that methods mention, but those that the file sets once, to what stays."""
    self = ast.Name("self", ast.Load())
    return frozenset(
        name for name in attributes_of(functions) if not is_plain(tree, ast.Attribute(self, name, ast.Load()))
    )


def _run_with(
    tree: ast.Module,
    owner: ast.ClassDef,
    function: ast.FunctionDef,
    kinds: Mapping[str, Kind],
    outer: tuple[ast.FunctionDef, ...],
) -> frozenset[ast.FunctionDef]:
    own, arguments = parameters(function), function.args
    is_plain = own[:1] == ("self",) and not arguments.vararg and function not in outer
    marks = {dotted(getattr(one, "func", one)) for one in function.decorator_list}
    defaults = [*arguments.defaults, *filter(None, arguments.kw_defaults)]
    if not is_plain or not marks <= _GRAD_MODES or not all(isinstance(one, ast.Constant) for one in defaults):
        return frozenset()
    start = {**_constants(tree), **dict.fromkeys(own[1:], Kind.PLAIN), **kinds}
    giving = _giving(tree, owner, function, (*outer, function))
    read = _AsNumbers().visit(copy.deepcopy(function))
    first = Known(tree, owner, start, read, frozenset(one.name for one, _ in giving))
    known = replace(first, names=_names(first, read))
    found = {function, *(inner for _, several in giving for inner in several)}
    for one in read.body:
        for call in _own_calls(known, one):
            inner = methods_of(owner)[called(call)]
            more = _run_with(tree, owner, inner, _by_place(known, inner, call), (*outer, function))
            if not more or call.keywords:
                return frozenset()
            found |= more
        if not _is_kept(known, one):
            return frozenset()
    return frozenset(found)


def _by_place(known: Known, function: ast.FunctionDef, call: ast.Call) -> Mapping[str, Kind]:
    return dict(zip(parameters(function)[1:], (_kind(known, one) for one in call.args), strict=False))


class _AsNumbers(ast.NodeTransformer):
    """Gives a number that is taken of a tensor, if it is one (`if is_tensor(v): v = v.item()`), a name of its own."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("body", "orelse"):
            several = getattr(node, field, None)
            if isinstance(several, list):
                setattr(node, field, list(_with_names(several)))
        return super().generic_visit(node)


def _with_names(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    renamed: dict[str, str] = {}
    for one in statements:
        for node in ast.walk(one):
            if isinstance(node, ast.Name) and node.id in renamed:
                node.id = renamed[node.id]
        match one:
            case ast.If(test=test, body=[ast.Assign(targets=[ast.Name(id=name)], value=value)], orelse=[]):
                if _asks_for_tensor(test, name):
                    renamed[name] = f"{name} as number"  # which no name can be
                    either = ast.IfExp(test, value, ast.Name(name, ast.Load()))
                    yield ast.copy_location(ast.Assign([ast.Name(renamed[name], ast.Store())], either), one)
                    continue
        yield one


def _asks_for_tensor(test: ast.expr, name: str) -> bool:
    """Return whether a test is whether a name is a tensor, and no more."""
    match test:
        case ast.Call(func=ast.Name(id="isinstance"), args=[ast.Name(id=of), kind], keywords=[]):
            return of == name and dotted(kind) in {"Tensor", "torch.Tensor"}
        case ast.Call(func=function, args=[ast.Name(id=of)], keywords=[]):
            return of == name and dotted(function) == "torch.is_tensor"
    return False


def _giving(
    tree: ast.Module, owner: ast.ClassDef, function: ast.FunctionDef, outer: tuple[ast.FunctionDef, ...]
) -> Sequence[tuple[ast.FunctionDef, frozenset[ast.FunctionDef]]]:
    """Return the methods of its object that a method asks for a number, each with those that it calls."""
    asked = [n.func for n in ast.walk(function) if isinstance(n, ast.Call) and not n.args and not n.keywords]
    names = {n.attr for n in asked if isinstance(n, ast.Attribute) and dotted(n.value) == "self"}
    found = [(one, _run_with(tree, owner, one, {}, outer)) for name, one in methods_of(owner).items() if name in names]
    return [(one, several) for one, several in found if several and _gives_number(tree, owner, one, outer)]


def _gives_number(
    tree: ast.Module, owner: ast.ClassDef, function: ast.FunctionDef, outer: tuple[ast.FunctionDef, ...]
) -> bool:
    """Return whether all that a method may return is computed of numbers: what its object has may be a list."""
    inner = frozenset(one.name for one, _ in _giving(tree, owner, function, (*outer, function)))
    known = Known(tree, owner, _constants(tree), function, inner)
    values = [n.value for n in ast.walk(function) if isinstance(n, ast.Return)]
    computed = (ast.BinOp, ast.Compare, ast.Constant)
    return bool(values) and all(isinstance(one, computed) and _kind(known, one) is Kind.PLAIN for one in values)


def _constants(tree: ast.Module) -> Mapping[str, Kind]:
    """Return the names that the module gives to numbers and texts, once."""
    stored = [n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]
    found: dict[str, Kind] = {}
    for one in tree.body:
        match one:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant()) if stored.count(name) == 1:
                found[name] = Kind.PLAIN
    return found


def _names(known: Known, function: ast.FunctionDef) -> Mapping[str, Kind]:
    """Return what local names may be, whichever assignment came last."""
    pairs = [(_stored(target), value) for target, value in _bound(function)]
    names = {**dict.fromkeys((name for stored, _ in pairs for name in stored), Kind.PLAIN), **known.names}
    while True:
        now, before = replace(known, names=dict(names)), dict(names)
        for stored, value in pairs:
            names |= {name: max(names[name], _kind(now, value)) for name in stored}
        if names == before:
            return names


def _stored(target: ast.expr) -> Sequence[str]:
    return [n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _bound(function: ast.FunctionDef) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what is assigned, looped over and added to."""
    for node in ast.walk(function):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield from ((target, value) for target in targets)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield target, value
            case ast.For(target=ast.Tuple(elts=[key, value]), iter=several) if given := _given_by_name(
                function, several
            ):
                yield from ((key, ast.Constant("")), (value, given))
            case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
                yield target, value


def _given_by_name(function: ast.FunctionDef, node: ast.expr) -> ast.Name | None:
    """Return the name of all that a function is given by other keywords than its parameters, if that is looped over."""
    rest = function.args.kwarg
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=name) as given, attr="items"), args=[]) if (
            rest and name == rest.arg
        ):
            return given
    return None


# -- statements


def _own_calls(known: Known, statement: ast.stmt) -> Iterator[ast.Call]:
    """Yield the calls of other methods of the object's, whose result nobody uses."""
    for node in ast.walk(statement):
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)) as call):
                if name in methods_of(known.owner):
                    yield call


def _is_kept(known: Known, node: ast.stmt) -> bool:  # noqa: PLR0911 -- one for each kind of statement
    match node:
        case ast.Pass() | ast.Break() | ast.Continue() | ast.Return(value=None) | ast.Expr(value=ast.Constant()):
            return True
        case ast.Expr(value=ast.Call() as call) if call in list(_own_calls(known, node)):
            return all(_kind(known, one) is not Kind.UNKNOWN for one in call.args)
        case ast.Expr(value=ast.Call(args=args, keywords=[]) as call) if _logs(known, call):
            return all(_kind(known, one) is Kind.PLAIN for one in args)  # a tensor's copy would be told as another
        case ast.Expr(value=ast.expr() as value) | ast.Return(value=ast.expr() as value):
            return _kind(known, value) is not Kind.UNKNOWN
        case ast.Assign(targets=targets, value=value):
            return all(_is_stored(known, one, _kind(known, value)) for one in targets)
        case ast.AnnAssign(target=target, value=ast.expr() as value):
            return _is_stored(known, target, _kind(known, value))
        case ast.AugAssign(target=target, value=value):
            is_plain = not isinstance(target, ast.Name) or known.names.get(target.id) is Kind.PLAIN
            return is_plain and _kind(known, value) is Kind.PLAIN and _is_stored(known, target, Kind.PLAIN)
        case ast.If(test=asked, body=body, orelse=orelse) | ast.For(iter=asked, body=body, orelse=orelse):
            is_plain = not isinstance(node, ast.For) or _is_stored(known, node.target, _kind(known, asked))
            is_known = _kind(known, asked) is not Kind.UNKNOWN
            return is_plain and is_known and all(_is_kept(known, one) for one in (*body, *orelse))
        case ast.With(items=items, body=body):
            modes = {dotted(getattr(one.context_expr, "func", one.context_expr)) for one in items}
            is_plain = modes <= _GRAD_MODES and all(one.optional_vars is None for one in items)
            return is_plain and all(_is_kept(known, one) for one in body)
    return False


def _logs(known: Known, call: ast.Call) -> bool:
    """Return whether a call writes a message by Python's logging, which may as well come after the call."""
    is_logging = called(call) in LEVELS and dotted(call.func) != "warnings.warn"  # whose place says whether it is told
    return is_logging and is_message_in(known.tree, known.function, call)


def _is_stored(known: Known, target: ast.expr, kind: Kind) -> bool:
    """Return whether a value goes to a local name, or numbers to what the object owns."""
    match target:
        case ast.Name():
            return kind is not Kind.UNKNOWN
        case ast.Tuple(elts=parts):
            return all(_is_stored(known, one, kind) for one in parts)
        case ast.Attribute(value=ast.Name(id="self")):
            return kind is Kind.PLAIN
        case ast.Subscript(value=owner, slice=index):
            return kind is Kind.PLAIN and _kind(known, owner) is Kind.PLAIN and _kind(known, index) <= Kind.ARRAY
    return False


# -- expressions


def _kind(known: Known, node: ast.expr) -> Kind:  # noqa: PLR0911 -- one for each kind of expression
    match node:
        case ast.Constant():
            return Kind.PLAIN
        case ast.Name(id=name):
            return known.names.get(name, Kind.UNKNOWN)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            return Kind.UNKNOWN if name in methods_of(known.owner) else Kind.PLAIN
        case ast.Attribute(value=owner, attr=name):
            is_shape = name in _SHAPES and _kind(known, owner) is not Kind.UNKNOWN
            return Kind.PLAIN if is_shape or dotted(node) in ("math.inf", "math.nan") else Kind.UNKNOWN
        case ast.Subscript(value=owner, slice=index):
            kind, by = _kind(known, owner), _kind(known, index)
            return Kind.UNKNOWN if kind is Kind.PLAIN and by > Kind.ARRAY else max(kind, by)
        case ast.Call() if (several := _given_by_name(known.function, node)) is not None:
            return _kind(known, several)
        case ast.IfExp(test=test, body=body, orelse=ast.Name(id=name)) if _asks_for_tensor(test, name):
            return _kind(known, body) if known.names.get(name) in (Kind.PLAIN, Kind.TENSOR) else Kind.UNKNOWN
        case ast.Call(args=args, keywords=keywords):
            given = [_kind(known, one) for one in (*args, *(one.value for one in keywords))]
            is_known = Kind.UNKNOWN not in given and all(one.arg not in (None, "out", "inplace") for one in keywords)
            return _of_call(known, node, max(given, default=Kind.PLAIN)) if is_known else Kind.UNKNOWN
    return _of_parts(known, node) if isinstance(node, _PARTS) else Kind.UNKNOWN


def _of_parts(known: Known, node: ast.expr) -> Kind:
    every = [n for one in ast.iter_child_nodes(node) for n in _expressions(one)]
    kind = max((_kind(known, one) for one in every), default=Kind.PLAIN)
    is_by_identity = isinstance(node, (ast.Set, ast.SetComp, ast.Dict, ast.DictComp, ast.JoinedStr)) or (
        isinstance(node, ast.Compare) and any(isinstance(op, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for op in node.ops)
    )
    if is_by_identity and kind > Kind.PLAIN:
        return Kind.UNKNOWN
    is_new = isinstance(node, (ast.BinOp, ast.Compare)) and kind is Kind.ARRAY
    return Kind.PLAIN if is_new else kind


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Yield an expression, and of a comprehension what it asks: its names have the kind of what it loops over."""
    if isinstance(node, ast.expr):
        yield node
    elif isinstance(node, ast.comprehension):
        yield from (node.iter, *node.ifs)


def _of_call(known: Known, call: ast.Call, given: Kind) -> Kind:
    function, name = call.func, called(call)
    if isinstance(function, ast.Name):
        is_own = name in known.names or not hasattr(builtins, name) or _is_defined(known.tree, name)
        if is_own or name not in _OF_NUMBERS | _OF_VALUES:
            return Kind.UNKNOWN
        return Kind.PLAIN if name in _OF_NUMBERS else given
    if not isinstance(function, ast.Attribute):
        return Kind.UNKNOWN
    module = dotted(function.value)
    is_own = module == "self" and name in known.giving and not call.args
    if is_own or module == "math" or (module in ("np", "numpy") and name in _NUMPY):
        return Kind.PLAIN
    if of_torch(call):
        return Kind.TENSOR if is_pure_call(call) else Kind.UNKNOWN
    return _of_method(call, name, _kind(known, function.value), given)


def _of_method(call: ast.Call, name: str, owner: Kind, given: Kind) -> Kind:
    if owner is Kind.UNKNOWN or name in _GIVE_NUMBERS:
        return Kind.PLAIN if owner is not Kind.UNKNOWN else owner
    if owner is Kind.PLAIN:
        return Kind.PLAIN if name in OF_CONTAINERS and given is Kind.PLAIN else Kind.UNKNOWN
    if name == "numpy":
        return Kind.ARRAY
    return max(owner, given) if is_pure_call(call) or name in _MORE_OF_TENSORS else Kind.UNKNOWN


def _is_defined(tree: ast.Module, name: str) -> bool:
    """Return whether a file gives a name of Python's to something else."""
    nodes = list(ast.walk(tree))
    imported = {(n.asname or n.name) for n in nodes if isinstance(n, ast.alias)}
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Load)}
    return name in imported | stored | {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}


# -- what an object owns


def values_of(tree: ast.AST, name: str) -> Sequence[tuple[ast.Attribute, ast.expr]] | None:
    """Return what a file assigns to an attribute, with the places; None where it does not all show."""
    values, stored = _attributes(tree)
    found = values.get(name, [])
    return found if stored.get(name, set()) == {one for one, _ in found} else None


_Values = Mapping[str, list[tuple[ast.Attribute, ast.expr]]]


@lru_cache(maxsize=4)
def _attributes(tree: ast.AST) -> tuple[_Values, Mapping[str, set[ast.Attribute]]]:
    """Return by name what a file assigns to attributes, and where it gives them a value but to add to the one there."""
    values: _Values = defaultdict(list)
    stored: Mapping[str, set[ast.Attribute]] = defaultdict(set)
    added = {n.target for n in ast.walk(tree) if isinstance(n, ast.AugAssign)}
    for node in ast.walk(tree):
        for one, value in assigned(node):
            if isinstance(one, ast.Attribute):
                values[one.attr].append((one, value))
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load) and node not in added:
            stored[node.attr].add(node)
    return values, stored


def _is_owned(tree: ast.Module, owner: ast.ClassDef, name: str, but: AbstractSet[ast.FunctionDef]) -> bool:
    """Return whether an attribute holds what the object made itself, or a constant, wherever the file assigns it."""
    values = values_of(tree, name)
    in_class = [one for one in owner.body if not isinstance(one, (ast.Assign, ast.AnnAssign)) or not _is_constant(one)]
    if not values or name in {key for one in in_class for key in _names_of(one)}:
        return False
    elsewhere = {n for other in _classes(tree) if other is not owner for n in ast.walk(other)}
    checked = {n for one in but for n in ast.walk(one)}
    maker = methods_of(owner).get("__init__")
    own = [(at, value) for at, value in values if dotted(at.value) != "self" or at not in elsewhere]
    return bool(own) and all(
        at in checked or _is_new(value) or _is_given(tree, owner, maker, value) for at, value in own
    )


def _is_constant(one: ast.Assign | ast.AnnAssign) -> bool:
    return one.value is None or isinstance(one.value, ast.Constant)


def _names_of(one: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement of a class gives to something."""
    match one:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case _:
            yield from (n.id for n in ast.walk(one) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _is_new(node: ast.expr) -> bool:
    """Return whether an expression makes numbers, or what holds nothing but them."""
    match node:
        case ast.Constant() | ast.UnaryOp(operand=ast.Constant()):
            return True
        case ast.List(elts=parts) | ast.Set(elts=parts) | ast.Tuple(elts=parts) | ast.Dict(values=parts):
            return all(map(_is_new, parts))
        case ast.BinOp(left=ast.List() as part, op=ast.Mult()) | ast.ListComp(elt=part) | ast.DictComp(value=part):
            return _is_new(part)
        case ast.Call(func=function, args=args, keywords=keywords):
            name = dotted(function)
            is_empty = all(_is_type(one) or _is_new(one) for one in args)
            is_container = name.rpartition(".")[2] in _CONTAINERS and all(one.arg == "maxlen" for one in keywords)
            return (is_container and is_empty) or name in _ARRAYS
    return False


def _is_type(node: ast.expr) -> bool:
    """Return whether an expression is what makes the values of a `defaultdict`."""
    return isinstance(node, ast.Name) and node.id in _OF_NUMBERS | _CONTAINERS


def _is_given(tree: ast.Module, owner: ast.ClassDef, maker: ast.FunctionDef | None, value: ast.expr) -> bool:
    """Return whether a value is an argument of the class's, for which the file gives constants alone."""
    if maker is None or not isinstance(value, ast.Name) or value.id not in parameters(maker):
        return False
    uses = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == owner.name]
    made = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and n.func in uses]
    arguments = [n for one in made for n in (*one.args, *(key.value for key in one.keywords))]
    defaults = [*maker.args.defaults, *filter(None, maker.args.kw_defaults)]
    constants = _constants(tree)
    is_stored = any(
        isinstance(n, ast.Name) and n.id == value.id and isinstance(n.ctx, ast.Store) for n in ast.walk(maker)
    )
    return (
        len(uses) == len(made)
        and not is_stored
        and all(
            isinstance(n, ast.Constant) or (isinstance(n, ast.Name) and n.id in constants) or is_plain(tree, n)
            for n in (*arguments, *defaults)
        )
    )
