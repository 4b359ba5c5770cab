"""Python numbers that a tensor is made of, and that are taken out of it again further in: they go along with it.

`sizes = torch.as_tensor(shapes)`, handed on from function to function, and `[int(h * w) for h, w in sizes]`, which
breaks the graph: the functions get `shapes` as well.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, indices, is_text, of_torch, parameters
from compiler_lens.facts.measured.called import functions_in
from compiler_lens.facts.measured.reached import identifiers

_LIST = "_list"  # after the name of the tensor
_MAKING = frozenset({"as_tensor", "tensor", "LongTensor"})
_WHOLE = frozenset({"long", "int", "int64", "int32"})
_BESIDE = frozenset({"enumerate", "zip", "reversed"})  # what goes through a tensor as well
_CHANGING = frozenset({"append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse"})

_Change = tuple[ast.expr, str]


class Along(Struct, frozen=True):
    """What a change of a file is about: the numbers in a tensor that functions are given under one name."""

    file: str
    name: str  # of the tensor
    function: str  # that takes numbers out of it

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        return f"def {self.function}(…, {self.name}{_LIST}=None)"

    @property
    def code(self) -> str:
        """The same."""
        return self.title


class Made(Struct, frozen=True):
    """Where a tensor is made of numbers."""

    function: ast.FunctionDef
    statement: ast.Assign
    numbers: ast.expr  # what it is made of


def along(text: str, line: int, file: str) -> Along | None:
    """Return what a line takes numbers out of that are there as Python's; None where it does no such thing."""
    site, tree = site_in(text, line), parsed(text)
    function = site.function if site else None
    if site is None or tree is None or not isinstance(function, ast.FunctionDef):
        return None
    for name in parameters(function):
        found = _taken(site, function, name)
        lines = {n for one in found.values() for n in one}
        if found and line in lines and _makings(tree, name) and _written(text, tree, name, function) is not None:
            return Along(file, name, function.name)
    return None


def with_numbers(text: str, edit: Along) -> str | None:
    """Return a text in which the numbers go along; None where that cannot be done, or is done."""
    tree = parsed(text)
    named = [one for one in functions_in(tree) if one.name == edit.function] if tree else []
    taking = [one for one in named if edit.name in parameters(one)]
    return _written(text, tree, edit.name, taking[0]) if tree and len(taking) == 1 else None


# -- what takes numbers


def _taken(site: Site, function: ast.FunctionDef, name: str) -> Mapping[ast.expr, AbstractSet[int]]:
    """Return the expressions of a function that take numbers out of a tensor, with the lines that this is about."""
    parents, found = site.parents(), dict[ast.expr, AbstractSet[int]]()
    for node in ast.walk(function):
        if not (isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Load)):
            continue
        around = parents.get(node)
        outer = parents.get(around) if around else None
        if isinstance(around, ast.Call) and called(around) in _BESIDE and isinstance(around.func, ast.Name):
            around, outer = outer, around
        match around:
            case ast.For(iter=of, target=target) if of in (node, outer):
                found[node] = {around.lineno, *_uses(function, target)}
            case ast.comprehension(iter=of) if of in (node, outer):
                found[node] = {node.lineno}
            case ast.Attribute(attr="tolist") if isinstance(outer, ast.Call):
                found[outer] = {outer.lineno}
            case ast.Subscript() if number := _number(around, parents):
                found[number] = {number.lineno}
    return found


def _uses(function: ast.FunctionDef, target: ast.expr) -> Iterator[int]:
    names = {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}
    yield from (n.lineno for n in ast.walk(function) if isinstance(n, ast.Name) and n.id in names)


def _number(node: ast.Subscript, parents: Mapping[ast.AST, ast.AST]) -> ast.expr | None:
    """Return `int(sizes[i])`, or `sizes[i].item()`, around an element."""
    around = parents.get(node)
    while isinstance(around, ast.Subscript):
        around = parents.get(around)
    outer = parents.get(around) if around else None
    match around, outer:
        case ast.Call(func=ast.Name(id="int" | "float"), args=[_]) as call, _:
            return call
        case ast.Attribute(attr="item"), ast.Call(args=[]) as call:
            return call
    return None


