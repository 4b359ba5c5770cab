"""Loops over the classes that a tensor has: all classes that there are, and those that it has not are left out."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from itertools import takewhile

from msgspec.structs import replace

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Site, parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted, loads, of_torch, stored
from compiler_lens.recording.model import BreakCause

_PRICE = "`{every}` are all that `{labels}` may have there"
_LISTED = frozenset({"list", "sorted", "set", "tuple"})
_NUMBERS = frozenset({"cpu", "int", "item", "long", "tolist"})


def each_class(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `for c in labels.unique().tolist():` for each `c` that the body takes from a table, if it is there."""
    loop = next((one for one in (site.statement, *reversed(site.around)) if isinstance(one, ast.For)), None)
    if loop is None or loop.orelse or not isinstance(loop.target, ast.Name):
        return None
    name, labels, head = loop.target.id, _labels(loop.iter), site.head(loop)
    every = next(_tables(site, loop.body, name), "") if labels is not None else ""
    if labels is None or not every or not head or any(name in stored(one) for one in loop.body):
        return None
    if not dotted(labels) or len(site.loads(name)) != sum(len(loads(one, name)) for one in loop.body):
        return None
    whole = site.source(labels)
    lines = [f"for {name} in {every}:"]
    known = list(takewhile(lambda one: _is_left_out(one, name), loop.body))
    for one in known:
        lines += [f"    {line}" for line in site.dedented(one)]
    rest = loop.body[len(known) :]
    if not _only_writes(rest, labels, name):
        lines += [f"    if not ({whole} == {name}).any():", "        continue"]
    for one in rest:
        as_number = [(n, name) for n in ast.walk(one) if isinstance(n, ast.Call) and _is_number_of(n, name)]
        lines += [f"    {line}" for line in site.dedented(one, as_number)]
    first = replace(site, statement=loop, following=())
    return first.rewrite(lines, _PRICE.format(every=every, labels=whole))


def _labels(node: ast.expr) -> ast.expr | None:
    """Return what the values are of that a loop runs over, each once."""
    match node:
        case ast.Call(args=[inner]) if isinstance(node.func, ast.Name) and called(node) in _LISTED:
            of_set = _values(inner) if called(node) == "set" else None
            return of_set or _labels(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr=attr), args=[]) if attr in _NUMBERS:
            return _labels(inner)
        case ast.Call(func=ast.Attribute(attr="unique"), args=[inner]) if of_torch(node):
            return _whole(inner)
        case ast.Call(func=ast.Attribute(value=inner, attr="unique"), args=[]):
            return _whole(inner)
    return None


def _values(node: ast.expr) -> ast.expr | None:
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="tolist"), args=[]):
            return _whole(inner)
    return None


def _whole(node: ast.expr) -> ast.expr:
    """Return a tensor of the same values in another shape, or place."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="flatten" | "view" | "reshape" | "cpu" | "detach")):
            return inner
    return node


def _tables(site: Site, body: Sequence[ast.stmt], name: str) -> Iterator[str]:
    """Yield what else a loop may run over: the places of what its variable is an index of."""
    for node in (n for one in body for n in ast.walk(one)):
        match node:
            case ast.Subscript(value=table, slice=index, ctx=ast.Load()) if dotted(table):  # what is written is large
                yield from _of_table(site.source(table), index, name)
            case ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=method), args=args):
                places = [number for number, one in enumerate(args, 1) if dotted(one) == name]
                yield from _in_method(site, method, places)


def _of_table(table: str, index: ast.expr, name: str) -> Iterator[str]:
    match index:
        case ast.Name(id=used) if used == name:
            yield f"range(len({table}))"
        case (
            ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=used)])
            | ast.Call(
                func=ast.Attribute(value=ast.Constant(value="{}" | "{!s}"), attr="format"), args=[ast.Name(id=used)]
            )
            | ast.JoinedStr(values=[ast.FormattedValue(value=ast.Name(id=used))])
        ) if used == name:
            yield f"[int(key) for key in {table}]"
        case ast.Tuple(elts=[*before, ast.Name(id=used)]) if used == name:
            is_last = any(isinstance(one, ast.Constant) for one in before)  # `...`
            yield f"range({table}.shape[{-1 if is_last else len(before)}])"


def _in_method(site: Site, method: str, places: Sequence[int]) -> Iterator[str]:
    """Yield the tables of a method of the same object, by the places of its parameters."""
    tree = parsed(site.text)
    owners = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and site.function in n.body] if tree else []
    for one in owners[0].body if owners else ():
        if isinstance(one, ast.FunctionDef) and one.name == method:
            names = [one.args.args[place].arg for place in places if place < len(one.args.args)]
            for node in ast.walk(one):
                if isinstance(node, ast.Subscript) and dotted(node.value).startswith("self."):
                    for name in names:
                        yield from _of_table(dotted(node.value), node.slice, name)


def _only_writes(body: Sequence[ast.stmt], labels: ast.expr, name: str) -> bool:
    """Whether statements only write rows of the class, of which there are none where it is not there."""
    of_class = {ast.dump(ast.Compare(labels, [ast.Eq()], [ast.Name(name, ast.Load())]))}
    is_written = False
    for one in body:
        match one:
            case ast.Assign(
                targets=[ast.Name(id=kept)],
                value=ast.Call(func=ast.Attribute(attr="where"), args=[rows, _, ast.Name(id=other)]),
            ) if kept == other and ast.dump(rows) in of_class:
                is_written = True
            case ast.Assign(targets=[ast.Name(id=target)], value=value):
                of_class |= {ast.dump(ast.Name(target, ast.Load()))} if ast.dump(_rows(value)) in of_class else set()
            case ast.Assign(targets=[ast.Subscript(slice=rows)]) | ast.AugAssign(target=ast.Subscript(slice=rows)):
                if ast.dump(rows) not in of_class:
                    return False
                is_written = True
            case _:
                return False
    return is_written


def _rows(mask: ast.expr) -> ast.expr:
    """Return a mask of rows without the dimensions that it got for their columns."""
    match mask:
        case ast.Call(func=ast.Attribute(value=inner, attr="unsqueeze")):
            return inner
    return mask


def _is_left_out(one: ast.stmt, name: str) -> bool:
    """Whether a statement leaves out a class that it names."""
    match one:
        case ast.If(test=ast.Compare(left=left, comparators=[_]), body=[ast.Continue()], orelse=[]):
            return dotted(left) == name
    return False


def _is_number_of(call: ast.Call, name: str) -> bool:
    match call:
        case ast.Call(func=ast.Attribute(value=ast.Name(id=owner), attr="item"), args=[]):
            return owner == name
    return False
