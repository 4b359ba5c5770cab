"""Rows taken one by one, each up to a number of its own, `x[i, :n].mean(0)`, `x[i, n - 1]`, `x[i, n:] = 0`: at once.

Whether there are as many numbers as rows, and what is called does the same with each row, a trial has to show.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import ELEMENTWISE, called, calls_in, dotted, indices, loads, of_torch
from compiler_lens.recording.model import BreakCause

_PRICE = "the numbers are as many as the rows, and none is negative"
_FILLS = {"sum": "0", "mean": "0", "amax": 'float("-inf")', "amin": 'float("inf")'}
_OF_PAIRS = {"max": "amax", "min": "amin"}
_BY_COLUMNS = frozenset({"squeeze", "unsqueeze", "softmax", "norm", "sum", "mean"})  # given dimensions from the end
_MOST = 40  # statements


class _NotAllRowsError(Exception):
    """What is done with a row is not known to be done with all rows alike."""


class _Rows(Struct, frozen=True):
    """What a loop over rows, or a comprehension, calls what it goes over."""

    index: str = ""  # the number of the row
    number: str = ""  # what was taken out for it
    numbers: str = ""  # the tensor of these
    row: str = ""  # the row itself
    of: str = ""  # the tensor that it is one of

    @property
    def names(self) -> frozenset[str]:
        """The names that are another in each round."""
        return frozenset(filter(None, (self.index, self.number, self.row)))


def ragged(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Compute of all rows at once what is computed of each with a number of its own."""
    site = _from_list_on(site)
    statements = [site.statement, *site.following[:_MOST]]
    reader = _Reader(site)
    with suppress(_NotAllRowsError):
        match site.statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if (numbers := _taken_out(value)) is not None:
                if not _is_only_here(site, name, statements):
                    return None
                reader.lists.add(name)
                first, rest = [f"{name} = {site.source(numbers)}"], statements[1:]
            case ast.Assign(value=ast.List(elts=[])):
                first, rest = [], statements[1:]
            case _:
                first, rest = [], statements
        lines, last = reader.all_rows(rest)
        return site.rewrite([*first, *lines], _PRICE, last=last) if last and reader.is_ragged else None
    return None


def _from_list_on(site: Site) -> Site:
    """Return the place of the loop in which a statement stands, or of the empty list above it that it adds to."""
    loops = [one for one in site.around if isinstance(one, ast.For)]
    loop = loops[-1] if loops else site.statement
    if not isinstance(loop, ast.For) or site.function is None:
        return site
    blocks = (getattr(node, "body", []) for node in ast.walk(site.function))
    block = next((one for one in blocks if isinstance(one, list) and loop in one), [loop])
    above = block[block.index(loop) - 1 : block.index(loop)]
    begin = above[0] if above and isinstance(above[0], ast.Assign) and _is_empty_list(above[0].value) else loop
    found = site_in(site.text, begin.lineno)
    return replace(found, seen=site.seen, torch=site.torch) if found else site


def _is_empty_list(node: ast.expr) -> bool:
    return isinstance(node, ast.List) and not node.elts


def _is_only_here(site: Site, name: str, statements: Sequence[ast.stmt]) -> bool:
    """Whether a name is assigned once, and read in some statements alone."""
    is_once = len(site.uses().stores.get(name, ())) == 1 and not site.escapes(name) and site.function is not None
    return is_once and sum(len(loads(one, name)) for one in statements) == len(site.loads(name))


