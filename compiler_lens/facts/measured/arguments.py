"""What a call that stays Python is given, on a line of its own: `self.vq(self.encoder(x))` computes before it calls."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Change, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted
from compiler_lens.facts.measured.called import function_named
from compiler_lens.facts.measured.reached import free, identifiers

_GIVEN = "_input"  # after the name of what is called
_PLAIN = (ast.Name, ast.Constant)
_NEVER = (ast.Await, ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Lambda, ast.GeneratorExp, ast.Starred)
_SIMPLE = (ast.Assign, ast.Expr, ast.Return)


class Named(Struct, frozen=True):
    """A text in which calls that stay Python are given names."""

    text: str
    staying: Collection[str]  # all lines of it that stay, without blanks around
    names: AbstractSet[str] = frozenset()


def with_arguments(text: str, name: str, lines: Collection[str], no_graph: AbstractSet[str]) -> Named:
    """Return a text in which what such calls are given is computed above them, as far as that is of layers.

    Args:
        text: a file's.
        name: the qualified name of the function in which they stand.
        lines: those that stay, without blanks around.
        no_graph: names of functions that compute nothing in a graph.
    """
    tree = parsed(text) if "\r" not in text else None
    function = function_named(tree, name) if tree else None
    if tree is None or function is None:
        return Named(text, lines)
    written, staying = text.split("\n"), list(lines)
    names, used = set[str](), identifiers([tree])
    found = [one for one in ast.walk(function) if isinstance(one, _SIMPLE) and written[one.lineno - 1].strip() in lines]
    for one in sorted(found, key=lambda one: one.lineno, reverse=True):
        call, site = one.value, site_in(text, one.lineno)
        data = written[one.lineno - 1].encode()
        before, remark = data[: one.col_offset].decode(), data[one.end_col_offset or 0 :].decode()
        is_alone = one.lineno == one.end_lineno and not before.strip() and remark.strip()[:1] in {"", "#"}
        if site is None or not is_alone or not isinstance(call, ast.Call):
            continue
        changes = list[Change]()
        for argument in _computed(call, no_graph):
            new = free(f"{called(call)}{_GIVEN}", used | names)
            names.add(new)
            changes.append((argument, new))
        if changes:
            line = "".join([*site.dedented(one, changes), remark])
            staying.append(line.strip())
            above = [f"{before}{new} = {site.source(argument)}" for argument, new in changes]
            written[one.lineno - 1 : one.lineno] = [*above, f"{before}{line}"]
    return Named("\n".join(written), staying, names)


def _computed(call: ast.Call, no_graph: AbstractSet[str]) -> Iterator[ast.expr]:
    """Yield what a call is given and has to be computed, if all else that it is given are names."""
    if not dotted(call.func):
        return
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(isinstance(n, _NEVER) for value in given for n in ast.walk(value)):
        return
    others = [value for value in given if not isinstance(value, _PLAIN)]
    if all(_is_of_layers(value, no_graph) for value in others):
        yield from others


def _is_of_layers(value: ast.expr, no_graph: AbstractSet[str]) -> bool:
    """Whether an expression computes with what an object has, a layer say, and all of it may be in a graph."""
    calls = calls_in(value)
    is_plain = not any(called(call) in no_graph for call in calls)
    return is_plain and any(dotted(call.func).startswith("self.") for call in calls)
