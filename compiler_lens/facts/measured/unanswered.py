"""Calls whose result nobody uses, of methods that keep books (`self.meter.update(logits, y)`): Python makes them later.

Compiled code only adds what the method is given to a list, and Python calls it after the call.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.others import assigned, given_to
from compiler_lens.facts.breaks.rewrites.site import Site, nodes_in, only_line, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import Function, called, dotted, parameters
from compiler_lens.facts.measured.called import functions_in, named_functions
from compiler_lens.facts.measured.collected import (
    INNER,
    OF_ANY,
    gives_a_value,
    has_lines,
    is_for_eager,
    roots,
    taking,
    with_list,
)
from compiler_lens.facts.measured.own_state import (
    OF_CONTAINERS,
    Kind,
    attributes_of,
    changing,
    class_around,
    evident_tensors,
    methods_of,
    run_with,
    values_of,
)
from compiler_lens.facts.measured.reached import free, identifiers, reached
from compiler_lens.recording.source_text import first_line

# What has a function run twice, or compute otherwise than after it.
_OTHERWISE = frozenset({"autocast", "checkpoint", "set_default_dtype", "setattr"})
_LITERALS = (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp, ast.JoinedStr)  # no tensors
_DICTS = frozenset({"Counter", "OrderedDict", "defaultdict", "dict"})
_AROUND = (ast.If, ast.For)  # a statement that waits


class Given(Struct, frozen=True):
    """What a call gives, as compiled code keeps it, and as Python hands it on."""

    kept: str
    made: str  # of that `{value}`
    kind: Kind
    parameter: str = ""
    keyword: str = ""  # as which it is given; empty: by its place

    @property
    def argument(self) -> str:
        """What Python writes of it."""
        return f"{self.keyword}={self.made}" if self.keyword else self.made


class Call(Struct, frozen=True):
    """A statement that calls a method of the file's, and does nothing else."""

    site: Site
    node: ast.Call
    owner: ast.ClassDef
    method: ast.FunctionDef

    @property
    def of(self) -> ast.expr:
        """The object."""
        assert isinstance(self.node.func, ast.Attribute)  # noqa: S101 -- `_calls` asks for a method
        return self.node.func.value


class Later(Struct, frozen=True):
    """All calls of a method that compiled code may come to."""

    calls: Sequence[Call]
    given: Sequence[Sequence[Given]]  # for each of them
    functions: AbstractSet[ast.FunctionDef]  # the method, and others of its object's that it calls


def waits(text: str, line: int) -> bool:
    """Return whether a line calls a method that keeps books, or stands in one: the call may wait."""
    tree = parsed(text)
    return tree is not None and _method_at(tree, _calls(text, tree), line) is not None


def booked_in(text: str, line: int) -> frozenset[str]:
    """Return the attributes of the method that keeps books which a line calls, or stands in; none of another line."""
    tree = parsed(text)
    calls = _calls(text, tree) if tree else ()
    method = _method_at(tree, calls, line) if tree else None
    found = _later(tree, [one for one in calls if one.method is method]) if tree and method else None
    return attributes_of(found.functions if found else {method} if method else frozenset())


def called_at(text: str, line: int, name: str) -> frozenset[int]:
    """Return the lines at which a function comes to the method that keeps books, at or in which a line stands."""
    tree = parsed(text)
    found = _found(text, tree, line, name) if tree else None
    return frozenset(one.node.lineno for one in found.calls) if found else frozenset()


def may_be_anothers(text: str, line: int, others: Iterable[str]) -> bool:
    """Return whether the object whose method a line calls, or stands in, may be of a class that another file has.

    That sets the attribute which holds it, derives a class, or has one whose objects may be the argument.
    """
    tree = parsed(text)
    calls = _calls(text, tree) if tree else ()
    method = _method_at(tree, calls, line) if tree else None
    mine = [one for one in calls if one.method is method]
    nodes = list(nodes_in(others))
    set_there = {n.attr for n in nodes if isinstance(n, ast.Attribute) and not isinstance(n.ctx, ast.Load)}
    classes = [n for n in nodes if isinstance(n, ast.ClassDef)]
    methods = {name for one in classes for name in methods_of(one)}
    bases = {dotted(base).rpartition(".")[2] for one in classes for base in one.bases}
    return any(
        one.owner.name in bases
        or (one.of.attr in set_there if isinstance(one.of, ast.Attribute) else one.method.name in methods)
        for one in mine
    )


