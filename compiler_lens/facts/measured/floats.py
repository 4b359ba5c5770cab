"""A float that changes with each call, in a tensor (`self.count = self.count + n`).

Each other float is compiled apart where Python gets it back: a tensor's value is not part of compiled code.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import dotted, pairs
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

_FLOAT = re.compile(r"-?\d{1,40}(\.\d{0,40}(e[-+]?\d{1,4})?|e[-+]?\d{1,4})")
_ATTRIBUTE = re.compile(r"\.([A-Za-z_]\w{0,100})\)?$")
IN_TENSOR = (
    "`{name}` is then a tensor of float64 without dimensions, on the CPU: it is printed as one, and what wants a number"
    " of it, as JSON does, has to ask with `.item()`; CUDA graphs are not made with it"
)


def in_tensor(cause: RecompileCause, known: Sources, own: Ownership) -> Iterator[tuple[Lines, str]]:
    """Yield where a module makes a number that changes with each call, written as a tensor, and the price of that."""
    found = _ATTRIBUTE.search(cause.subject)
    olds = [change.old for change in cause.changes]
    if cause.cause is not CauseClass.MODULE_ATTRIBUTE or not found or not all(map(_FLOAT.fullmatch, olds)):
        return
    lines = {at for change in cause.changes for failure in change.recompile.failures for at in failure.user_stack}
    files = dict.fromkeys(at.file for at in (cause.line, *sorted(lines, key=_order)) if at and own.owns(at.file))
    for file in files:
        lines_of = _made(file, known.texts.get(file, ""), found[1])
        if lines_of is not None:
            yield lines_of, IN_TENSOR.format(name=f"self.{found[1]}")
            return


def lines_of(cause: RecompileCause) -> Iterator[SourceLine]:
    """Yield the lines for which a number has to be what it was."""
    if cause.line:
        yield cause.line
    for change in cause.changes:
        for failure in change.recompile.failures:
            yield from failure.user_stack[-1:]


def _order(at: SourceLine) -> tuple[str, int]:
    return at.file, at.line


def _made(file: str, text: str, name: str) -> Lines | None:
    tree = parsed(text)
    mentioned = [n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name] if tree else []
    owners = [one for one in ast.walk(tree) if isinstance(one, ast.ClassDef) and _sets(one, name)] if tree else []
    makers = [one for owner in owners for one in _makings(owner, name)]
    if len(owners) != 1 or len(makers) != 1:
        return None
    maker, made = makers[0]
    site = site_in(text, maker.lineno)
    beyond = {n: one for one in ast.walk(tree) for n in ast.iter_child_nodes(one)} if tree else {}
    is_number = all(_may_be_tensor(site_in(text, n.lineno), n, beyond) for n in mentioned)
    if site is None or not is_number or any(isinstance(n, ast.Call) for n in ast.walk(made)):
        return None
    value = f"{site.torch}.tensor({site.source(made)}, dtype={site.torch}.float64)"
    found = site.edit([(made, value)]) if site.statement is maker else None
    return Lines(file, maker.lineno, found.before, found.after) if found else None


def _sets(owner: ast.ClassDef, name: str) -> bool:
    return any(isinstance(n, ast.Attribute) and dotted(n) == f"self.{name}" and _is_stored(n) for n in ast.walk(owner))


def _is_stored(node: ast.Attribute) -> bool:
    return isinstance(node.ctx, ast.Store)


def _makings(owner: ast.ClassDef, name: str) -> Iterator[tuple[ast.Assign, ast.expr]]:
    """Yield where `__init__` makes the number, and what of that is the number."""
    for function in owner.body:
        if isinstance(function, ast.FunctionDef) and function.name == "__init__":
            for node in ast.walk(function):
                match node:
                    case ast.Assign(targets=[target], value=value):
                        yield from ((node, given) for one, given in pairs(target, value) if _is_own(one, name))


def _is_own(target: ast.expr, name: str) -> bool:
    return dotted(target) == f"self.{name}"


def _may_be_tensor(site: Site | None, node: ast.Attribute, beyond: Mapping[ast.AST, ast.AST]) -> bool:
    """Return whether a tensor does what a number does there: it is computed with, or set to what is computed anew.

    `beyond` has what is around each node, also where that is in no function.
    """
    around = beyond.get(node)
    if _is_stored(node):
        if site is None:
            return False
        match around:
            case ast.Tuple(elts=targets) if isinstance(site.statement, ast.Assign) and around in site.statement.targets:
                value = site.statement.value
                return isinstance(value, ast.Tuple) and len(value.elts) == len(targets)
        return (
            isinstance(around, ast.Assign) and around.targets == [node] and not isinstance(around.value, ast.Attribute)
        )
    if isinstance(around, (ast.Call, ast.FormattedValue)):  # as it is said outside, which a run would show
        return True
    return isinstance(around, (ast.BinOp, ast.UnaryOp))
