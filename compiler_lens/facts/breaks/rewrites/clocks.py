"""A clock that only messages ask for: compiled code, which runs without these, need not ask it."""

from __future__ import annotations

import ast

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Site
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, dotted
from compiler_lens.recording.model import BreakCause

# fmt: off
_SECONDS = frozenset({
    "time.time", "time.perf_counter", "time.monotonic", "time.process_time", "perf_counter", "monotonic",
    "process_time", "time",
})
# fmt: on
_DEPTH = 2  # assignments that a time is followed through: `elapsed = time.time() - start`
_NEEDS = "where a part of it still runs eagerly, a message there tells a wrong time"


def clock(site: Site, _cause: BreakCause) -> Rewrite | None:
    """Write `start = 0.0 if torch.compiler.is_compiling() else time.time()` where only messages in eager read it."""
    match site.statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            calls = [n for n in calls_in(value) if dotted(n.func) in _SECONDS and not (n.args or n.keywords)]
        case _:
            return None
    if not calls or not _is_for_messages(site, name, _DEPTH):
        return None
    here = f"0.0 if {site.torch}.compiler.is_compiling() else"
    changes = [(n, f"{here} {site.source(n)}" if n is value else f"({here} {site.source(n)})") for n in calls]
    return site.edit(changes, _NEEDS)


def _is_for_messages(site: Site, name: str, depth: int) -> bool:
    """Whether all that reads a name is left out of compiled code, or assigns it to a name of which that is so."""
    reads = site.loads(name) if site.function and site.value_of(name) is not None else ()
    return bool(reads) and all(_is_left_out(site, read) or _goes_on(site, read, depth) for read in reads)


def _goes_on(site: Site, read: ast.AST, depth: int) -> bool:
    node: ast.AST | None = read
    while isinstance(node, ast.expr):
        node = site.parents().get(node)
    match node:
        case ast.Assign(targets=[ast.Name(id=name)]):
            return depth > 0 and _is_for_messages(site, name, depth - 1)
    return False


def _is_left_out(site: Site, node: ast.AST) -> bool:
    """Whether a node is in the body of `if not torch.compiler.is_compiling():`."""
    child, parent = node, site.parents().get(node)
    while parent is not None:
        match parent:
            case ast.If(test=ast.UnaryOp(op=ast.Not(), operand=ast.Call(func=function)), body=body):
                if dotted(function).endswith("compiler.is_compiling") and child in body:
                    return True
        child, parent = parent, site.parents().get(parent)
    return False