def waiting(text: str, code: str, name: str) -> tuple[str, list[str]] | None:
    """Return a text in which calls of a method wait where they are compiled, and the lines that make them.

    Args:
        text: a file's.
        code: the line of a call, or one of the method's.
        name: the function's that is to have those lines, qualified.
    """
    line, tree = only_line(text, code), parsed(text)
    if tree and line and _waits_already(tree, line):
        return text, []
    found = _found(text, tree, line, name) if tree and line else None
    if tree is None or found is None or len({tuple(one.argument for one in given) for given in found.given}) != 1:
        return None
    if _is_used_within(found, text, tree, name):
        return None
    added = free("added", identifiers([tree]))
    there = identifiers(one for key, one in named_functions(text) if key == name)
    taken, owner, values = free("taken", there), free("owner", there), free("values", there)
    made = ", ".join(one.argument.format(value=f"{values}[{i}]") for i, one in enumerate(found.given[0]))
    return _written(found, added), [
        taking(added, taken),
        f"for {owner}, {values} in {taken}:",
        f"    {owner}.{found.calls[0].method.name}({made})",
    ]


def _waits_already(tree: ast.Module, line: int) -> bool:
    """Return whether a line stands in a method that is never compiled, as one whose calls wait, or calls one."""
    marked = [one for one in functions_in(tree) if any(map(_is_disabling, one.decorator_list))]
    calls = (n.value for n in ast.walk(tree) if isinstance(n, ast.Expr) and n.lineno == line)
    is_call = any(isinstance(one, ast.Call) and called(one) in {of.name for of in marked} for one in calls)
    return is_call or any(one.lineno <= line <= (one.end_lineno or 0) for one in marked)


def _is_disabling(mark: ast.expr) -> bool:
    return dotted(mark).endswith("compiler.disable")


# -- which calls


def _found(text: str, tree: ast.Module, line: int, name: str) -> Later | None:
    """Return the calls of the method at a line that compiled code may come to; None if they cannot wait."""
    calls = _calls(text, tree)
    method = _method_at(tree, calls, line)
    inside = {n for one in _compiled(text, name) for n in ast.walk(one)}
    return _later(tree, [one for one in calls if one.method is method and one.node in inside]) if method else None


def _compiled(text: str, name: str) -> Sequence[ast.AST]:
    return reached(text, [name, f"{name}{INNER}"])


def _method_at(tree: ast.Module, calls: Sequence[Call], line: int) -> ast.FunctionDef | None:
    """Return the method that is called at a line, or which comes to it, if a call of it may wait."""
    here = [one for one in calls if _stands_in(line, one.site.statement)]
    there = [one for one in calls if _stands_in(line, one.owner)]
    # A method that another one of its object's calls waits with that.
    for one in sorted((*here, *there), key=lambda one: dotted(one.of) == "self"):
        found = _later(tree, [one])
        within = [one.site.statement, *found.functions] if found else []
        if any(_stands_in(line, part) for part in within):
            return one.method
    return None


def _stands_in(line: int, node: ast.stmt) -> bool:
    return node.lineno <= line <= (node.end_lineno or 0)


@lru_cache(maxsize=4)  # they are looked for at each break of a file
def _calls(text: str, tree: ast.Module) -> Sequence[Call]:
    """Return the statements of a file that call a method of it, in functions."""
    found: list[Call] = []
    names = {name for one in ast.walk(tree) if isinstance(one, ast.ClassDef) for name in methods_of(one)}
    for node in dict.fromkeys(n for one in functions_in(tree) for n in ast.walk(one)):  # one may stand in another
        match node:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=of, attr=name)) as call):
                site = site_in(text, node.lineno) if name in names and next(roots(of), "") else None
                owner = _class_of(tree, site, of, name) if site else None
                method = methods_of(owner).get(name) if owner else None
                if site and owner and method and not is_for_eager(site):
                    found.append(Call(site, call, owner, method))
    return found


