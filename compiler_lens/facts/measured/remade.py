"""What an object makes for the sizes that it saw last, and keeps: compiled code makes it in each call.

`if self.shape != x.shape: self.shape = x.shape; self.grid = …` has each other size compile again, and so has the
attribute that is another then. A graph that makes it anew asks for neither.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.breaks.rewrites.site import Site, parsed, site_at, site_in
from compiler_lens.facts.breaks.rewrites.syntax import dotted, is_text, stored
from compiler_lens.facts.measured.computed import only_computes
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.elsewhere import Attribute, class_around, is_changed
from compiler_lens.facts.measured.memos import OF_SIZES
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

MADE_ANEW = "compiled code makes `{held}` in each call, of attributes as they are then, also where they fit"
_ORDERS = (ast.NotEq, ast.Lt, ast.Gt, ast.LtE, ast.GtE, ast.IsNot, ast.Is)


class _Made(Struct, frozen=True):
    """What a branch makes: the values, in a text of which they are, and the attributes that are given them."""

    site: Site  # of the branch, or of the method that it calls
    values: Sequence[ast.expr]
    attributes: Sequence[str]


def remade(at: SourceLine, known: Sources) -> tuple[Lines, str] | None:
    """Have compiled code make what a branch at a line keeps for one size, and name that; None for other lines.

    What is made is computed by torch of sizes and of what the object has, and nobody else gives the attributes a value.
    """
    site = _branch(at, known)
    test = site.statement if site else None
    if site is None or not isinstance(test, ast.If) or test.orelse or not site.imports_torch:
        return None
    made = _made(site, test.body)
    if made is None or not _is_asked_for(site, test.test, made) or not _is_of_sizes(made):
        return None
    if any(_is_anothers(at, made, name, known) for name in made.attributes):
        return None
    asked = site.source(test.test)
    either = f"({asked})" if isinstance(test.test, (ast.IfExp, ast.Lambda, ast.NamedExpr)) else asked
    found = site.edit([(test.test, f"{site.torch}.compiler.is_compiling() or {either}")])
    lines = found and Lines(at.file, test.lineno, found.before[:1], found.after[:1])
    return (lines, ", ".join(made.attributes)) if lines and found and found.before[1:] == found.after[1:] else None


def _branch(at: SourceLine, known: Sources) -> Site | None:
    """Return the branch that a line begins, or is in."""
    site = site_at(known, at)
    if site is None or isinstance(site.statement, ast.If):
        return site
    around = [one for one in site.around if isinstance(one, ast.If)]
    return site_in(site.text, around[-1].lineno) if around else None


def _made(site: Site, body: Sequence[ast.stmt]) -> _Made | None:
    """Return what some statements make: of sizes that they take, or by one method of the object's."""
    match body:
        case [ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr=name)))]:
            inner = _method(site, name)
            return _assigned(inner, inner.function.body) if inner and inner.function else None
    return _assigned(site, body)


def _method(site: Site, name: str) -> Site | None:
    tree = parsed(site.text)
    owners = [n for n in ast.walk(tree) if isinstance(n, ast.ClassDef) and site.function in n.body] if tree else []
    methods = [one for owner in owners for one in owner.body if isinstance(one, ast.FunctionDef) and one.name == name]
    match methods:
        case [ast.FunctionDef(decorator_list=[], body=[*_, last])]:
            return site_in(site.text, last.lineno)
    return None


def _assigned(site: Site, body: Sequence[ast.stmt]) -> _Made | None:
    """Return what statements that only assign make; None if they do anything else."""
    values, attributes = list[ast.expr](), list[str]()
    for one in (one for one in body if not is_text(one)):
        match one:
            case ast.Assign(targets=targets, value=value):
                values.append(value)
                names = [n for target in targets for n in _parts(target)]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="self"), attr="register_buffer"),
                                         args=[ast.Constant(value=str(name)), value])):  # fmt: skip
                values.append(value)
                names = [ast.Attribute(ast.Name("self", ast.Load()), name, ast.Store())]
            case _:
                return None
        if not all(isinstance(n, ast.Name) or dotted(n).startswith("self.") for n in names):
            return None
        read = {dotted(n) for n in ast.walk(value) if isinstance(n, ast.Attribute)}
        own = [dotted(n) for n in names if isinstance(n, ast.Attribute)]
        later = {f"self.{name}" for name in attributes}
        if any(name in read and name not in later for name in own):
            return None
        attributes += [name.removeprefix("self.") for name in own]
    return _Made(site, values, tuple(dict.fromkeys(attributes))) if attributes else None


def _parts(target: ast.expr) -> Iterator[ast.expr]:
    if isinstance(target, ast.Tuple):
        for one in target.elts:
            yield from _parts(one)
    else:
        yield target


def _is_asked_for(site: Site, test: ast.expr, made: _Made) -> bool:
    """Return whether a test compares what is made with something that the function was given."""
    for node in (n for n in ast.walk(test) if isinstance(n, ast.Compare)):
        sides = [{dotted(n) for n in ast.walk(one)} for one in (node.left, *node.comparators)]
        is_own = [any(f"self.{name}" in side for name in made.attributes) for side in sides]
        is_given = [bool((side - {"self"}) & site.local()) for side in sides]
        is_either = (is_own[0] and is_given[1]) or (is_own[1] and is_given[0])
        if is_either and len(sides) == 2 and isinstance(node.ops[0], _ORDERS):  # noqa: PLR2004 -- left and right
            return True
    return False


def _is_of_sizes(made: _Made) -> bool:
    """Return whether values are computed of the sizes of what a function is given, not of its numbers."""
    tree, site = parsed(made.site.text), made.site
    parents = site.parents()
    made_here = {name for one in made.values for name in stored(parents[one])}
    sized = {n.value.id for n in parents if isinstance(n, ast.Attribute) and n.attr in OF_SIZES
             and isinstance(n.value, ast.Name)}  # fmt: skip
    given = [
        n for one in made.values for n in ast.walk(one)
        if isinstance(n, ast.Name) and n.id not in made_here and (n.id in sized or site.is_tensor(n))
    ]  # fmt: skip
    is_plain = all(getattr(parents.get(n), "attr", "") in OF_SIZES for n in given)
    return tree is not None and is_plain and only_computes(tree, site, made.values)


def _is_anothers(at: SourceLine, made: _Made, name: str, known: Sources) -> bool:
    """Return whether other lines than those that make it, and those that begin, give an attribute a value."""
    tree, owner = parsed(made.site.text), class_around(made.site.text, made.site.line)
    begins = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == "__init__"] if tree else []
    lines = [made.site.parents().get(one, one) for one in made.values]
    mine = frozenset(n for one in (*begins, *lines) for n in ast.walk(one))
    return is_changed(Attribute(name, owner, at.file), known, but=mine)