def _taken_out(node: ast.expr) -> ast.expr | None:
    """Return the tensor whose numbers are taken out: of `x.tolist()`, `x.cpu().tolist()`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tolist"):
        return None
    inner = node.func.value
    while isinstance(inner, ast.Call) and isinstance(inner.func, ast.Attribute) and inner.func.attr in {"cpu", "numpy"}:
        inner = inner.func.value
    return inner


class _Reader:
    """Statements, read from the first to the last."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.lists = set[str]()  # names of tensors that were lists of their numbers
        self.is_ragged = False
        self._rows = set[str]()  # names of tensors that were lists of what is computed of each row
        self._above: list[str] = []  # lines to stand above a statement
        self._masks: dict[tuple[str, str, str, int], str] = {}  # that these make
        self._known: dict[str, str] = {}  # in a loop: what a name holds of all rows

    def all_rows(self, statements: Sequence[ast.stmt]) -> tuple[list[str], ast.stmt | None]:
        """Return the lines of statements up to the last that changes, and that one."""
        return self._site.changed(statements, self._with_above)

    def _with_above(self, one: ast.stmt) -> tuple[list[str], list[str]]:
        new = self._statement(one)
        above, self._above = self._above, []
        self._masks.clear()
        return above, new

    def _statement(self, one: ast.stmt) -> list[str]:
        """Return what to write for a statement; nothing where it stays."""
        match one:
            case ast.For(orelse=[]) if self._has_number(one.target, one.iter, one.body):
                return self._loop(one)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.ListComp() as value) if self._is_ragged(value):
                if not all(self._taken_whole(node) for node in self._site.loads(name)):
                    raise _NotAllRowsError
                self._rows.add(name)
                return [f"{name} = {_bare(self._comprehended(value))}"]
        changes = [*self._changes(one)]
        left = {n for part, _ in changes for n in ast.walk(part)}
        names = [n for n in ast.walk(one) if isinstance(n, ast.Name) and n.id in self.lists | self._rows]
        if any(n not in left and not self._is_count(n) for n in names):
            raise _NotAllRowsError
        return self._site.dedented(one, changes) if changes else []

    def _is_count(self, name: ast.Name) -> bool:
        above = self._site.parents().get(name)
        return above is not None and called(above) == "len"

    def _changes(self, one: ast.stmt) -> Iterator[Change]:
        for call in calls_in(one):
            match call:
                case ast.Call(func=ast.Name(id="min" | "max" | "sum" as name), args=[ast.Name(id=of)]) if (
                    of in self.lists
                ):
                    yield call, f"{of}.{name}()"
                case ast.Call(args=[ast.Name(id=of)], keywords=[]) if (
                    of in self.lists and of_torch(call) and called(call) == "tensor"
                ):
                    yield call, f'{of}.to("cpu", {self._site.torch}.int64)'
                case ast.Call(args=[ast.Name(id=of)], keywords=[]) if of in self._rows and self._taken_whole(
                    call.args[0]
                ):
                    yield call, self._joined(call, of)
                case ast.Call(args=[ast.ListComp() | ast.GeneratorExp() as inner], keywords=[]) if self._taken_whole(
                    inner
                ) and self._is_ragged(inner):
                    yield call, self._joined(call, self._comprehended(inner))

    def _taken_whole(self, node: ast.expr) -> bool:
        """Whether what a list holds becomes one tensor, along its first dimension."""
        above = self._site.parents().get(node)
        if not isinstance(above, ast.Call) or len(above.args) != 1 or above.keywords:
            return False
        return of_torch(above) and called(above) in {"stack", "cat", "concat"}

    def _joined(self, call: ast.Call, rows: str) -> str:
        return rows if called(call) == "stack" else f"{rows}.flatten(0, 1)"

    # -- rounds

    def _is_ragged(self, node: ast.ListComp | ast.GeneratorExp) -> bool:
        return self._has_number(node.generators[0].target, node.generators[0].iter, [node.elt])

    def _has_number(self, target: ast.expr, over: ast.expr, round_: Sequence[ast.AST]) -> bool:
        """Whether rounds are over rows, and something in one asks for the number of its row."""
        rows = self._over(target, over)
        if rows is None:
            return False
        parts = [n for one in round_ for n in ast.walk(one)]
        written = [part for one in round_ if isinstance(one, ast.stmt) and (found := _written(one)) for part in found]
        inside = [n for one in written if isinstance(one, ast.Subscript) for n in ast.walk(one.slice)]
        return any(self._number_in(n, rows) for n in parts) or any(self._element_of(n, rows) for n in inside)

    def _over(self, target: ast.expr, over: ast.expr) -> _Rows | None:
        """Return what rounds are over, if that is rows with a number each."""
        match target, over:
            case ast.Tuple(elts=[ast.Name(id=i), ast.Name(id=n)]), ast.Call(
                func=ast.Name(id="enumerate"), args=[every]
            ):
                return _Rows(index=i, number=n, numbers=numbers) if (numbers := self._numbers(every)) else None
            case ast.Tuple(elts=[ast.Name(id=r), ast.Name(id=n)]), ast.Call(func=ast.Name(id="zip"), args=[of, every]):
                numbers = self._numbers(every)
                return _Rows(number=n, numbers=numbers, row=r, of=dotted(of)) if numbers and dotted(of) else None
            case ast.Name(id=i), ast.Call(func=ast.Name(id="range"), args=[_]):
                return _Rows(index=i)
        return None

    def _numbers(self, node: ast.expr) -> str:
        """Return the tensor whose numbers a list is, by a name."""
        tensor = _taken_out(node)
        return dotted(tensor if tensor is not None else node)

    def _comprehended(self, node: ast.ListComp | ast.GeneratorExp) -> str:
        (only, *more) = node.generators
        rows = self._over(only.target, only.iter)
        if more or only.ifs or rows is None:
            raise _NotAllRowsError
        return self._value(node.elt, rows)

    def _loop(self, loop: ast.For) -> list[str]:
        """Return `rewards = …` for a loop that adds what it computes of each row to a list that begins empty."""
        rows = self._over(loop.target, loop.iter)
        *before, last = loop.body
        if rows is not None and all(map(_written, loop.body)):
            return [self._filled(one, rows, loop) for one in loop.body]
        match last:
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[value])):
                pass
            case _:
                raise _NotAllRowsError
        begins = self._site.value_of(name)
        others = [n for n in self._site.loads(name) if n not in set(ast.walk(loop))]
        if rows is None or begins is None or not _is_empty_list(begins) or not all(map(self._taken_whole, others)):
            raise _NotAllRowsError
        for one in before:
            match one:
                case ast.Assign(targets=[ast.Name(id=own)], value=computed) if not self._is_read_after(own, loop):
                    if numbers := self._number_in(computed, rows):
                        rows = replace(rows, number=own, numbers=numbers)
                    else:
                        self._known[own] = self._value(computed, rows)
                case _:
                    raise _NotAllRowsError
        found = self._value(value, rows)
        self._known.clear()
        self._rows.add(name)
        return [f"{name} = {_bare(found)}"]

    def _filled(self, one: ast.stmt, rows: _Rows, loop: ast.For) -> str:
        """Return `x.masked_fill_(…)` for `x[i, n:] = 0`, which writes one value to all of a row from its number on."""
        written = _written(one)
        if written is None or any(self._is_read_after(name, loop) for name in rows.names):
            raise _NotAllRowsError
        part, value = written
        text = value if isinstance(value, str) else self._site.source(value)
        if not isinstance(value, str) and self._is_of_row(value, rows):
            raise _NotAllRowsError
        tensor, inside = self._tensor(part, rows)
        *before, at = inside or [part]
        if not all(map(_is_all, before)) or sum(isinstance(one, ast.Constant) for one in before) > 1:
            raise _NotAllRowsError
        match at:
            case ast.Slice(lower=lower, upper=upper, step=None) if lower or upper:
                sides = [(lower, ">="), (upper, "<")]
                masks = [self._mask(tensor, self._bound(one, rows), sign, before) for one, sign in sides if one]
                return f"{tensor}.masked_fill_({' & '.join(masks)}, {text})"
            case ast.expr() if not before and not isinstance(at, ast.Slice):
                self.is_ragged = True
                numbers = self._bound(at, rows)
                every = f"{self._site.torch}.arange({tensor}.shape[0], device={tensor}.device)"
                return f"{tensor}[{every}, {_bare(numbers)}] = {text}"
        raise _NotAllRowsError

    def _bound(self, node: ast.expr, rows: _Rows) -> str:
        """Return the tensor of what bounds a part of each row: `lengths` of `int(lengths[i])`, `lengths - 1`."""
        numbers = self._number_in(node, rows) or self._element_of(node, rows)
        if numbers:
            return numbers
        match node:
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=right):
                sides = [(one, self._bound(one, rows)) for one in (left, right) if self._is_of_row(one, rows)]
                if sides:
                    return f"({self._site.source(node, sides)})"
        raise _NotAllRowsError

    def _is_read_after(self, name: str, loop: ast.For) -> bool:
        inside = set(ast.walk(loop))
        return any(n not in inside for n in self._site.loads(name))

    # -- what is computed of a row

    def _value(self, node: ast.expr, rows: _Rows) -> str:  # noqa: C901, PLR0911 -- one for each kind of syntax
        """Return what is computed of all rows, where a value is computed of one."""
        match node:
            case ast.Name(id=name) if name in self._known:
                return self._known[name]
            case ast.Name(id=name) if name == rows.row:
                return rows.of
            case ast.Call(func=ast.Attribute(value=ast.Subscript() as part, attr=name)) if self._upper(part, rows):
                return self._reduced(part, name, node, rows)
            case ast.Attribute(value=ast.Call(func=ast.Attribute(value=ast.Subscript() as part, attr=name)) as call,
                               attr="values") if self._upper(part, rows) and name in _OF_PAIRS:  # fmt: skip
                return self._reduced(part, _OF_PAIRS[name], call, rows)
            case ast.Subscript():
                return self._element(node, rows)
            case ast.BinOp(left=left, right=right):
                return self._site.source(node, [(one, self._value(one, rows)) for one in (left, right)])
            case ast.Call(func=ast.Attribute(value=inner, attr=name), args=arguments) if not of_torch(node):
                if self._is_of_row(inner, rows):
                    is_by_columns = name in _BY_COLUMNS and arguments and all(map(_is_from_the_end, arguments))
                    if not (is_by_columns or name in ELEMENTWISE) or node.keywords:
                        raise _NotAllRowsError
                    return self._site.source(node, [(inner, self._value(inner, rows))])
        if isinstance(node, ast.Call) and node.args and not self._is_of_row(node.func, rows):
            first, *others = node.args
            if self._is_of_row(first, rows) and not any(self._is_of_row(n, rows) for n in (*others, *node.keywords)):
                return self._site.source(node, [(first, self._value(first, rows))])
        if self._is_of_row(node, rows):
            raise _NotAllRowsError
        return self._site.source(node)

    def _is_of_row(self, node: ast.AST, rows: _Rows) -> bool:
        names = rows.names | self._known.keys()
        return any(isinstance(n, ast.Name) and n.id in names for n in ast.walk(node))

    def _tensor(self, part: ast.Subscript, rows: _Rows) -> tuple[str, Sequence[ast.expr]]:
        """Return the tensor that a part of a row is of, and which part."""
        inside = indices(part)
        if isinstance(part.value, ast.Name) and part.value.id == rows.row:
            return rows.of, inside
        match inside:
            case [ast.Name(id=index), *rest] if index == rows.index and dotted(part.value):
                return dotted(part.value), rest
        raise _NotAllRowsError

    def _number_in(self, node: ast.AST, rows: _Rows) -> str:
        """Return the tensor whose number for the row an expression is."""
        match node:
            case ast.Name(id=name) if name == rows.number:
                return rows.numbers
            case ast.Call(func=ast.Name(id="int"), args=[inner]):
                return self._number_in(inner, rows) or self._element_of(inner, rows)
            case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[]):
                return self._element_of(inner, rows)
        return ""

    def _element_of(self, node: ast.AST, rows: _Rows) -> str:
        match node:
            case ast.Subscript(value=tensor, slice=ast.Name(id=index)) if index == rows.index:
                return dotted(tensor)
        return ""

    def _upper(self, part: ast.Subscript, rows: _Rows) -> str:
        """Return the tensor up to whose numbers rows are taken: `x[i, :n]`, `row[: int(lengths[i])]`."""
        with suppress(_NotAllRowsError):
            _, inside = self._tensor(part, rows)
            match inside:
                case [ast.Slice(lower=None, upper=ast.expr() as upper, step=None)]:
                    return self._number_in(upper, rows) or (self._element_of(upper, rows))
        return ""

    def _element(self, part: ast.Subscript, rows: _Rows) -> str:
        """Return `x[arange, n - 1]` for `x[i, n - 1]`, and `y` for `y[i]`."""
        tensor, inside = self._tensor(part, rows)
        if not inside:
            return tensor
        at, *rest = inside
        if any(self._is_of_row(one, rows) for one in rest):
            raise _NotAllRowsError
        offset, base = "", at
        match at:
            case ast.BinOp(left=base, op=ast.Sub() | ast.Add(), right=ast.Constant()):
                offset = self._site.source(at)[len(self._site.source(base)) :]
        numbers = self._number_in(base, rows)
        if not numbers:
            raise _NotAllRowsError
        self.is_ragged = True
        every = f"{self._site.torch}.arange({numbers}.shape[0], device={numbers}.device)"
        return f"{tensor}[{', '.join([every, numbers + offset, *map(self._site.source, rest)])}]"

    def _reduced(self, part: ast.Subscript, name: str, call: ast.Call, rows: _Rows) -> str:
        """Return a sum, a mean or an extreme of all rows, each up to its number."""
        tensor, numbers = self._tensor(part, rows)[0], self._upper(part, rows)
        dims, fill = _dims(call), _FILLS.get(name)
        if fill is None or dims is None:
            raise _NotAllRowsError
        mask = self._mask(tensor, numbers)
        filled = f"{self._site.torch}.where({mask}, {tensor}, {fill})"
        if name != "mean":
            return f"{filled}.{name}({dims})"
        return f"({filled}.sum({dims}) / {mask}.expand_as({tensor}).sum({dims}))"

    def _mask(self, tensor: str, numbers: str, sign: str = "<", before: Sequence[ast.expr] = ()) -> str:
        """Return the name of a mask of what rows have up to their numbers, which is made above; or from there on.

        Numbers are of the dimension after the row's and those that are taken whole before it.
        """
        if not numbers:
            raise _NotAllRowsError
        is_last = any(isinstance(one, ast.Constant) for one in before)
        dim = -1 if is_last else len(before) + 1
        if known := self._masks.get((tensor, numbers, sign, dim)):
            return known
        name = self._masks[tensor, numbers, sign, dim] = self._site.free("rows") + "_" * len(self._masks)
        self.is_ragged = True
        places = f"{self._site.torch}.arange({tensor}.shape[{dim}], device={tensor}.device)"
        as_column = f".reshape((-1,) + (1,) * ({tensor}.dim() - 1))" if is_last else f"[:{', None' * dim}]"
        column = numbers + as_column
        self._above.append(f"{name} = {places} {sign} {column}")
        dims = dim + 1 if is_last else self._site.dims_of(tensor)
        if dims is None:
            self._above.append(f"{name} = {name}.reshape({name}.shape + (1,) * ({tensor}.dim() - {dim + 1}))")
        elif dims > dim + 1:
            self._above.append(f"{name} = {name}[..., {', '.join(['None'] * (dims - dim - 1))}]")
        return name