def _class_of(tree: ast.Module, site: Site, of: ast.expr, method: str) -> ast.ClassDef | None:
    """Return the class of an object whose method is called, where the file shows it.

    It is that around the call, or made wherever the object is assigned, or what a parameter is said to be.
    """
    match of:
        case ast.Name(id="self"):
            return class_around(tree, site.function)
        case ast.Name(id=name) if site.function and name in parameters(site.function):
            return _class_of_parameter(tree, site.function, name, method)
        case ast.Name(id=name) if name not in site.local() and (outer := _given_around(tree, site, name)):
            return _class_of_parameter(tree, outer, name, method)
        case ast.Attribute(attr=name) if dotted(of).startswith("self.") or next(roots(of), "self") not in site.local():
            values = [value for _, value in values_of(tree, name) or ()]
        case ast.Name(id=name) if name not in site.local():
            stored = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == name and _is_stored(n)]
            values = [one.value for one in tree.body if isinstance(one, ast.Assign) and one.targets == stored]
        case _:
            return None
    names = {dotted(one.func) if isinstance(one, ast.Call) else "" for one in values}
    return _classes(tree).get(names.pop()) if len(names) == 1 else None


def _given_around(tree: ast.Module, site: Site, name: str) -> Function | None:
    """Return the innermost function around the site's that is given a name."""
    around = [one for one in functions_in(tree) if one is not site.function and site.function in set(ast.walk(one))]
    having = [one for one in around if name in parameters(one)]
    return max(having, key=lambda one: one.lineno, default=None)


def _class_of_parameter(tree: ast.Module, function: Function, name: str, method: str) -> ast.ClassDef | None:
    """Return the class of what a function is given: its annotation, or the one class of the file with such a method."""
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    said = next((one.annotation for one in every if one.arg == name), None)
    if any(isinstance(n, ast.Name) and n.id == name and _is_stored(n) for n in ast.walk(function)):
        return None
    if said is not None:
        return _classes(tree).get(str(said.value) if isinstance(said, ast.Constant) else dotted(said))
    given = {_made_of(tree, value) for parameter, value in given_to(tree, function) if parameter == name}
    if len(given) == 1 and (owner := _classes(tree).get(given.pop())):
        return owner
    having = [one for one in _classes(tree).values() if method in methods_of(one)]
    return having[0] if len(having) == 1 and method not in OF_CONTAINERS else None


def _made_of(tree: ast.Module, given: ast.expr) -> str:
    """Return the class that the file makes a name of, wherever it assigns it; empty where it may be another."""
    if not isinstance(given, ast.Name):
        return ""
    stored = [n for n in ast.walk(tree) if isinstance(n, ast.Name) and n.id == given.id and _is_stored(n)]
    values = [value for target, value in _all_assigned(tree) if target in stored]
    names = {dotted(value.func) if isinstance(value, ast.Call) else "" for value in values}
    return names.pop() if len(names) == 1 and len(values) == len(stored) else ""


@lru_cache(maxsize=4)
def _all_assigned(tree: ast.Module) -> Sequence[tuple[ast.expr, ast.expr]]:
    return [pair for node in ast.walk(tree) for pair in assigned(node)]


@lru_cache(maxsize=4)
def _classes(tree: ast.Module) -> Mapping[str, ast.ClassDef]:
    """Return the classes of a module of which there is one of a name."""
    every = [one.name for one in ast.walk(tree) if isinstance(one, ast.ClassDef)]
    return {one.name: one for one in tree.body if isinstance(one, ast.ClassDef) and every.count(one.name) == 1}


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _later(tree: ast.Module, calls: Sequence[Call]) -> Later | None:
    """Return calls that may wait as far as they and their method show."""
    if not calls or not all(_stands_alone(one) for one in calls):
        return None
    given = [_given(tree, one) for one in calls]
    if any(one is None for one in given):
        return None
    known = [one for one in given if one is not None]
    kinds = _kinds(one for each in known for one in each)
    functions = run_with(tree, calls[0].owner, calls[0].method, kinds)
    return Later(calls, known, functions) if functions else None


def _kinds(given: Iterable[Given]) -> Mapping[str, Kind]:
    """Return what each parameter may be, by all that is given for it."""
    found: dict[str, Kind] = {}
    for one in given:
        found[one.parameter] = max(one.kind, found.get(one.parameter, Kind.PLAIN))
    return found


