"""Loops over the groups that rows were chosen for, such as experts: for all of them, whichever were chosen."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.assignments import has_effect
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, dotted, loads, of_torch

# Of no rows these are an error, as far as they are over the rows.
ERRORS_OF_NONE = frozenset(
    {"max", "min", "amax", "amin", "aminmax", "argmax", "argmin", "median", "mode", "kthvalue", "topk"}
)


class _Loop(Struct, frozen=True):
    """A loop over groups that only adds the rows chosen for each."""

    node: ast.For
    number: str  # what the body calls the number of the group
    unpacked: ast.expr | None = None  # what makes a number of the loop's variable, where a list of one would not do
    guards: tuple[ast.stmt, ...] = ()  # `if rows.numel() == 0: continue`


def every_group(site: Site) -> Rewrite | None:
    """Let `for e in (m.sum(dim=(-1, -2)) > 0).nonzero():` run for all, where it works on the rows chosen for each.

    The numbers are Python's then, and what they name, such as a module, is known while it compiles.
    """
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            pass
        case _:
            return None
    found, reads = _groups_of(value), () if site.escapes(name) else site.loads(name)
    node = site.parents().get(reads[0]) if found and len(reads) == 1 else None
    if found is None or not isinstance(node, ast.For) or node.iter is not reads[0] or node.orelse:
        return None
    chosen, is_flat = found
    loop = _adding_rows(site, node, chosen)
    if loop is None:
        return None
    every = f"range({site.atom(chosen)}.shape[0])"
    needs = (
        f"`{site.source(chosen)}` has three dimensions and no negative numbers; what was chosen for no row is computed"
        " for none, and its parameters then have a gradient of zeros in place of none"
    )
    as_numbers = f"{name} = {every}"
    if loop.unpacked is None and not loop.guards:
        return site.rewrite([as_numbers if is_flat else f"{name} = [[number] for number in {every}]"], needs)
    listed = not is_flat and loop.unpacked is None
    return _with_loop(site, loop, f"{name} = [[number] for number in {every}]" if listed else as_numbers, needs)


def _with_loop(site: Site, loop: _Loop, first: str, needs: str) -> Rewrite | None:
    """Write the loop, too, which follows in the same block: without its guards, with plain numbers."""
    node = loop.node
    if node not in site.following:
        return None
    between = site.following[: site.following.index(node)]
    if not all(isinstance(s, SIMPLE) for s in between):
        return None
    lines = [line for one in between for line in _dedented(site, one)]
    changes = [(loop.unpacked, ast.unparse(node.target))] if loop.unpacked is not None else []
    return site.rewrite([first, *lines, *_dedented(site, node, changes, loop.guards)], needs, last=node)


def _dedented(
    site: Site, node: ast.stmt, changes: Sequence[Change] = (), without: Sequence[ast.stmt] = ()
) -> Iterator[str]:
    gone = {n for one in without for n in range(one.lineno, (one.end_lineno or one.lineno) + 1)}
    for number, line in enumerate(site.edited(node, changes).split("\n"), node.lineno):
        if number not in gone:
            yield line if number == node.lineno else line[node.col_offset :]


def _adding_rows(site: Site, node: ast.For, chosen: ast.expr) -> _Loop | None:
    """Return a loop that adds the rows chosen for its number, of no rows nothing, and leaves nothing else behind.

    A mean of no rows, a counter or a list would be another one with the groups of no rows.
    """
    match node.target, node.body[-1]:
        case (
            ast.Name(id=number),
            ast.Expr(
                ast.Call(ast.Attribute(ast.Name(), "index_add_" | "scatter_add_"), [_, ast.Name(id=rows), *given])
            ),
        ):
            before = node.body[:-1]
        case _:
            return None
    loop, variable = _Loop(node, number), number
    match before:
        case [ast.Assign(targets=[ast.Name(id=inner)], value=value), *rest] if _is_number_of(value, variable):
            is_plain = not isinstance(value, ast.Subscript)
            loop, before = _Loop(node, inner, value if is_plain else None), rest
            if len(loads(node, variable)) > 1 and inner != variable:
                return None
    guards = tuple(one for one in before if _is_for_none(one, rows))
    body = _Body(site, loop.number)
    if not body.reads([one for one in before if one not in guards], rows, chosen):
        return None
    parts = [*body.values, *given]
    if any(called(call) in ERRORS_OF_NONE or has_effect(call) for part in parts for call in syntax.calls_in(part)):
        return None
    names = {*body.names, loop.number, variable}
    if not body.has_rows or not all(stays_in(site, node, name) for name in names) or not _is_once(site, rows, chosen):
        return None
    return _Loop(node, loop.number, loop.unpacked, guards)


class _Body:
    """What the statements of a loop assign."""

    def __init__(self, site: Site, number: str) -> None:
        self.names: set[str] = set()
        self.values: list[ast.expr] = []
        self.has_rows = False  # those of the group
        self._site, self._number = site, number

    def reads(self, statements: Sequence[ast.stmt], rows: str, chosen: ast.expr) -> bool:
        """Take assignments in, and branches by the group's number; return whether these are all."""
        return all(self._reads(one, rows, chosen) for one in statements)

    def _reads(self, statement: ast.stmt, rows: str, chosen: ast.expr) -> bool:
        match statement:
            case ast.If(test=test, body=[ast.Continue()], orelse=[]):
                return self._is_of_number(test)
            case ast.If(test=test, body=body, orelse=orelse):
                had = self.has_rows
                is_known = self._is_of_number(test) and self.reads([*body, *orelse], rows, chosen)
                self.has_rows = had  # in a branch they are those of some groups
                return is_known
            case ast.Assign(targets=[ast.Name() as target], value=value):
                named: list[ast.expr] = [target]
            case ast.Assign(targets=[ast.Tuple(elts=named)], value=value):
                pass
            case _:
                return False
        assigned = {n.id for n in named if isinstance(n, ast.Name)}
        if len(assigned) != len(named) or self._number in assigned:
            return False
        self.names |= assigned
        self.values.append(value)
        self.has_rows |= rows in assigned and _is_of_group(places_of(value), chosen, self._number)
        return True

    def _is_of_number(self, test: ast.expr) -> bool:
        """Whether a test asks for the number, settings and constants alone."""
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        return names <= {self._number, "self"} and not syntax.calls_in(test)