# -- where the tensor is made


def _makings(tree: ast.Module, name: str) -> Sequence[Made]:
    """Return where functions make tensors of that name of numbers; none where one makes it of something else."""
    found: list[Made] = []
    for function in functions_in(tree):
        stored = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and _is_stored(n)]
        if not stored:
            continue
        made = next((one for one in ast.walk(function) if isinstance(one, ast.Assign) and one.targets == stored), None)
        if made is None or name in parameters(function) or not _is_of_numbers(function, made):
            return ()
        assert isinstance(made.value, ast.Call)  # noqa: S101 -- `_is_of_numbers` asks for one
        found.append(Made(function, made, made.value.args[0]))
    return found


def _is_stored(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _is_of_numbers(function: ast.FunctionDef, made: ast.Assign) -> bool:
    match made.value:
        case ast.Call(args=[numbers, *_], keywords=words) as call if of_torch(call) and called(call) in _MAKING:
            dtypes = [dotted(one.value).rpartition(".")[2] for one in words if one.arg == "dtype"]
        case _:
            return False
    if not set(dtypes) <= _WHOLE:
        return False
    match numbers:
        case ast.List() | ast.ListComp() | ast.Tuple():
            return True
        case ast.Name(id=name):
            values = [one.value for one in ast.walk(function) if isinstance(one, ast.Assign) and _gives(one, name)]
            stores = [n for n in ast.walk(function) if isinstance(n, ast.Name) and n.id == name and _is_stored(n)]
            later = [call for call in calls_in(function) if call.lineno > made.lineno and _is_of(call, name)]
            return (
                len(stores) == 1
                and not later
                and all(isinstance(one, (ast.List, ast.ListComp, ast.Tuple)) for one in values)
            )
    return False


def _gives(one: ast.Assign, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name for target in one.targets for n in ast.walk(target))


def _is_of(call: ast.Call, name: str) -> bool:
    is_changing = called(call) in _CHANGING
    return is_changing and isinstance(call.func, ast.Attribute) and dotted(call.func.value) == name


# -- the text


def _written(text: str, tree: ast.Module, name: str, taking: ast.FunctionDef) -> str | None:
    new = f"{name}{_LIST}"
    makings = _makings(tree, name)
    if "\r" in text or new in identifiers([tree]) or not makings:
        return None
    site = site_in(text, taking.body[0].lineno)
    changes = list(_without_tensor(site, taking, name, new)) if site else []
    if site is None or not changes:
        return None
    given = [one for one in functions_in(tree) if name in parameters(one)]
    carrying = [one for one in given if one is taking or any(_is_given(call, name) for call in calls_in(one))]
    if any(one.args.vararg or one.args.kwarg or one.args.kwonlyargs or one.decorator_list for one in carrying):
        return None
    edits = [(_place(node, at_end=False), _place(node, at_end=True), code) for node, code in changes]
    edits += [_with_parameter(one, new) for one in carrying]
    edits += [_otherwise(taking, name, new)]
    for function in (*carrying, *(made.function for made in makings)):
        numbers = next((made.numbers for made in makings if made.function is function), None)
        value = numbers.id if isinstance(numbers, ast.Name) else new
        edits += [_with_argument(text, call, f"{new}={value}") for call in _handing_on(function, name, tree)]
    edits += [edit for made in makings for edit in _with_numbers_named(site, made, new)]
    return _edited(text, edits)


_Place = tuple[int, int]  # a line, and a column in bytes
_Edit = tuple[_Place, _Place, str]


def _place(node: ast.expr, *, at_end: bool) -> _Place:
    return (node.end_lineno or 0, node.end_col_offset or 0) if at_end else (node.lineno, node.col_offset)


def _without_tensor(site: Site, function: ast.FunctionDef, name: str, new: str) -> Iterator[_Change]:
    """Yield what takes numbers out of a tensor, with what takes them out of a list."""
    for node in _taken(site, function, name):
        if isinstance(node, ast.Name) or called(node) == "tolist":
            yield node, new
        else:
            yield node, f"{new}{''.join(_indices(site, _element(node)))}"
    loops = [n for n in ast.walk(function) if isinstance(n, (ast.For, ast.comprehension))]
    names = {
        n.id for one in loops if any(isinstance(n, ast.Name) and n.id == name for n in ast.walk(one.iter))
        for n in ast.walk(one.target) if isinstance(n, ast.Name)
    }  # fmt: skip
    for call in calls_in(function):
        match call.func:
            case ast.Attribute(value=ast.Name(id=one), attr="item") if one in names:
                yield call, one


def _element(node: ast.expr) -> ast.expr:
    """Return the element of which a number is taken."""
    match node:
        case ast.Call(func=ast.Attribute(value=element)) | ast.Call(args=[element]):
            return element
    return node


def _indices(site: Site, node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Subscript):
        yield from _indices(site, node.value)
        parts = indices(node)
        yield from (f"[{site.source(one)}]" for one in parts)


def _handing_on(function: ast.FunctionDef, name: str, tree: ast.Module) -> Iterator[ast.Call]:
    """Yield the calls that give the tensor to what may be a function of the file's."""
    names = {one.name for one in functions_in(tree) if name in parameters(one)}
    for call in calls_in(function):
        if _is_given(call, name) and not of_torch(call) and _may_be_own(call, names, _locals(function)):
            yield call


def _may_be_own(call: ast.Call, names: AbstractSet[str], local: AbstractSet[str]) -> bool:
    match call.func:
        case ast.Name(id=name):
            return name in names | local
        case ast.Attribute(attr=name):
            return name in names or dotted(call.func).startswith("self.")
    return True


def _locals(function: ast.FunctionDef) -> AbstractSet[str]:
    return {n.id for n in ast.walk(function) if isinstance(n, ast.Name) and _is_stored(n)}


def _is_given(call: ast.Call, name: str) -> bool:
    given = (*call.args, *(one.value for one in call.keywords))
    return any(isinstance(one, ast.Name) and one.id == name for one in given)


def _with_parameter(function: ast.FunctionDef, new: str) -> _Edit:
    last: ast.arg | ast.expr = [*function.args.posonlyargs, *function.args.args][-1]
    ends = [last, *function.args.defaults]
    place = max((one.end_lineno or 0, one.end_col_offset or 0) for one in ends)
    return place, place, f", {new}=None"


def _otherwise(function: ast.FunctionDef, name: str, new: str) -> _Edit:
    """Return what has a function take the numbers where nobody gives it these."""
    first = next(one for one in function.body if not is_text(one))
    pad, place = " " * first.col_offset, (first.lineno, first.col_offset)
    return place, place, f"if {new} is None:\n{pad}    {new} = {name}.tolist()\n{pad}"


def _with_argument(text: str, call: ast.Call, argument: str) -> _Edit:
    line, column = call.end_lineno or 0, (call.end_col_offset or 0) - 1
    before = "\n".join(text.split("\n")[: line - 1]) + "\n" + text.split("\n")[line - 1].encode()[:column].decode()
    return (line, column), (line, column), f"{' ' if before.rstrip().endswith(',') else ', '}{argument}"


def _with_numbers_named(site: Site, made: Made, new: str) -> Iterator[_Edit]:
    """Yield what gives the numbers a name, where they have none."""
    if not isinstance(made.numbers, ast.Name):
        first, pad = made.statement, " " * made.statement.col_offset
        place = (first.lineno, first.col_offset)
        yield place, place, f"{new} = {site.edited(made.numbers)}\n{pad}"
        yield _place(made.numbers, at_end=False), _place(made.numbers, at_end=True), new


def _edited(text: str, edits: Sequence[_Edit]) -> str:
    lines = [line.encode() for line in text.split("\n")]
    for begin, end, new in sorted(edits, key=lambda edit: edit[0], reverse=True):
        (first, left), (last, right) = begin, end
        lines[first - 1 : last] = [lines[first - 1][:left] + new.encode() + lines[last - 1][right:]]
    return b"\n".join(lines).decode()