def _stands_alone(call: Call) -> bool:
    site = call.site
    is_whole = isinstance(site.statement, ast.Expr) and site.statement.value is call.node
    is_plain = all(one.arg for one in call.node.keywords) and not any(
        isinstance(n, ast.Starred) for n in call.node.args
    )
    return (
        is_whole and is_plain and has_lines(site, site.statement)
        and all(isinstance(one, _AROUND) for one in site.around) and site.function is not call.method
    )  # fmt: skip


def _given(tree: ast.Module, call: Call) -> Sequence[Given] | None:
    """Return what a call gives; None if that may be something else when it is made."""
    evident, handed = evident_tensors(call.method), _handed_in(call)
    if handed is None or any(not gives_a_value(call.site, n) for _, _, one in handed for n in ast.walk(one)):
        return None
    found: list[Given] = []
    for name, keyword, node in handed:
        is_key = isinstance(node, (ast.Name, ast.Attribute)) and _is_key(tree, call.method, name)
        one = _one_given(tree, call.site, node, is_tensor=name in evident, is_key=is_key)
        if one is None:
            return None
        found.append(replace(one, parameter=name, keyword=keyword))
    return found


def _handed_in(call: Call) -> Sequence[tuple[str, str, ast.expr]] | None:
    """Return for each argument its parameter, and the keyword that it has; None where one has no parameter."""
    arguments, node = call.method.args, call.node
    by_place = [one.arg for one in (*arguments.posonlyargs, *arguments.args)][1:]
    by_name = {one.arg for one in (*arguments.args, *arguments.kwonlyargs)}
    rest = arguments.kwarg.arg if arguments.kwarg else ""
    names = [(one.arg if one.arg in by_name else rest, one.arg or "", one.value) for one in node.keywords]
    if len(node.args) > len(by_place) or not all(name for name, _, _ in names):
        return None
    return [
        *((name, "", one) for name, one in zip(by_place, node.args, strict=False)),
        *((str(n), k, v) for n, k, v in names),
    ]


def _one_given(tree: ast.Module, site: Site, node: ast.expr, *, is_tensor: bool, is_key: bool) -> Given | None:
    snapshot = ".detach().clone()"
    match node:
        case ast.Call(func=ast.Attribute(value=tensor, attr="item" | "tolist" as name), args=[], keywords=[]):
            return Given(f"{site.atom(tensor)}{snapshot}", f"{{value}}.{name}()", Kind.PLAIN)
        case ast.Call(func=ast.Name(id="float" | "int" as name), args=[of], keywords=[]) if site.is_tensor(of):
            return Given(f"{site.atom(of)}{snapshot}", f"{name}({{value}})", Kind.PLAIN)
    if not is_tensor and (is_key or _is_number(tree, site, node)):
        return Given(site.source(node), "{value}", Kind.PLAIN)
    is_sure = is_tensor or site.is_tensor(node)
    if isinstance(node, _LITERALS) or not (is_sure or (isinstance(node, ast.Name) and _is_computed(site, node, ()))):
        return None
    if is_sure or not isinstance(node, ast.Name):
        return Given(f"{site.atom(node)}{snapshot}", "{value}", Kind.TENSOR)
    # A number, or a tensor, as other lines decide.
    kept = f"{node.id}{snapshot} if {site.torch}.is_tensor({node.id}) else {node.id}"
    return Given(kept, "{value}", Kind.TENSOR)


