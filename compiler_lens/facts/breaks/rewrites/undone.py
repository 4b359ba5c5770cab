"""A branch whose methods change what an object keeps: they run at each call, and are undone where its test is false.

Whether nothing else comes of them, a trial has to show.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.remedies import Rewrite, Shown
from compiler_lens.facts.breaks.rewrites import syntax
from compiler_lens.facts.breaks.rewrites.both import tensor_asked
from compiler_lens.facts.breaks.rewrites.first import changing, methods_called
from compiler_lens.facts.breaks.rewrites.groups import stays_in
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, dotted
from compiler_lens.recording.model import BreakCause

_PRICE = (
    "what the branch changes is computed at each call, and set back where its test is false: it must not raise then"
)
_MOST = 8  # attributes


def undone(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `if test: self.update(x)` without the branch: `torch.where` sets back what `update` has changed."""
    match site.statement:
        case ast.If(test=test, body=body, orelse=[]) as branch if not site.edited(branch).startswith("elif"):
            asks = tensor_asked(site, cause, test)
        case _:
            return None
    methods = methods_called(site, body)
    if not asks or not methods or changing(site, branch) is Shown.INITIALISES:
        return None
    assigned = {name for one in body for name in syntax.stored(one)}
    is_plain = all(isinstance(one, SIMPLE) and not isinstance(one, ast.Return) for one in (*body, *methods))
    if not is_plain or not all(stays_in(site, branch, name) for name in assigned):
        return None
    changed = dict(_changed([*body, *methods]))
    if not 0 < len(changed) <= _MOST:
        return None
    before = {name: site.free(name.rpartition(".")[2]) for name in changed}
    chosen = site.free("changes")
    old = ", ".join(f"{name}.clone()" if is_in_place else name for name, is_in_place in changed.items())
    return site.rewrite(
        [
            f"{chosen} = {asks}",
            f"{', '.join(before.values())} = {old}",
            *(line for one in body for line in site.dedented(one)),
            *(_set_back(name, f"{site.torch}.where({chosen}, {name}, {before[name]})", changed) for name in changed),
        ],
        _PRICE,
    )


def _set_back(name: str, value: str, changed: dict[str, bool]) -> str:
    return f"{name}.copy_({value})" if changed[name] else f"{name} = {value}"


def _changed(statements: Sequence[ast.stmt]) -> Iterator[tuple[str, bool]]:
    """Yield the attributes of the object that statements change, and whether they do so in place."""
    for node in (inner for one in statements for inner in ast.walk(one)):
        match node:
            case ast.Assign(targets=[ast.Attribute() as target]):
                is_in_place = False
            case ast.Assign(targets=[ast.Subscript(value=target)]) | ast.AugAssign(target=ast.Subscript(value=target)):
                is_in_place = True
            case ast.AugAssign(target=ast.Attribute() as target):
                is_in_place = True
            case ast.Call(func=ast.Attribute(value=target, attr=name)) if name.endswith("_") and name[:1] != "_":
                is_in_place = True
            case _:
                continue
        if dotted(target).count(".") == 1 and dotted(target).startswith("self."):
            yield dotted(target), is_in_place
