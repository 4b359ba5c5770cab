"""Lists that a loop appends to where a tensor says so, and of which a sum or a mean is taken: a mask beside them."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.both import tensor_asked
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, loads, of_torch, stored, targets
from compiler_lens.recording.model import BreakCause

_PRICE = (
    "what was left out is computed, and counts for nothing: it may not raise, or have no finite gradient, where it was"
)
_MOST = 40  # statements after the loop
_OPPOSITE = {ast.Eq: "!=", ast.NotEq: "=="}  # also of nan


class _Loop(Struct, frozen=True):
    """A loop that appends to a list, or does not, by what a branch in it asks."""

    begin: ast.stmt  # `dices = []`
    name: str
    node: ast.For
    branch: ast.If
    before: tuple[ast.stmt, ...]  # from the begin to the loop
    after: tuple[ast.stmt, ...]
    asked: str  # whether something is appended, as a tensor


def masked_list(site: Site, cause: BreakCause) -> Rewrite | None:
    """Append in each round of a loop, and take the sum or the mean of what a mask beside the list says."""
    loop = _loop(site, cause)
    if loop is None:
        return None
    mask = site.free("present")
    reader = _Reads(site, loop.name, mask)
    last = max((n for n, one in enumerate(loop.after) if loads(one, loop.name)), default=-1)
    changes = [reader.changes(one) for one in loop.after[: last + 1]]
    if last < 0 or any(one is None for one in changes):
        return None
    lines = [f"{loop.name}, {mask} = [], []"]
    for one in loop.before:
        lines += site.dedented(one)
    lines += _of_loop(site, loop, mask)
    lines.append(f"{mask} = {site.torch}.stack({mask})")
    for one, new in zip(loop.after, changes, strict=False):
        lines += site.dedented(one, new or [])
    first = replace(site, statement=loop.begin, following=(*loop.before, loop.node, *loop.after))
    return first.rewrite(lines, _PRICE, last=loop.after[last])


def _of_loop(site: Site, loop: _Loop, mask: str) -> Iterator[str]:
    """Yield the lines of the loop without the branch."""
    node, margin = loop.branch, loop.node.col_offset
    text, pad = site.text.split("\n"), " " * (node.col_offset - margin)
    for number in range(loop.node.lineno, (loop.node.end_lineno or 0) + 1):
        if number == node.lineno:
            yield f"{pad}{mask}.append({loop.asked})"
            if not isinstance(node.body[0], ast.Continue):
                for one in node.body:
                    yield from (f"{pad}{line}" for line in site.dedented(one))
        elif not node.lineno <= number <= (node.end_lineno or 0):
            yield text[number - 1][margin:]


def _loop(site: Site, cause: BreakCause) -> _Loop | None:
    node, outer = site.statement, site.around[-1] if site.around else None
    if not isinstance(node, ast.If) or not isinstance(outer, ast.For) or outer.orelse or node.orelse:
        return None
    if node not in outer.body or site.function is None or site.edited(node).startswith("elif"):
        return None
    is_skipped = len(node.body) == 1 and isinstance(node.body[0], ast.Continue)
    rest = outer.body[outer.body.index(node) + 1 :] if is_skipped else node.body
    names = [name for one in rest if (name := _appended(one))]
    asked = _opposite(site, cause, node.test) if is_skipped else tensor_asked(site, cause, node.test)
    is_simple = all(_is_of_names(one) or _appended(one) for one in rest)
    if len(names) != 1 or not asked or not is_simple or not _are_inner(site, rest):
        return None
    block = _block_with(site.function, outer)
    place = block.index(outer)
    for number in range(place - 1, -1, -1):
        match block[number]:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.List(elts=[])) if name == names[0]:
                inner = [n for one in outer.body for n in loads(one, name)]
                if len(inner) != 1 or any(loads(one, name) for one in block[number + 1 : place]):
                    return None
                after = tuple(block[place + 1 : place + 1 + _MOST])
                return _Loop(block[number], name, outer, node, tuple(block[number + 1 : place]), after, asked)
    return None


def _is_of_names(one: ast.stmt) -> bool:
    match one:
        case ast.Assign(targets=[ast.Name()]):
            return True
        case ast.Assign(targets=[ast.Tuple(elts=elts)]):
            return all(isinstance(leaf, ast.Name) for leaf in elts)
    return False


def _are_inner(site: Site, rest: Sequence[ast.stmt]) -> bool:
    """Whether what some statements assign is asked for in those after it alone, not in the next round."""
    for number, one in enumerate(rest):
        for name in stored(one):
            inner = [n for later in rest[number + 1 :] for n in loads(later, name)]
            again = any(name in targets(before) for before in rest[:number] if isinstance(before, ast.Assign))
            if len(site.loads(name)) != len(inner) and not again:
                return False
    return True


def _block_with(function: ast.AST, wanted: ast.stmt) -> list[ast.stmt]:
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and wanted in block:
                return block
    return [wanted]


def _appended(one: ast.stmt) -> str:
    """Return the name of the list that a statement appends to; empty of any other statement."""
    match one:
        case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="append"), args=[_])):
            return name
    return ""


def _opposite(site: Site, cause: BreakCause, asked: ast.expr) -> str:
    match asked:
        case ast.BoolOp(op=ast.And(), values=[known, inner]) if not tensor_asked(site, cause, known):
            opposite = _opposite(site, cause, inner)  # what Python knows comes first
            return f"({opposite}) | (not {site.atom(known)})" if opposite and not calls_in(known) else ""
        case ast.UnaryOp(op=ast.Not(), operand=inner):
            return tensor_asked(site, cause, inner)
        case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _OPPOSITE:
            is_known = bool(tensor_asked(site, cause, asked))
            return f"{site.source(left)} {_OPPOSITE[type(op)]} {site.source(right)}" if is_known else ""
    test = tensor_asked(site, cause, asked)
    return f"~({test})" if test else ""


class _Reads:
    """What asks for a list after the loop, and what to write instead."""

    def __init__(self, site: Site, name: str, mask: str) -> None:
        self._site, self._name, self._mask = site, name, mask

    def changes(self, one: ast.stmt) -> list[Change] | None:
        """Return what to write in a statement; None where it asks for more than a sum, a mean or a count."""
        found = list(self._found(one))
        covered = {n for node, _ in found for n in ast.walk(node)}
        return found if all(n in covered for n in loads(one, self._name)) else None

    def _found(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, ast.expr) and (new := self._new(node)):
            yield node, new
            return
        for inner in ast.iter_child_nodes(node):
            yield from self._found(inner)

    def _new(self, node: ast.expr) -> str:  # noqa: PLR0911 -- one for each kind of syntax
        torch, mask = self._site.torch, self._mask
        total = f"{torch}.where({mask}, {torch}.stack({self._name}), 0).sum()"
        match node:
            case ast.BinOp(left=left, op=ast.Div(), right=right) if self._is_sum(left) and self._is_count(right):
                return f"({total} / {mask}.sum())"
            case ast.Call(func=ast.Name(id="max"), args=[count, least]) if self._is_count(count):
                return f"{mask}.sum().clamp(min={self._site.source(least)})"
            case ast.Call(func=ast.Attribute(value=stacked, attr="mean"), args=[]) if self._is_stacked(stacked):
                return f"({total} / {mask}.sum())"
            case ast.Call(func=ast.Attribute(attr="mean"), args=[stacked]) if of_torch(node) and self._is_stacked(
                stacked
            ):
                return f"({total} / {mask}.sum())"
            case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)) if name == self._name:
                return f"not {mask}.any()"
            case ast.IfExp(test=test, body=body, orelse=orelse) if self._is_any(test):
                some = self._site.source(body, list(self._found(body)))
                return f"{torch}.where({mask}.any(), {some}, {self._site.source(orelse)})"
        if self._is_sum(node):
            return total
        return f"{mask}.sum()" if self._is_count(node) else ""

    def _is_sum(self, node: ast.expr) -> bool:
        match node:
            case ast.Call(func=ast.Name(id="sum"), args=[ast.Name(id=name)]):
                return name == self._name
            case ast.Call(func=ast.Attribute(value=stacked, attr="sum"), args=[]):
                return self._is_stacked(stacked)
            case ast.Call(func=ast.Attribute(attr="sum"), args=[stacked]) if of_torch(node):
                return self._is_stacked(stacked)
        return False

    def _is_any(self, test: ast.expr) -> bool:
        match test:
            case ast.Name(id=name):
                return name == self._name
            case ast.Compare(left=left, ops=[ast.Gt()], comparators=[ast.Constant(value=0)]):
                return self._is_count(left)
        return False

    def _is_stacked(self, node: ast.expr) -> bool:
        return called(node) in ("stack", "cat") and isinstance(node, ast.Call) and _is_only(node.args, self._name)

    def _is_count(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Call) and called(node) == "len" and _is_only(node.args, self._name)


def _is_only(args: Sequence[ast.expr], name: str) -> bool:
    return len(args) == 1 and isinstance(args[0], ast.Name) and args[0].id == name