def _is_computed(site: Site, node: ast.expr, outer: tuple[str, ...]) -> bool:
    """Return whether an expression is a number or a tensor, by all that its function gives to the names in it."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, (int, float))
        case ast.Name(id=name):
            values = _values_of_name(site, name)
            is_own = site.function is not None and name not in parameters(site.function)
            is_known = bool(values) and is_own and name not in outer
            return name in outer or (is_known and all(_is_computed(site, one, (*outer, name)) for one in values))
        case ast.BinOp(left=left, right=right):
            return any(_is_computed(site, one, outer) for one in (left, right))
        case ast.UnaryOp(operand=operand):
            return _is_computed(site, operand, outer)
        case ast.Call(func=ast.Attribute(attr="item"), args=[], keywords=[]):
            return True
    return site.is_tensor(node)


def _values_of_name(site: Site, name: str) -> Sequence[ast.expr]:
    """Return what a function gives to a name; nothing where that does not all show."""
    nodes = list(ast.walk(site.function or site.statement))
    stored = {n for n in nodes if isinstance(n, ast.Name) and n.id == name and _is_stored(n)}
    added = [(n.target, n.value) for n in nodes if isinstance(n, ast.AugAssign)]
    found = {
        target: value for target, value in (*added, *(pair for n in nodes for pair in assigned(n))) if target in stored
    }
    return list(found.values()) if len(found) == len(stored) else []


def _is_key(tree: ast.Module, method: ast.FunctionDef, name: str) -> bool:
    """Return whether a method uses what it is given as a key of its object's dicts alone, which no tensor is."""
    uses = [n for n in ast.walk(method) if isinstance(n, ast.Name) and n.id == name]
    keys = {key for n in ast.walk(method) for key, of in _keys(n) if _is_dict(tree, of)}
    return bool(uses) and all(one in keys for one in uses)


