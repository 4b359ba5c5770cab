"""Slices between a tensor's numbers, `queue[:, ptr : ptr + n] = keys`, `keys[:, :end]`: by places that a graph counts.

What begins at a number is taken by its places; what ends at one is taken whole, and what is past the end is masked.
Whether that gives the same, a trial has to show.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, calls_in, dotted, indices, loads, targets
from compiler_lens.recording.model import BreakCause

_PRICE = "the places are within the tensor, and what is written has as many rows as the slice"
_WHOLE = "what is past the end is finite, is masked, and takes as long to compute"
_MOST = 40  # statements
_EVERY = frozenset({":", "...", "Ellipsis"})
_BASIC = (ast.Slice, ast.Constant, ast.Name, ast.Attribute, ast.UnaryOp)  # an index of these gives a view
_ATTENTION, _MASK = "scaled_dot_product_attention", 3  # with the position of its mask


class _OtherwiseError(Exception):
    """A number is used as nothing but a number can be, or what is past an end would count."""


class _Span(Struct, frozen=True):
    """Places from a number on."""

    begin: str
    many: str
    names: frozenset[str] = frozenset()  # in both


class _Part(Struct, frozen=True):
    """A part of a tensor between numbers."""

    node: ast.Subscript
    tensor: str
    owner: str  # the same with these dimensions whole
    spans: tuple[tuple[int, _Span], ...]  # dimensions of which places from a number on are taken
    ends: tuple[tuple[int, str], ...]  # those that are taken up to a number

    def size(self, dim: int) -> str:
        """Return how long a dimension is as a whole."""
        return f"{self.owner}.shape[{dim}]"


def window(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Keep `ptr = int(self.ptr)` a tensor, and write and read what begins or ends there by its places."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value) if site.function is not None:
            number = _of_number(value)
        case _:
            return None
    every = site.loads(name)
    following = site.following[:_MOST]
    last = max((n for n, one in enumerate(following) if loads(one, name)), default=-1)
    statements = following[: last + 1]
    if number is None or not every or site.escapes(name):
        return None
    again = [one for one in statements if isinstance(one, ast.Assign) and name in targets(one) and loads(one, name)]
    if len(site.uses().stores.get(name, ())) != 1 + len(again):
        return None
    if sum(len(loads(one, name)) for one in statements) != len(every):
        return None
    written = [n for n, one in enumerate(statements) if _writes(one, dotted(number))]
    own = ".clone()" if any(loads(one, name) for one in statements[min(written, default=len(statements)) + 1 :]) else ""
    is_returned = any(loads(n, name) for one in statements for n in ast.walk(one) if isinstance(n, ast.Return))
    if is_returned and site.dims_of(dotted(number)) != 0:
        own += ".reshape(())"  # as a number of one element has no dimensions
    return _Reader(site, {name}, name).rewrite(following, [f"{name} = {site.source(number)}{own}"])


def between(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Take `keys[:, start:end]` by its places, and `keys[:, :end]` whole, where `start` and `end` are tensors."""
    if site.function is None or not isinstance(site.statement, SIMPLE):
        return None
    bounds: list[ast.expr] = []
    for node in ast.walk(site.statement):
        match node:
            case ast.Slice(lower=lower, upper=upper):
                bounds += [one for one in (lower, upper) if one is not None]
            case ast.Call(args=[*arguments]) if called(node) == "arange":
                bounds += arguments
    sums = [one for bound in bounds for one in (bound, _value(site, dotted(bound))) if isinstance(one, ast.BinOp)]
    begins = [one.left for one in sums if isinstance(one.op, ast.Add)]
    names = {dotted(_unwrapped(one)) for one in (*bounds, *begins)} - {""}
    many = {dotted(one.right) for one in sums}
    return _Reader(site, names - many).rewrite([site.statement, *site.following[:_MOST]])


