"""A whole number that NumPy computes of Python's numbers, computed by Python: torch makes an array of NumPy's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from compiler_lens.facts.breaks.rewrites.site import parsed, site_at
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, calls_in, dotted
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

_IN_MATH = frozenset({"gcd", "lcm"})
# How torch tells what a branch asks for was computed: a line, and the call of NumPy there, here of plain numbers.
_COMPUTED = re.compile(
    r'# File "([^"\n]{1,1000})", line (\d+), in [^\n]{0,500}\n *\w{1,100} = wrapped_(\w{1,30})\(-?\d+, -?\d+\)'
)
BY_PYTHON = (
    "the number is Python's, which does not overflow and has none of NumPy's methods; of an array `math` has none, and"
    " raises TypeError"
)


def by_python(at: SourceLine, cause: BreakCause, known: Sources) -> Iterator[Lines]:
    """Yield `math.lcm(a, b)` for a `np.lcm(a, b)` of plain numbers in this file, which a branch then asks for."""
    if "NumpyNdarrayVariable" not in cause.context:
        return
    for file, line, name in _COMPUTED.findall(cause.explanation):
        found = _written(SourceLine(at.file, int(line), "", ""), name, known)
        if found is not None and file == at.file and name in _IN_MATH:
            yield found


def _written(at: SourceLine, name: str, known: Sources) -> Lines | None:
    site = site_at(known, at)
    bound = _bound(site.text) if site else None
    if site is None or bound is None or not isinstance(site.statement, SIMPLE):
        return None
    match [call for call in calls_in(site.statement) if dotted(call.func) in {f"np.{name}", f"numpy.{name}"}]:
        case [ast.Call(func=function, args=[_, _], keywords=[])]:
            found = site.edit([(function, f"math.{name}")])
        case _:
            return None
    return Lines(at.file, at.line, found.before, found.after, imports="" if bound else "math") if found else None


def _bound(text: str) -> bool | None:
    """Return whether a file imports `math`; None where something else in it may have that name."""
    tree = parsed(text)
    for node in ast.walk(tree) if tree else ():
        match node:
            case ast.Name(id="math", ctx=ast.Store()) | ast.arg(arg="math") | ast.alias(asname="math"):
                return None
            case ast.FunctionDef(name="math") | ast.ClassDef(name="math"):
                return None
            case ast.ImportFrom(names=names) if any(alias.name == "math" for alias in names):
                return None
    imports = [one for one in (tree.body if tree else ()) if isinstance(one, ast.Import)]
    return any(alias.name == "math" and not alias.asname for one in imports for alias in one.names)