def _keys(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield what is looked up, and where."""
    match node:
        case ast.Subscript(value=of, slice=key):
            yield key, of
        case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[of]):
            yield key, of
        case ast.Call(func=ast.Attribute(value=of, attr="get" | "pop" | "setdefault"), args=[key, *_]):
            yield key, of


def _is_dict(tree: ast.Module, node: ast.expr) -> bool:
    match node:
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            values = [value for _, value in values_of(tree, name) or ()]
            return bool(values) and all(
                isinstance(one, (ast.Dict, ast.DictComp)) or (isinstance(one, ast.Call) and called(one) in _DICTS)
                for one in values
            )
    return False


def _is_number(tree: ast.Module, site: Site, node: ast.expr) -> bool:
    """Return whether an expression is a number, or a text, for sure."""
    match node:
        case ast.Constant() | ast.Call(func=ast.Name(id="len")) | ast.Call(func=ast.Attribute(attr="numel")):
            return True
        case ast.Call(func=ast.Attribute(attr="size"), args=[_]):
            return True
        case ast.Subscript(value=ast.Attribute(attr="shape"), slice=ast.Constant() | ast.UnaryOp()):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_number(tree, site, left) and _is_number(tree, site, right)
        case ast.Attribute(value=ast.Name(id="self"), attr=name):
            values = values_of(tree, name)
            return bool(values) and all(isinstance(value, ast.Constant) for _, value in values or ())
    return False


# -- whether they may wait


def _is_used_within(found: Later, text: str, tree: ast.Module, name: str) -> bool:
    """Return whether compiled code may read, or change, what the method has to do with, or calls it otherwise."""
    own = {n for one in found.functions for n in ast.walk(one)}
    waiting_calls = {n for call in found.calls for n in ast.walk(call.node.func)}
    functions = _compiled(text, name)
    nodes = [n for one in functions for n in ast.walk(one) if n not in own | waiting_calls]
    known = {value for n in nodes for key in ("id", "attr", "value") if isinstance(value := getattr(n, key, None), str)}
    called_by_name = {n.func for n in nodes if isinstance(n, ast.Call)}  # `x.sum()` reads no meter's `sum`
    named = [n for n in nodes if n not in called_by_name]
    mentioned = {value for n in named for key in ("attr", "value") if isinstance(value := getattr(n, key, None), str)}
    if mentioned & changing(tree, found.functions) or known & (OF_ANY | _OTHERWISE) or _is_alias(found, tree, known):
        return True
    inner = {n.value for n in nodes if isinstance(n, ast.Attribute)}
    inner |= {n for one in nodes for n in _handed_on(one, _own_names(tree))}
    objects = {call.of.attr if isinstance(call.of, ast.Attribute) else dotted(call.of) for call in found.calls}
    is_open = any(_name(n) in objects - {"self"} and n not in inner for n in nodes)
    return is_open or any(_may_call(n, found, tree, functions) for n in nodes)


def _handed_on(node: ast.AST, own: AbstractSet[str]) -> Iterator[ast.expr]:
    """Yield what a call hands on to what is the file's: that is read where it gets to."""
    if isinstance(node, ast.Call) and next(roots(node.func), "") in own:
        yield from (*node.args, *(one.value for one in node.keywords))


@lru_cache(maxsize=4)
def _own_names(tree: ast.Module) -> frozenset[str]:
    """Return the names that a file gives."""
    nodes = list(ast.walk(tree))
    stored = {n.id for n in nodes if isinstance(n, ast.Name) and _is_stored(n)}
    given = {n.arg for n in nodes if isinstance(n, ast.arg)}
    return frozenset(stored | given | {one.name for one in functions_in(tree)})


def _name(node: ast.AST) -> str:
    match node:
        case ast.Attribute(attr=name, ctx=ast.Load()) | ast.Name(id=name, ctx=ast.Load()):
            return name
    return ""


def _is_alias(found: Later, tree: ast.Module, known: AbstractSet[str]) -> bool:
    """Return whether what the object owns has another name, which compiled code mentions, or a function gets it."""
    owned, functions = changing(tree, found.functions), {getattr(n, "name", None) for n in ast.walk(tree)}
    giving = {one.name for one in functions_in(tree) if any(_returns(n, owned) for n in ast.walk(one))}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if _gives(value, owned, giving):
                if identifiers(targets) & known:
                    return True
            case ast.Call(args=args, keywords=keywords) if called(node) in functions:
                given = (*args, *(one.value for one in keywords))
                if any(isinstance(one, ast.Attribute) and one.attr in owned for one in given):
                    return True
    return False


def _gives(node: ast.expr, owned: AbstractSet[str], giving: AbstractSet[str]) -> bool:
    return called(node) in giving or (isinstance(node, ast.Attribute) and node.attr in owned)


def _returns(node: ast.AST, owned: AbstractSet[str]) -> bool:
    return isinstance(node, ast.Return) and isinstance(node.value, ast.Attribute) and node.value.attr in owned


def _may_call(node: ast.AST, found: Later, tree: ast.Module, functions: Sequence[ast.AST]) -> bool:
    """Return whether a piece of what is compiled may be the method, or set it, but for the calls that wait."""
    names = {one.name for one in found.functions}
    if isinstance(node, ast.Constant):
        return node.value in names
    if not isinstance(node, ast.Attribute) or node.attr not in names:
        return False
    inside = next((one for one in functions if isinstance(one, ast.FunctionDef) and node in set(ast.walk(one))), None)
    site = site_in(found.calls[0].site.text, node.lineno)
    if site and site.is_tensor(node.value):
        return False
    match node.value:
        case ast.Name(id="self"):
            return class_around(tree, inside) in (None, found.calls[0].owner)
        case ast.Attribute(attr=name):
            made = [dotted(v.func) if isinstance(v, ast.Call) else "" for _, v in values_of(tree, name) or ()]
            return not made or not all(made) or found.calls[0].owner.name in made
    return True


# -- the text


def _written(found: Later, added: str) -> str:
    """Return the file's text with the calls waiting; Dynamo would compile the method where Python calls it."""
    site, method = found.calls[0].site, found.calls[0].method
    lines, first = site.text.split("\n"), first_line(method)
    pad = " " * method.col_offset
    edits = [(first, first - 1, [f"{pad}@{site.torch}.compiler.disable"])]
    for call, given in zip(found.calls, found.given, strict=True):
        statement = call.site.statement
        edits.append((statement.lineno, statement.end_lineno or 0, _either(call, given, added)))
    for begin, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        lines[begin - 1 : end] = new
    return with_list("\n".join(lines), min(begin for begin, _, _ in edits), added)


def _either(call: Call, given: Sequence[Given], added: str) -> list[str]:
    site, pad = call.site, " " * call.site.statement.col_offset
    kept = "".join(f"{one.kept}, " for one in given)
    values = f"({kept.strip() if len(given) == 1 else kept.removesuffix(', ')})"
    return [
        # Where a part of the call runs eagerly, it comes after what waits already.
        f"{pad}if {site.torch}.compiler.is_compiling() or {added}:",
        f"{pad}    {added}.append(({site.source(call.of)}, {values}))",
        f"{pad}else:",
        f"{pad}    {site.source(call.node)}",
    ]