class _Reader:
    """Statements, read from the first to the last.

    Args:
        site: where they stand.
        names: what holds numbers, as tensors.
        number: the one of these that is a tensor from now on, where it was a number of Python's.
    """

    def __init__(self, site: Site, names: AbstractSet[str], number: str = "") -> None:
        self._site, self._number = site, number
        self._names = names | {end for end in site.uses().values if _begins(_value(site, end), names)}
        self._above: list[str] = []  # lines to stand above a statement
        self._places: dict[_Span, str] = {}  # the names of those that these make
        self._first: _Part | None = None  # that is taken up to a number
        self._is_masked = False
        self._whole = set[str]()  # names of what was computed with what is past an end

    def rewrite(self, statements: Sequence[ast.stmt], before: Sequence[str] = ()) -> Rewrite | None:
        """Return what to write for these statements, up to the last that changes."""
        with suppress(_OtherwiseError):
            ends = [part for one in statements for part in self._parts(one) if part.ends]
            self._first = next(iter(ends), None)
            self._is_masked = any(self._is_arange_to_end(call) for one in statements for call in calls_in(one))
            lines, last = self._site.changed(statements, self._statement)
            if last and (self._first is None or self._is_masked):
                needs = "; ".join([_PRICE, _WHOLE] if self._first else [_PRICE])
                return self._site.rewrite([*before, *lines], needs, last=last)
        return None

    def _statement(self, one: ast.stmt) -> tuple[list[str], list[str]]:
        """Return lines to stand above a statement, and what to write for it; nothing where it stays."""
        parts = self._parts(one) if isinstance(one, SIMPLE) else []
        changes = self._changes(one, parts) if isinstance(one, SIMPLE) else []
        self._check_left(one, [*(node for node, _ in changes), *(part.node for part in parts)])
        match one:
            case ast.Assign(targets=[ast.Subscript() as target], value=value) if part := self._part(target):
                new = [self._copied(part, value, changes)]
            case ast.AugAssign(target=ast.Subscript() as target) if self._part(target):
                raise _OtherwiseError
            case _:
                new = self._site.dedented(one, changes) if changes else []
        self._places = {span: name for span, name in self._places.items() if not _moves(one, span)}
        above, self._above = self._above, []
        return above, new

    def _check_left(self, one: ast.stmt, changing: Sequence[ast.expr]) -> None:
        """Raise where what was a number of Python's is used, and not as a tensor can be."""
        if not self._number:
            return
        changed = {n for node in changing for n in ast.walk(node)}
        left = [n for n in loads(one, self._number) if n not in changed]
        if left and not (isinstance(one, SIMPLE) and all(_is_reckoned(self._site, n) for n in left)):
            raise _OtherwiseError

    def _copied(self, part: _Part, value: ast.expr, changes: Sequence[Change]) -> str:
        if len(part.spans) != 1 or part.ends:
            raise _OtherwiseError
        ((dim, span),) = part.spans
        inner = [(node, new) for node, new in changes if node is not part.node]
        given = f"({self._site.source(value, inner)})" if inner else self._site.atom(value)
        # A slice takes any dtype.
        return f"{part.owner}.index_copy_({dim}, {self._named(span, part)}, {given}.to({part.tensor}.dtype))"

    def _named(self, span: _Span, part: _Part) -> str:
        if span not in self._places:
            name = self._places[span] = self._site.free("places") + "_" * len(self._places)
            counted = f"{self._site.torch}.arange({span.many}, device={part.tensor}.device)"
            self._above.append(f"{name} = {span.begin} + {counted}")
        return self._places[span]

    # -- what changes in a statement

    def _changes(self, one: ast.stmt, parts: Sequence[_Part]) -> list[Change]:
        stored = one.targets if isinstance(one, ast.Assign) else []
        inner: list[Change] = []
        for part in parts:
            if part.node not in stored:
                taken = (f".index_select({dim}, {self._named(span, part)})" for dim, span in part.spans)
                inner.append((part.node, part.owner + "".join(taken)))
        for call in calls_in(one):
            if called(call) == "arange":
                inner += self._counted(call)
        is_whole = any(part.ends for part in parts) or any(loads(one, name) for name in self._whole)
        is_open = is_whole and not self._is_masked
        consumer = next(filter(None, map(self._weighed, calls_in(one))), None) if is_open else None
        if consumer:
            self._is_masked = True
            inner = self._with_mask(consumer, inner)
        elif is_whole and isinstance(one, ast.Assign):
            self._whole.update(n.id for target in one.targets for n in _each(target) if isinstance(n, ast.Name))
        return inner

    def _counted(self, call: ast.Call) -> Iterator[Change]:
        match call.args:
            case [end] if self._is_arange_to_end(call):
                yield end, self._size_to(end)
            case [begin, end] if self._has_number(begin):
                if (span := self._span(begin, end)) is None:
                    raise _OtherwiseError
                given = "".join(f", {self._site.source(one)}" for one in call.keywords)
                yield call, f"({span.begin} + {self._site.torch}.arange({span.many}{given}))"

    def _is_arange_to_end(self, call: ast.Call) -> bool:
        return called(call) == "arange" and len(call.args) == 1 and self._has_number(call.args[0])

    def _size_to(self, end: ast.expr) -> str:
        """Return how long what ends at a number is as a whole."""
        part, wanted = self._first, self._text(end)
        dims = [dim for dim, text in part.ends if text == wanted] if part else []
        if part is None or not dims:
            raise _OtherwiseError
        return part.size(dims[0])

    # -- what has to be masked

    def _weighed(self, call: ast.Call) -> ast.expr | None:
        """Return the argument of attention or softmax after which, or on which, a mask goes; None for other calls."""
        names = {one.arg for one in call.keywords}
        match call:
            case ast.Call(args=[_, _, _, *_]) if called(call) == _ATTENTION:
                if len(call.args) > _MASK or not names.isdisjoint({"attn_mask", "is_causal", None}):
                    raise _OtherwiseError
                return call.args[_MASK - 1]
            case ast.Call(func=ast.Attribute(value=ast.expr() as of, attr="softmax"), args=[*given]):
                is_function = dotted(of) in {"F", "torch", "nn.functional", "torch.nn.functional"}
                operand = given[0] if is_function and given else of
                dims = [*(given[1:] if is_function else given), *(k.value for k in call.keywords if k.arg == "dim")]
                return operand if [ast.unparse(one) for one in dims] == ["-1"] else None
        return None

    def _with_mask(self, at: ast.expr, inner: Sequence[Change]) -> list[Change]:
        part = self._first
        if part is None:
            raise _OtherwiseError
        ((dim, end), *_) = part.ends
        places = f"{self._site.torch}.arange({part.size(dim)}, device={part.tensor}.device)"
        within = set(ast.walk(at))
        text = self._site.source(at, [one for one in inner if one[0] in within])
        above = self._site.parents().get(at)
        if above is not None and called(above) == _ATTENTION:
            text = f"{text}, attn_mask=({places} < {end})[None]"
        else:
            text = f'({text}).masked_fill({places} >= {end}, float("-inf"))'
        return [*(one for one in inner if one[0] not in within), (at, text)]

    # -- parts of tensors

    def _parts(self, one: ast.stmt) -> list[_Part]:
        return [part for n in ast.walk(one) if isinstance(n, ast.Subscript) and (part := self._part(n))]

    def _part(self, node: ast.Subscript) -> _Part | None:
        """Return which part of a tensor a subscript is, if a number bounds it."""
        every = indices(node)
        spans: list[tuple[int, _Span]] = []
        ends: list[tuple[int, str]] = []
        kept: list[str] = []
        for place, one in enumerate(every):
            text, dim = self._site.source(one), _dim(every, place)
            match one:
                case ast.Slice(lower=ast.expr() as lower, upper=ast.expr() as upper, step=None) if span := self._span(
                    lower, upper
                ):
                    spans.append((dim, span))
                    text = ":"
                case ast.Slice(lower=None, upper=ast.expr() as upper, step=None) if self._has_number(upper):
                    ends.append((dim, self._text(upper)))
                    text = ":"
            kept.append(text)
        if not (spans or ends):
            return None
        if not all(isinstance(one, _BASIC) for one in every):
            raise _OtherwiseError
        tensor = self._site.source(node.value)
        owner = tensor if _EVERY.issuperset(kept) else f"{tensor}[{', '.join(kept)}]"
        return _Part(node, tensor, owner, tuple(spans), tuple(ends))

    def _span(self, lower: ast.expr, upper: ast.expr) -> _Span | None:
        if not self._has_number(lower):
            return None
        for one in (upper, _value(self._site, dotted(upper))):
            match one:
                case ast.BinOp(left=left, op=ast.Add(), right=many) if self._text(left) == self._text(
                    lower
                ) and not self._has_number(many):
                    names = {dotted(n) for one in (lower, many) for n in ast.walk(one)} - {""}
                    return _Span(self._text(lower), self._site.source(many), frozenset(names))
        return None

    def _has_number(self, node: ast.expr) -> bool:
        return any(dotted(n) in self._names for n in ast.walk(node))

    def _text(self, node: ast.expr) -> str:
        """Return an expression's text, in which a number that was taken out of a tensor is that tensor."""
        taken = ((n, _unwrapped(n)) for n in ast.walk(node) if isinstance(n, ast.Call))
        return self._site.source(node, [(n, dotted(inner)) for n, inner in taken if inner is not n])


