"""Rows that a mask chooses and that end in sums: all rows, and a mask where they are added up."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.assignments import is_repeatable
from compiler_lens.facts.breaks.rewrites.groups import places_of
from compiler_lens.facts.breaks.rewrites.masks import is_mask
from compiler_lens.facts.breaks.rewrites.ranks import given, rank
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, dotted, of_torch
from compiler_lens.recording.model import BreakCause

# Functions of torch.nn.functional that reduce what they compute of each element, by the module that calls them.
_LOSSES = {
    "BCELoss": "binary_cross_entropy", "BCEWithLogitsLoss": "binary_cross_entropy_with_logits",
    "HuberLoss": "huber_loss", "L1Loss": "l1_loss", "MSELoss": "mse_loss", "SmoothL1Loss": "smooth_l1_loss",
    "PoissonNLLLoss": "poisson_nll_loss", "SoftMarginLoss": "soft_margin_loss",
}  # fmt: skip
_OF_CLASSES = frozenset({"cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"})  # leave out a target of -100
_ENDS = {"max": 'float("-inf")', "min": 'float("inf")', "amax": 'float("-inf")', "amin": 'float("inf")'}
_ALONG = frozenset({
    "all", "amax", "amin", "any", "argmax", "argmin", "cosine_similarity", "logsumexp", "max", "mean", "median", "min",
    "norm", "prod", "std", "sum", "var", "vector_norm",
})  # one number of all that is along a dimension  # fmt: skip
_WITH_DIM = _ALONG | frozenset({
    "cat", "concat", "cumsum", "flip", "log_softmax", "normalize", "softmax", "sort", "squeeze", "unsqueeze",
})  # fmt: skip
_KNOWN = syntax.ELEMENTWISE | _WITH_DIM | frozenset({
    "add", "atan2", "clone", "contiguous", "detach", "elu", "erf", "fmod", "hypot", "int", "isfinite", "isnan",
    "leaky_relu", "lerp", "logaddexp", "logsigmoid", "logit", "long", "maximum", "minimum", "mish", "one_hot",
    "remainder", "reshape", "sub", "to", "type_as", "unbind", "view", "where", "eq", "ge", "gt", "le", "lt", "ne",
})  # row by row  # fmt: skip
_ASKED = frozenset({"nonzero", "masked_select"})
_TWO = 2
_WITH_COLUMNS = 2  # arguments of `view`, the tensor and the first size: those of the columns follow
_MADE = frozenset({
    "clone", "empty", "empty_like", "full", "full_like", "ones", "ones_like", "zeros", "zeros_like", "where",
})  # fmt: skip
_MOST = 40  # statements
_PRICE = (
    "all rows are computed, chosen or not; a gradient is nan where a row that is not chosen has no finite value or"
    " slope"
)
_FILLED = {
    "0": "all rows are computed, those that are not chosen with zeros",
    "1": "all rows are computed, those that are not chosen with ones",
}


class _NotRowsError(Exception):
    """What is done with the rows is more than sums of what is computed of each."""


class _Rows(Struct, frozen=True):
    """A value of which the first dimension is over the rows that were chosen."""

    more: int | None  # its dimensions after that one, where known


class _Mask(Struct, frozen=True):
    """What chooses rows."""

    node: ast.expr
    name: str = ""  # of the places where it is true
    kept: str = ""  # the name to give it, where what it is made of is another one after the statement

    def chooses(self, index: ast.AST) -> bool:
        """Whether an index is this one."""
        return isinstance(index, ast.Name) and index.id == self.name if self.name else _alike(index, self.node)

    def names(self) -> frozenset[str]:
        """Return the names that are to stay what they are."""
        if self.kept or self.name:
            return frozenset({self.kept or self.name})
        return frozenset(n.id for n in ast.walk(self.node) if isinstance(n, ast.Name))


def weighed(site: Site, cause: BreakCause) -> Rewrite | None:
    """Compute `loss(x[m], y[m]).mean()` for all rows, of which those that `m` chooses count."""
    return _weighed(site, cause, fill="")


def weighed_and_filled(site: Site, cause: BreakCause) -> Rewrite | None:
    """Compute the same with zeros in place of the other rows, which may hold what the computation is not made for."""
    return _weighed(site, cause, fill="0")


def weighed_and_ones(site: Site, cause: BreakCause) -> Rewrite | None:
    """Compute the same with ones in place of the other rows, as something may be divided by, or be a root."""
    return _weighed(site, cause, fill="1")


def weighed_of_any_rank(site: Site, cause: BreakCause) -> Rewrite | None:
    """Compute the same of tensors that may have dimensions beyond those of the mask, over which it is taken first."""
    return _weighed(site, cause, fill="", is_any_rank=True)


def _weighed(site: Site, cause: BreakCause, *, fill: str, is_any_rank: bool = False) -> Rewrite | None:
    if (
        not _ASKED.intersection(cause.context.split("."))
        or not isinstance(site.statement, SIMPLE)
        or site.function is None
    ):
        return None
    mask = _chosen(site)
    if mask is None or any(map(site.escapes, mask.names())):
        return None
    before = (n for n in ast.walk(site.function) if isinstance(n, ast.Subscript) and n.lineno < site.statement.lineno)
    if any(mask.chooses(one.slice) for one in before):  # which is the one to begin with
        return None
    if not mask.name and any(name in mask.names() for name in syntax.stored(site.statement)):
        mask = _Mask(mask.node, kept=site.free("kept"))
    statements = _until_unread(site, mask)
    with suppress(_NotRowsError):
        reader = _Reader(site, mask, fill, is_any_rank=is_any_rank)
        lines = [line for one in statements for line in reader.lines(one)]
        lines = reader.masks() + lines if not mask.name else [*lines[:1], *reader.masks(), *lines[1:]]
        is_another = reader.has_unknown_rank or not is_any_rank
        if is_another and reader.has_sums and all(_are_read_within(site, name, statements) for name in reader.rows):
            return site.rewrite(lines, _FILLED.get(fill, _PRICE), last=statements[-1])
    return None


def _are_read_within(site: Site, name: str, statements: Sequence[ast.stmt]) -> bool:
    """Whether nothing but some statements reads rows; before them a name may stand for something else."""
    lines = range(statements[0].lineno, (statements[-1].end_lineno or 0) + 1)
    is_repeated = any(isinstance(one, (ast.For, ast.While)) for one in site.around)
    return all(n.lineno in lines or (n.lineno < lines.start and not is_repeated) for n in site.loads(name))


def _chosen(site: Site) -> _Mask | None:
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name) | ast.Tuple(elts=[ast.Name(id=name)])], value=value):
            mask = places_of(value) if _are_places(value, site.statement) else None
            if mask is not None:
                return _Mask(mask, name) if rank(site, mask) in (None, 1) else None
    for node in ast.walk(site.statement):
        match node:
            case ast.Subscript(slice=ast.expr() as mask):
                pass
            case ast.Call(func=ast.Attribute(attr="masked_select"), args=[*_, mask]):
                pass
            case _:
                continue
        seen = {one.dtype for one in site.seen.get(mask.id, ())} if isinstance(mask, ast.Name) else set[str]()
        if (seen == {"bool"} or is_mask(site, mask)) and is_repeatable(site, mask):
            return _Mask(mask)
    return None


def _are_places(value: ast.expr, statement: ast.stmt) -> bool:
    """Whether what is found is all places, in one dimension: `torch.where(m)[0]`, `m.nonzero().squeeze(-1)`."""
    match value:
        case ast.Subscript(value=ast.Call() as call, slice=ast.Constant(value=0)):
            return called(call) == "where" or any(k.arg == "as_tuple" for k in call.keywords)
        case ast.Subscript(value=ast.Call(), slice=ast.Tuple(elts=[ast.Slice(), ast.Constant(value=0)])):
            return True
        case ast.Call(func=ast.Attribute(attr="squeeze" | "flatten" | "view" | "reshape")):
            return True
    return isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple)


def _until_unread(site: Site, mask: _Mask) -> list[ast.stmt]:
    """Return the statement and those after it, to the last that has to do with the rows."""
    statements = [site.statement, *site.following[:_MOST]]
    read, last = {mask.name}, 0
    for number, one in enumerate(statements):
        nodes = list(ast.walk(one))
        if any((isinstance(n, ast.Name) and n.id in read) or mask.chooses(n) for n in nodes):
            last = number
            is_of_rows = any(isinstance(n, ast.Subscript) and mask.chooses(n.slice) for n in nodes)
            is_of_rows |= any(isinstance(n, ast.Name) and n.id in read - {mask.name} for n in nodes)
            read |= syntax.stored(one) if is_of_rows else set()
    return statements[: last + 1]


class _Reader:
    """Statements, read from the first to the last: which names hold rows, and what to write instead."""

    def __init__(self, site: Site, mask: _Mask, fill: str, *, is_any_rank: bool = False) -> None:
        self.has_sums = self.has_unknown_rank = False
        self._is_any_rank = is_any_rank
        self.rows: dict[str, _Rows] = {}
        self._site, self._mask, self._fixed = site, mask, mask.names()
        self._fill = fill
        self._wide: dict[int, str] = {}
        self._text = mask.kept or mask.name or site.atom(mask.node)
        self._dims = 1 if mask.name else rank(site, mask.node)
        self._new: dict[ast.AST, Callable[[], str]] = {}
        self._kinds: dict[ast.AST, _Rows] = {}

    def lines(self, one: ast.stmt) -> list[str]:
        """Return what to write for a statement. Raise `_NotRowsError` where the rows are used otherwise."""
        if one is self._site.statement and self._mask.name:
            return [f"{self._mask.name} = {self._site.source(self._mask.node)}"]
        self._statement(one)
        written = self._site.dedented(one, [(n, self._new[n]()) for n in self._outermost(one)])
        name, is_assigned, value = written[0].partition(" = ")
        return [] if is_assigned and name == value and len(written) == 1 else written

    def _outermost(self, node: ast.AST) -> Iterator[ast.expr]:
        for inner in ast.iter_child_nodes(node):
            if inner in self._new and isinstance(inner, ast.expr):
                yield inner
            else:
                yield from self._outermost(inner)

    def _written(self, node: ast.expr) -> str:
        return self._new[node]() if node in self._new else self._inside(node)

    def _inside(self, node: ast.expr) -> str:
        return self._site.source(node, [(n, self._new[n]()) for n in self._outermost(node)])

    # -- statements

    def _statement(self, one: ast.stmt) -> None:
        match one:
            case ast.Assign(targets=[target], value=value):
                self._assign(target, value)
            case ast.AugAssign(target=ast.Name(id=name), value=value):
                if self._read(value) or name in self.rows:  # all of what rows are of would change
                    raise _NotRowsError
            case ast.If(test=test, body=body, orelse=orelse):
                self._sides(test, body, orelse)
            case ast.For(iter=over, body=body, orelse=[]):
                self._rounds(over, body)
            case ast.Return(value=ast.expr() as value) | ast.Expr(value=value) | ast.AugAssign(value=value):
                self._whole(value)
            case _:
                if any(isinstance(n, ast.Name) and (n.id in self.rows or self._mask.chooses(n)) for n in ast.walk(one)):
                    raise _NotRowsError

    def _sides(self, test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> None:
        self._whole(test)
        before = dict(self.rows)
        for inner in body:
            self._statement(inner)
        after, self.rows = self.rows, dict(before)
        for inner in orelse:
            self._statement(inner)
        if not before.keys() <= after.keys() & self.rows.keys():  # on one side a name holds something else
            raise _NotRowsError
        self.rows = {**after, **self.rows}

    def _rounds(self, over: ast.expr, body: Sequence[ast.stmt]) -> None:
        self._whole(over)
        before = dict(self.rows)
        for inner in body:
            self._statement(inner)
        if any(self.rows.get(name) != rows for name, rows in before.items()):
            raise _NotRowsError  # in the next round they are others

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        targets, kinds = [target], list[_Rows | None]()
        match target, value:
            case ast.Tuple(elts=targets), ast.Tuple(elts=values) if len(targets) == len(values):
                kinds = [self._read(one) for one in values]
            case ast.Tuple(elts=targets), _:
                kinds = [_Rows(None) if self._read(value) else None] * len(targets)
            case _:
                kinds = [self._read(value)]
        for one, rows in zip(targets, kinds, strict=False):
            name = one.id if isinstance(one, ast.Name) else ""
            if isinstance(one, ast.Subscript) and self._mask.chooses(one.slice) and one is target:
                self._written_to(one, value, rows)
                continue
            if name in self._fixed or (rows and not name):
                raise _NotRowsError
            self.rows.pop(name, None)
            if rows:
                seen = self._site.dims_after(name, target.end_lineno or 0)
                self.rows[name] = rows if rows.more is not None or not seen else _Rows(seen - 1)

    def _written_to(self, target: ast.Subscript, value: ast.expr, rows: _Rows | None) -> None:
        """Let `x[m] = …` write all of `x`, or a new one, of which what is not chosen stays."""
        owner = target.value
        if not dotted(owner) or self._mask.name:
            raise _NotRowsError
        dims = rank(self._site, owner)
        more = dims - self._dims if dims is not None and self._dims is not None else None
        wide = _Rows(more if more is not None else rows.more if rows and rows.more is not None else 1)
        made = self._site.uses().values.get(owner.id, ()) if isinstance(owner, ast.Name) else ()
        is_new = any(map(_is_made_here, [one for one in made if one.lineno < target.lineno][-1:]))
        before_it = [n for n in self._site.loads(dotted(owner)) if n.lineno < target.lineno]
        parents = self._site.parents()
        is_new &= all(isinstance(parents.get(n), (ast.Subscript, ast.Attribute, ast.Return)) for n in before_it)
        self._new[target] = lambda: self._site.source(owner) + ("" if is_new else "[...]")
        before = self._new.get(value)
        self._new[value] = lambda: (
            f"{self._site.torch}.where({self._mask_of(wide)}, {before() if before else self._inside(value)},"
            f" {self._site.source(owner)})"
        )
        self.has_sums = True

    # -- expressions

    def _whole(self, node: ast.AST) -> None:
        if self._read(node):
            raise _NotRowsError

    def _of(self, nodes: Iterable[ast.AST]) -> _Rows | None:
        found = [rows for one in nodes if (rows := self._read(one))]
        return _Rows(max((one.more for one in found if one.more is not None), default=None)) if found else None

    def _read(self, node: ast.AST) -> _Rows | None:
        """Take an expression in; return what it has of the rows."""
        rows = self._kind(node)
        if rows:
            self._kinds[node] = rows
        return rows

    def _kind(self, node: ast.AST) -> _Rows | None:  # noqa: PLR0911 -- one for each kind of syntax
        match node:
            case ast.Name(id=name):
                if name == self._mask.name:
                    raise _NotRowsError
                return self.rows.get(name)
            case ast.Subscript(value=value, slice=index):
                return self._subscript(node, value, index)
            case ast.Call():
                return self._call(node)
            case ast.Attribute(value=value, attr=name):
                rows = self._read(value)
                if rows and name not in ("dtype", "device", "values", "indices"):
                    raise _NotRowsError
                return rows if name in ("values", "indices") else None
            case ast.BinOp(op=ast.MatMult()) | ast.BoolOp() | ast.IfExp() | ast.Lambda() | ast.JoinedStr():
                self._whole_parts(node)
                return None
            case ast.ListComp() | ast.GeneratorExp() | ast.SetComp() | ast.DictComp():
                self._whole_parts(node)
                return None
        return self._of(ast.iter_child_nodes(node))

    def _whole_parts(self, node: ast.AST) -> None:
        for one in ast.iter_child_nodes(node):
            self._whole(one)

    def _subscript(self, node: ast.Subscript, value: ast.expr, index: ast.expr) -> _Rows | None:
        if self._is_count(value, "shape") and ast.unparse(index) == "0":
            self._counted(node)
            return None
        if self._mask.chooses(index):
            self._whole(value)
            dims = rank(self._site, value)
            chosen = _Rows(None if dims is None or self._dims is None else dims - self._dims)
            self._new[node] = lambda: self._of_all(node, value, chosen)
            return chosen
        rows = self._read(value)
        if rows is None:
            self._whole(index)
            return None
        if isinstance(value, ast.Call) and syntax.gives_several(value) and isinstance(index, ast.Constant):
            return rows
        match index:
            case ast.Tuple(elts=[ast.Slice(lower=None, upper=None, step=None), *rest]) if self._dims == 1:
                pass
            case ast.Tuple(elts=[ast.Constant(value=first), *rest]) if first is Ellipsis:
                pass
            case _:
                raise _NotRowsError
        self._whole_parts(index)
        more = [0 if isinstance(n, (ast.Slice, ast.List)) else 1 if ast.unparse(n) == "None" else -1 for n in rest]
        return _Rows(None if rows.more is None else rows.more + sum(more))

    def _of_all(self, node: ast.expr, value: ast.expr, rows: _Rows) -> str:
        """Return what to write for rows: all of them."""
        if self._fill and rows.more is not None:
            return f"{self._site.torch}.where({self._mask_of(rows)}, {self._written(value)}, {self._fill})"
        is_dense = all(one.is_contiguous for one in self._site.seen_last(dotted(value)))
        return self._written(value) + ("" if is_dense or not self._is_given(node) else ".contiguous()")

    def _mask_of(self, rows: _Rows) -> str:
        """Return the mask with as many dimensions as a value of the rows has."""
        if not rows.more:
            return self._text
        return self._wide.setdefault(rows.more, self._site.free("rows" if rows.more == 1 else f"rows_{rows.more}"))

    def masks(self) -> list[str]:
        """Return the lines that give names to the mask, and to it with more dimensions."""
        kept = [f"{self._text} = {self._site.source(self._mask.node)}"] if self._mask.kept else []
        return kept + [
            f"{name} = {self._text}" + (".unsqueeze(-1)" if more == 1 else f"[...{', None' * more}]")
            for more, name in self._wide.items()
        ]

    def _is_given(self, node: ast.expr) -> bool:
        """Whether an expression is given to a function of the user's own."""
        call = self._site.parents().get(node)
        return isinstance(call, ast.Call) and not of_torch(call) and node is not call.func

    def _call(self, node: ast.Call) -> _Rows | None:  # noqa: PLR0911 -- one for each kind of call
        if any(self._is_count(node, how) for how in ("numel", "nelement", "len", "size")):
            self._counted(node)
            return None
        if called(node) == "max" and isinstance(node.func, ast.Name) and len(node.args) == _TWO:
            self._at_least(node, *node.args)
            return None
        if called(node) == "masked_select" and any(map(self._mask.chooses, node.args)):
            value = node.args[0] if of_torch(node) else _owner(node)
            self._whole(value)
            self._new[node] = lambda: self._written(value)
            return _Rows(0)
        first = [] if of_torch(node) or not isinstance(node.func, ast.Attribute) else [node.func.value]
        of_first = self._of(first)
        of_args = self._of([*node.args, *(k.value for k in node.keywords)])
        if of_first is None and of_args is None:
            return None
        rows = self._of_several(of_first, of_args)
        made = None if of_torch(node) else self._module(node)
        loss = called(made or node) if made or of_torch(node) else ""
        if loss.startswith("BatchNorm"):  # its statistics are of all rows
            raise _NotRowsError
        if loss in _OF_CLASSES or loss in _LOSSES or loss in _LOSSES.values():
            return self._loss(node, made, loss, rows)
        if not of_torch(node) and of_first is None:
            return _Rows(None)  # a function of the user's own, with rows among its arguments
        return self._operator(node, rows, [*first, *node.args])

    @staticmethod
    def _of_several(*several: _Rows | None) -> _Rows:
        return _Rows(max((one.more for one in several if one and one.more is not None), default=None))

    def _is_count(self, node: ast.expr, how: str) -> bool:
        """Whether an expression is how many rows were chosen, in one of the ways to ask for it."""
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr="shape"):
                is_asked = how == "shape"
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=attr), args=args):
                is_asked = how == attr and list(map(ast.unparse, args)) == (["0"] if how == "size" else [])
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)]):
                is_asked = how == "len"
            case _:
                return False
        is_flat = how in ("shape", "len", "size") or name == self._mask.name
        return is_asked and (name == self._mask.name or (name in self.rows and (is_flat or not self.rows[name].more)))

    def _counted(self, node: ast.expr) -> None:
        self._new[node] = lambda: f"{self._text}.sum()"

    def _at_least(self, node: ast.Call, counted: ast.expr, least: ast.expr) -> None:
        self._whole(counted)
        self._whole(least)
        if counted in self._new:
            self._new[node] = lambda: f"{self._written(counted)}.clamp(min={self._site.source(least)})"

    def _operator(self, node: ast.Call, rows: _Rows, given: Sequence[ast.expr]) -> _Rows | None:
        name, dims = called(node), _dims(node)
        if name.endswith("_") or name not in _KNOWN:
            raise _NotRowsError
        if name in _ALONG and not dims:
            self._over_all(node, name, given, rows)
            return None
        if name in _WITH_DIM:
            self._check_dims(name, dims or ((-1,) if name in ("normalize", "cosine_similarity") else (0,)), rows)
            is_kept = any(k.arg == "keepdim" and ast.unparse(k.value) == "True" for k in node.keywords)
            fewer = max(len(dims), 1) if (name in _ALONG and not is_kept) or name == "squeeze" else 0
            more = 0 if name == "unsqueeze" and rows.more is None else rows.more
            return _Rows(None if more is None else more - fewer + (name == "unsqueeze"))
        if name in ("view", "reshape"):
            is_known = self._dims == 1 and len(given) > _WITH_COLUMNS and ast.unparse(given[1]) == "-1"
            if not is_known:
                raise _NotRowsError
            return _Rows(len(given) - _WITH_COLUMNS)
        return rows

    def _check_dims(self, name: str, dims: Sequence[int], rows: _Rows) -> None:
        """Raise `_NotRowsError` where one of some dimensions may be that of the rows, or is counted from there."""
        added = name == "unsqueeze"
        for dim in dims:
            is_first = dim == 0 or (dim > 0 and self._dims != 1)
            if is_first or (dim < 0 and rows.more is not None and -dim > rows.more + added):
                raise _NotRowsError

    def _over_all(self, node: ast.Call, name: str, given: Sequence[ast.expr], rows: _Rows) -> None:
        if name not in ("sum", "mean", *_ENDS) or len(given) != 1 or node.keywords:
            raise _NotRowsError
        self._new[node] = lambda: self._sum(node, self._written(given[0]), rows, name)
        self.has_sums = True

    def _sum(self, node: ast.Call, text: str, rows: _Rows, name: str) -> str:
        if self._is_any_rank and rows.more is None and name in ("sum", "mean"):
            self.has_unknown_rank = True
            text = f"({text}).reshape(*{self._text}.shape, -1).{name}(-1)"
        where = f"{self._site.torch}.where({self._mask_of(rows)}, {text}, {_ENDS.get(name, '0')})"
        if name != "mean":
            return f"{where}.{name}()"
        parent = self._site.parents().get(node)
        rows_alone = f".mean({-1 if rows.more == 1 else tuple(range(-(rows.more or 0), 0))})" if rows.more else ""
        mean = f"{where}{rows_alone}.sum() / {self._text}.sum()"
        return mean if isinstance(parent, (ast.stmt, ast.Call, ast.keyword, ast.Tuple)) else f"({mean})"

    def _module(self, node: ast.Call) -> ast.Call | None:
        """Return how the object makes the module that a call calls; None where that does not show."""
        match node.func:
            case ast.Attribute(value=ast.Name(id="self"), attr=name):
                made = list(given(self._site, name))
                return made[0] if len(made) == 1 and isinstance(made[0], ast.Call) else None
        return None

    def _loss(self, node: ast.Call, made: ast.Call | None, loss: str, rows: _Rows) -> _Rows | None:
        settings = made.keywords if made else node.keywords
        reduction = next((k for k in settings if k.arg == "reduction"), None)
        how = reduction.value.value if reduction and isinstance(reduction.value, ast.Constant) else "mean"
        if made and (made.args or len(made.keywords) > bool(reduction)):
            raise _NotRowsError
        if loss in _OF_CLASSES:
            if how not in ("mean", "sum"):
                raise _NotRowsError
            self._leaving_out(node)
            return None
        if how == "none":
            return rows
        if how not in ("mean", "sum") or len(node.args) < _TWO:
            raise _NotRowsError
        self._new[node] = lambda: self._sum(node, self._each(node, loss, reduction), rows, str(how))
        self.has_sums = True
        return None

    def _each(self, node: ast.Call, loss: str, reduction: ast.keyword | None) -> str:
        """Return a loss with one value for each element."""
        others = [k for k in node.keywords if k is not reduction]
        named = [f"{k.arg}={self._written(k.value)}" for k in others]
        by_module = f"{self._site.torch}.nn.functional.{_LOSSES.get(loss, loss)}"
        function = self._site.source(node.func) if of_torch(node) else by_module
        given = ", ".join([*map(self._written, node.args), *named, 'reduction="none"'])
        return f"{function}({given})"

    def _leaving_out(self, node: ast.Call) -> None:
        """Let a loss of classes leave out the rows that are not chosen."""
        if len(node.args) != _TWO or any(k.arg in ("ignore_index", "weight") for k in node.keywords):
            raise _NotRowsError
        scores, target = node.args
        of_scores, of_target = self._kinds.get(scores), self._kinds.get(target)
        if (of_scores and of_scores.more not in (None, 1)) or (of_target and of_target.more not in (None, 0)):
            raise _NotRowsError
        is_flat = self._dims == 1
        left_out = f".masked_fill(~{self._text}, -100)"
        self._new[scores] = self._after(scores, "" if is_flat else ".flatten(0, -2)")
        self._new[target] = self._after(target, left_out + ("" if is_flat else ".flatten()"))
        self.has_sums = True

    def _after(self, node: ast.expr, more: str) -> Callable[[], str]:
        before = self._new.get(node)
        return lambda: f"{before() if before else _bracketed(node, self._inside(node))}{more}"