def _is_number_of(node: ast.expr, name: str) -> bool:
    """Whether a value is the one number in what a name stands for."""
    match node:
        case ast.Subscript(value=ast.Name(id=inner), slice=ast.Constant(value=0)):
            return inner == name
        case ast.Call(func=ast.Attribute(value=ast.Name(id=inner), attr="item"), args=[], keywords=[]):
            return inner == name
        case ast.Call(func=ast.Name(id="int"), args=[inner_node], keywords=[]):
            return dotted(inner_node) == name or _is_number_of(inner_node, name)
    return False


def _is_for_none(statement: ast.stmt, rows: str) -> bool:
    """Whether a statement goes on with the next group where no rows are of this one."""
    match statement:
        case ast.If(
            test=ast.Compare(
                left=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="numel" | "nelement"), args=[]),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value=0)],
            ),
            body=[ast.Continue()],
            orelse=[],
        ):
            return name == rows
    return False


def places_of(node: ast.expr) -> ast.expr | None:
    """Return the mask of `torch.where(m)[0]`, `m.nonzero().squeeze(-1)` and their like."""
    match node:
        case ast.Subscript(value=inner):
            node = inner
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze" | "flatten" | "view" | "reshape")):
            node = inner
    match node:
        case ast.Call(func=ast.Attribute(attr="where"), args=[mask]) if of_torch(node):
            return mask
        case ast.Call(func=ast.Attribute(attr="nonzero"), args=[mask, *_]) if of_torch(node):
            return mask
        case ast.Call(func=ast.Attribute(value=mask, attr="nonzero")):
            return mask
    return None


def _is_of_group(mask: ast.expr | None, chosen: ast.expr, number: str) -> bool:
    """Whether a mask is `chosen[number]`, or the same in another shape."""
    match mask:
        case ast.Call(func=ast.Attribute(value=mask, attr="squeeze" | "bool")):
            pass
    match mask:
        case ast.Subscript(value=value, slice=ast.Name(id=name) | ast.Subscript(value=ast.Name(id=name))):
            return name == number and ast.dump(value) == ast.dump(chosen)
    return False


def stays_in(site: Site, loop: ast.stmt, name: str) -> bool:
    """Return whether a name is one of a loop, or of another block, alone."""
    if site.function is None or name in syntax.parameters(site.function) or site.escapes(name):
        return False
    lines = range(loop.lineno, (loop.end_lineno or 0) + 1)
    stays = all(line in lines for line in site.uses().stores.get(name, ()))
    return stays and len(site.loads(name)) == len(loads(loop, name))


def _is_once(site: Site, rows: str, chosen: ast.expr) -> bool:
    """Whether the rows are what was found, and of what was asked for its groups."""
    stores = site.uses().stores
    later = isinstance(chosen, ast.Name) and any(n > site.statement.lineno for n in stores.get(chosen.id, ()))
    return len(stores.get(rows, ())) == 1 and not later


def _groups_of(node: ast.expr) -> tuple[ast.expr, bool] | None:
    """Return `m` of `torch.greater(m.sum(dim=(-1, -2)), 0).nonzero()`, and whether the result has one dimension."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="squeeze" | "flatten")):
            found = _groups_of(inner)
            return found and (found[0], True)
        case ast.Call(func=ast.Attribute(value=mask, attr="nonzero"), args=[], keywords=words) if not of_torch(
            node
        ) and all(ast.unparse(word) == "as_tuple=False" for word in words):
            pass
        case _:
            return None
    match mask:
        case ast.Compare(left=summed, ops=[ast.Gt()], comparators=[ast.Constant(value=0)]):
            pass
        case ast.Call(args=[summed, ast.Constant(value=0)]) if of_torch(mask) and called(mask) in ("greater", "gt"):
            pass
        case _:
            return None
    match summed:
        case ast.Call(func=ast.Attribute(value=chosen, attr="sum"), keywords=[ast.keyword(arg="dim", value=dims)]):
            return (chosen, False) if ast.unparse(dims) in ("(-1, -2)", "(-2, -1)", "(1, 2)") else None
    return None