def _written(one: ast.stmt) -> tuple[ast.Subscript, ast.expr | str] | None:
    """Return the part that a statement writes one value to, and the value: of `x[i, n:] = 0`, `x[i, n:].zero_()`."""
    match one:
        case ast.Assign(targets=[ast.Subscript() as part], value=value):
            return part, value
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Subscript() as part, attr="zero_"), args=[])):
            return part, "0"
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Subscript() as part, attr="fill_"), args=[value])):
            return part, value
    return None


def _is_all(node: ast.expr) -> bool:
    """Whether a part is all of a dimension, or all dimensions up to the last: `:`, `...`."""
    match node:
        case ast.Slice(lower=None, upper=None, step=None):
            return True
        case ast.Constant(value=value):
            return value is Ellipsis
    return False


def _dims(call: ast.Call) -> str | None:
    """Return the dimensions of all rows over which a reduction of one goes, with the one of places; None of others."""
    given = [*call.args, *(one.value for one in call.keywords if one.arg in {"dim", "axis"})]
    if len(given) != 1 or len(call.args) + len(call.keywords) != 1:
        return None
    parts = given[0].elts if isinstance(given[0], (ast.Tuple, ast.List)) else given
    numbers = [one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, int)]
    if len(numbers) != len(parts) or 0 not in numbers:
        return None
    every = [str(one + 1) for one in numbers]
    return every[0] if len(every) == 1 else f"({', '.join(every)})"


def _bare(text: str) -> str:
    """Return a value without brackets round all of it."""
    return text[1:-1] if text.startswith("(") and text.endswith(")") and parsed(text[1:-1]) else text


def _is_from_the_end(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