def _dim(every: Sequence[ast.expr], place: int) -> int:
    """Return which dimension of what a subscript gives a part of it is; from the end where `...` is before it."""
    is_after = any(ast.unparse(one) in {"...", "Ellipsis"} for one in every[:place])
    beside = every[place:] if is_after else every[:place]
    many = sum(isinstance(one, ast.Slice) for one in beside)
    return -many if is_after else many


def _moves(one: ast.stmt, span: _Span) -> bool:
    """Return whether a statement may change what places are counted from, or how many."""
    match one:
        case ast.Assign(targets=[*stored]):
            return any(dotted(_owner(n)) in span.names for target in stored for n in _each(target))
        case ast.AugAssign(target=target):
            return dotted(_owner(target)) in span.names
    in_place = (n.func for n in calls_in(one) if isinstance(n.func, ast.Attribute) and n.func.attr.endswith("_"))
    return not isinstance(one, SIMPLE) or any(dotted(n.value) in span.names for n in in_place)


def _each(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]


def _owner(target: ast.expr) -> ast.expr:
    """Return `x` of `x[0]`, to which something is assigned."""
    return _owner(target.value) if isinstance(target, ast.Subscript) else target


def _value(site: Site, name: str) -> ast.expr | None:
    """Return what a name is assigned, if that is a sum."""
    value = site.value_of(name) if name else None
    return value if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) else None


