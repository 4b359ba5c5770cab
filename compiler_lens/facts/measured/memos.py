"""What a function computes once for each key and keeps in a dict: compiled code computes it in each call instead.

Each new key has the next call compile again, up to the limit. A graph that computes it again reads no dict.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted, is_pure_call, of_torch, parameters
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.elsewhere import Attribute, class_around, is_mentioned, is_result_changed
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

# Functions of torch's that make a tensor of numbers, or of tensors, and do nothing else.
_MAKE = frozenset({"arange", "einsum", "eye", "full", "linspace", "logspace", "ones", "outer", "polar", "pow", "tensor",
                   "zeros"})  # fmt: skip
IN_DICT = (
    "compiled code computes it in each call, of attributes as they are then, and keeps nothing in `{held}`; it does not"
    " read any more what is there already, or what somebody else puts there"
)


class Memo(Struct, frozen=True):
    """`if key not in held: …; held[key] = value`, before `return held[key]`."""

    site: Site  # of the `if`
    held: str
    body: Sequence[ast.stmt]  # what computes the value
    value: ast.expr


def unmemoized(at: SourceLine, known: Sources) -> tuple[Lines, str] | None:
    """Have compiled code compute what the function of a line keeps in a dict, and name that; None for other lines.

    The dict is read by that function alone, and what it keeps is computed by torch of the function's arguments. No file
    puts anything else into it, or changes in place what is in it.
    """
    memo = _memo(at, known)
    if memo is None or _is_anothers(memo, at, known):
        return None
    site = memo.site
    computed = [line for one in memo.body for line in _lines(site, one)]
    lines = [f"if {site.torch}.compiler.is_compiling():", *computed, f"    return {site.source(memo.value)}"]
    found = site.rewrite([*lines, *site.lines()])
    if found is None:
        return None
    return Lines(at.file, site.line, found.before, found.after), memo.held


def _is_anothers(memo: Memo, at: SourceLine, known: Sources) -> bool:
    owner, _, name = memo.held.rpartition(".")
    accessor = memo.site.function.name if memo.site.function else ""
    made_of = class_around(memo.site.text, at.line)
    held = Attribute(name, made_of if owner else "", at.file)
    return is_mentioned(held, known) or is_result_changed(Attribute(accessor, made_of, at.file), known)


def _lines(site: Site, one: ast.stmt) -> list[str]:
    first, *rest = site.edited(one).split("\n")
    return [f"    {first}", *(f"    {line[one.col_offset :]}" for line in rest)]


def _memo(at: SourceLine, known: Sources) -> Memo | None:
    inner = site_at(known, at)
    function = inner.function if inner else None
    if inner is None or not isinstance(function, ast.FunctionDef) or not inner.imports_torch:
        return None
    for test, returned in zip(function.body, function.body[1:], strict=False):
        site = site_in(inner.text, test.lineno)
        found = _kept(site, test, returned) if site else None
        if found and test.lineno <= at.line <= (returned.end_lineno or 0) and _is_its_own(found, function):
            return found
    return None


def _kept(site: Site, test: ast.stmt, returned: ast.stmt) -> Memo | None:
    match test, returned:
        case (
            ast.If(
                test=ast.Compare(left=key, ops=[ast.NotIn()], comparators=[held]),
                body=[*body, ast.Assign(targets=[ast.Subscript(value=written, slice=at)], value=value)],
                orelse=[],
            ),
            ast.Return(value=ast.Subscript(value=read, slice=wanted)),
        ):
            is_one = len({dotted(one) for one in (held, written, read)}) == 1 and dotted(held)
            is_alike = len({ast.dump(one) for one in (key, at, wanted)}) == 1
            return Memo(site, dotted(held), body, value) if is_one and is_alike else None
    return None


def _is_its_own(memo: Memo, function: ast.FunctionDef) -> bool:
    """Whether nothing else reads the dict, and all that is kept is computed by torch of what the function is given."""
    tree, name = parsed(memo.site.text), memo.held.removeprefix("self.")
    if tree is None or "." in name or not all(map(_names_something, memo.body)):
        return False
    inside = set(ast.walk(function))
    read = (n for n in ast.walk(tree) if isinstance(getattr(n, "ctx", None), ast.Load) and n not in inside)
    if any(dotted(n).rpartition(".")[2] == name for n in read):
        return False
    computed = (*memo.body, memo.value)
    names = [n for one in computed for n in ast.walk(one) if isinstance(n, ast.Name)]
    made = {n.id for n in names if isinstance(n.ctx, ast.Store)}
    known = {n.id for n in names} <= {"self", memo.site.torch, *parameters(function), *made}
    return known and all(_only_computes(call) for one in computed for call in calls_in(one))


def _names_something(one: ast.stmt) -> bool:
    return isinstance(one, ast.Assign) and all(isinstance(target, ast.Name) for target in one.targets)


def _only_computes(call: ast.Call) -> bool:
    return is_pure_call(call) or (of_torch(call) and called(call) in _MAKE)
