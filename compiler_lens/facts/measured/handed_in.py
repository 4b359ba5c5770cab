"""A count that a function takes from a tensor's numbers, `int(index.max()) + 1`, as its caller hands none in.

The caller may know it: as many rows as there are in what it picks from by the same index.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at, site_in
from compiler_lens.facts.breaks.rewrites.syntax import Function, called, calls_in, dotted, parameters
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

PRICE = (
    "as many rows as there are in what the same index picks from: those that it does not name are zeros, where the"
    " program may raise an error, as sizes do not fit"
)
_LARGEST = frozenset({"amax", "max"})


def handed_in(at: SourceLine, known: Sources) -> Iterator[Lines]:
    """Yield for each call of the function at a line an edit that hands in the count which that line takes."""
    site = site_at(known, at)
    tree = parsed(site.text) if site else None
    if site is None or tree is None or site.function is None:
        return
    count, index = _counted(site)
    for call in calls_in(tree) if count else ():
        here = site_in(site.text, call.lineno) if called(call) == site.function.name else None
        if here is None or here.function is None or call not in set(ast.walk(here.statement)):
            continue
        given = _arguments(site.function, call)
        if given is None or count in given or index not in given:
            continue
        for tensor in _picked_from(here.function, given[index]):
            text = here.source(call)
            found = here.edit([(call, f"{text[:-1]}, {count}={tensor}.shape[0])")])
            if found:
                yield Lines(at.file, here.statement.lineno, found.before, found.after)


def _counted(site: Site) -> tuple[str, str]:
    """Return the parameters of `if n is None: n = int(index.max()) + 1`, that of the count first; or nothing."""
    match site.statement, site.around[-1:]:
        case ast.Assign(targets=[ast.Name(id=count)], value=value), (
            ast.If(test=ast.Compare(left=ast.Name(id=asked), ops=[ast.Is()], comparators=[ast.Constant(value=None)])),
        ) if asked == count:
            pass
        case _:
            return "", ""
    owners = [_root(call.func.value) for call in calls_in(value) if isinstance(call.func, ast.Attribute)]
    owners += [_root(one) for call in calls_in(value) for one in call.args]
    own = parameters(site.function) if site.function else ()
    names = {name for name in owners if name in own}
    is_largest = any(called(call) in _LARGEST for call in calls_in(value))
    return (count, names.pop()) if len(names) == 1 and is_largest and count in own else ("", "")


def _root(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _arguments(function: Function, call: ast.Call) -> dict[str, ast.expr] | None:
    """Return what a call gives each parameter; None where its text does not show that."""
    if any(isinstance(one, ast.Starred) for one in call.args) or any(one.arg is None for one in call.keywords):
        return None
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    is_method = bool(names) and names[0] == "self" and isinstance(call.func, ast.Attribute)
    by_place = dict(zip(names[is_method:], call.args, strict=False))
    return by_place | {str(one.arg): one.value for one in call.keywords}


def _picked_from(function: Function, index: ast.expr) -> list[str]:
    """Return what a function picks from by an index, by name, each once."""
    found: dict[str, None] = {}
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=value, slice=where) if ast.dump(where) == ast.dump(index) and dotted(value):
                found[dotted(value)] = None
            case ast.Call(func=ast.Attribute(value=value, attr="index_select"), args=[_, where]):
                if ast.dump(where) == ast.dump(index) and dotted(value):
                    found[dotted(value)] = None
    return list(found)