def _begins(node: ast.expr | None, names: AbstractSet[str]) -> bool:
    return isinstance(node, ast.BinOp) and dotted(node.left) in names


def _writes(one: ast.stmt, name: str) -> bool:
    """Whether a statement may change a tensor in place."""
    named = [n for n in ast.walk(one) if isinstance(n, ast.Attribute | ast.Name) and dotted(n) == name]
    is_assigned = isinstance(one, ast.Assign) and any(dotted(target) == name for target in one.targets)
    return bool(named) and not is_assigned


def _unwrapped(node: ast.expr) -> ast.expr:
    """Return `x` of `int(x)` and `x.item()`, where that is a name or an attribute; anything else as it is."""
    return _of_number(node) or node


def _of_number(node: ast.expr) -> ast.expr | None:
    """Return `x` of `int(x)`, `x.item()` and `int(x.item())`, where that is a name or an attribute."""
    match node:
        case ast.Call(func=ast.Name(id="int"), args=[inner], keywords=[]):
            return _of_number(inner) or (inner if dotted(inner) else None)
        case ast.Call(func=ast.Attribute(value=inner, attr="item"), args=[], keywords=[]):
            return inner if dotted(inner) else None
    return None


def _is_reckoned(site: Site, node: ast.expr) -> bool:
    """Whether something is computed with a number, and that is assigned, or returned: a tensor does as well."""
    parents = site.parents()
    above = parents.get(node)
    while isinstance(above, ast.BinOp | ast.Tuple):
        above = parents.get(above)
    is_inner = isinstance(above, ast.Return) and getattr(site.function, "name", "forward") != "forward"
    return is_inner or (isinstance(above, ast.Assign) and called(above.value) == "")
