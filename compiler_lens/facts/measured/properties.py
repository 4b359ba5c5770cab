"""What is computed once and kept, computed each time in place of that: a `cached_property`, `if self.x is None`.

A `cached_property` locks where Python is older than 3.12, and so breaks the graph. An attribute that the first call
sets has the second one compile again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import Site, number_at, parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, dotted, is_pure_call
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.elsewhere import Attribute, is_changed
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources, syntax_if_known

_NAMES = ("cached_property", "functools.cached_property")
_OF_NUMBERS = frozenset({"len", "min", "max", "sum", "abs", "int", "float", "bool", "math.ceil", "math.floor"})
RECOMPUTED = (
    "it is computed each time it is read, of attributes as they are then; to assign or delete it raises from now on,"
    " and what is changed in place in what it returned is lost"
)
IN_EACH_CALL = "compiled code computes it in each call, of attributes as they are then, and keeps nothing"


def uncached(at: SourceLine, cause: BreakCause, known: Sources) -> Lines | None:
    """Write `@property` for the `@cached_property` that a line reads of its own object; None where it may not be one.

    What it returns is computed from attributes alone, so it is the same as long as they are. A property keeps nothing
    that any other file stores in it, or in what it returned.
    """
    site = site_at(known, at) if cause.gb_type == "Unsupported context manager" else None
    tree = syntax_if_known(site.text) if site else None
    number = number_at(tree.body, at.line) if tree else None
    owner = tree.body[number] if tree and number is not None else None
    if site is None or not isinstance(owner, ast.ClassDef):
        return None
    read = {n.attr for n in ast.walk(site.statement) if isinstance(n, ast.Attribute) and dotted(n.value) == "self"}
    marks = [(name, mark) for name, mark in _cached(owner) if name in read]
    marks = [(name, mark) for name, mark in marks if not is_changed(Attribute(name, owner.name, at.file), known)]
    if len(marks) != 1:
        return None
    ((_, mark),) = marks
    line = site.text.split("\n")[mark.lineno - 1].strip()
    return Lines(at.file, mark.lineno, (line,), ("@property",)) if line.lstrip("@ ") in _NAMES else None


def unkept(at: SourceLine, known: Sources) -> Lines | None:
    """Have compiled code compute `E` of `if self.x is None: self.x = E` and `return self.x`; None for other lines.

    What it computes is of attributes alone, and nothing else reads what is kept.
    """
    site = site_at(known, at)
    match (site.statement, *site.following) if site else ():
        case (
            ast.If(
                test=ast.Compare(left=test, ops=[ast.Is()], comparators=[ast.Constant(value=None)]),
                body=[ast.Assign(targets=[target], value=value)],
                orelse=[],
            ),
            ast.Return(value=ast.expr() as returned),
        ):
            names = {dotted(node) for node in (test, target, returned)}
        case _:
            return None
    tree = parsed(site.text) if site else None
    if site is None or site.function is None or tree is None or len(names) != 1:
        return None
    owner, _, name = names.pop().rpartition(".")
    inside = set(ast.walk(site.function))
    read = (
        n for n in ast.walk(tree) if isinstance(n, ast.Attribute) and n.attr == name and isinstance(n.ctx, ast.Load)
    )
    if owner != "self" or not inside.issuperset(read) or not _is_of_self(site, value):
        return None
    lines = [f"if {site.torch}.compiler.is_compiling():", f"    return {site.source(value)}", *site.lines()]
    found = site.rewrite(lines)
    return Lines(at.file, at.line, found.before, found.after) if found and site.imports_torch else None


def _is_of_self(site: Site, value: ast.expr) -> bool:
    """Whether a value is computed by torch from attributes of `self`."""
    names = {n.id for n in ast.walk(value) if isinstance(n, ast.Name)}
    return names <= {"self", site.torch} and all(is_pure_call(call) for call in calls_in(value))


def _cached(of: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    """Yield the cached properties of a class that are computed from attributes alone, with their marks."""
    for one in getattr(of, "body", ()):
        match one:
            case ast.FunctionDef(decorator_list=[mark]) if dotted(mark) in _NAMES and _is_of_attributes(one):
                yield one.name, mark


def _is_of_attributes(function: ast.FunctionDef) -> bool:
    *before, last = (s for s in function.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant)))
    are_names = all(isinstance(s, ast.Assign) and all(isinstance(t, ast.Name) for t in s.targets) for s in before)
    are_known = all(
        dotted(call.func) in _OF_NUMBERS for call in calls_in(function) if call not in function.decorator_list
    )
    return are_names and are_known and isinstance(last, ast.Return)