def _is_made_here(value: ast.expr) -> bool:
    """Whether a value is a tensor that nothing else has."""
    name = called(value)
    return syntax.is_new_tensor(value) or name in _MADE or name.removeprefix("new_") in _MADE


def _bracketed(node: ast.expr, text: str) -> str:
    return text if isinstance(node, (ast.Name, ast.Call, ast.Attribute, ast.Subscript)) else f"({text})"


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _dims(call: ast.Call) -> tuple[int, ...]:
    """Return the dimensions that a call names. Raise `_NotRowsError` where these do not show."""
    name = called(call)
    place = {"norm": 1, "vector_norm": 1, "normalize": 1, "cosine_similarity": 1}.get(name, 0)
    place += name == "normalize" or of_torch(call)
    named = next((k.value for k in call.keywords if k.arg in ("dim", "axis")), None)
    node = named if named is not None else call.args[place] if len(call.args) > place else None
    if node is None or name not in _WITH_DIM:
        return ()
    with suppress(ValueError):
        found = ast.literal_eval(node)
        several = found if isinstance(found, (tuple, list)) else (found,)
        if several and all(isinstance(one, int) for one in several):
            return tuple(several)
    raise _NotRowsError


def _alike(one: ast.AST, other: ast.AST) -> bool:
    return ast.dump(one) == ast.dump(other)
