"""Functions of Python's library that are written in C, given to torch in Python: `substitute_in_graph`."""

from __future__ import annotations

import ast
from collections.abc import Mapping

from compiler_lens.facts.breaks.rewrites.site import number_at, site_at
from compiler_lens.facts.breaks.rewrites.syntax import calls_in, dotted
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources, first_line, syntax_if_known

_SEARCH = """\
@{torch}.compiler.substitute_in_graph({name})
def _{function}_in_python(a, x, lo=0, hi=None, *, key=None):
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        middle = (lo + end) // 2
        item = a[middle] if key is None else key(a[middle])
        if {goes_on}:
            lo = middle + 1
        else:
            end = middle
    return lo
"""
_IN_PYTHON: Mapping[str, str] = {
    "bisect_left": _SEARCH.replace("{goes_on}", "item < x"),
    "bisect_right": _SEARCH.replace("{goes_on}", "not x < item"),
}
_OTHER_NAMES = {"bisect": "bisect_right"}
PRICE = "in compiled code it runs as this Python, with what is known while it compiles"


def substituted(at: SourceLine, cause: BreakCause, known: Sources) -> Lines | None:
    """Write a function in Python above what calls it, for torch to follow; None where we have none for the call."""
    function = next((name for name in _IN_PYTHON if f"qualname: {name}," in f"{cause.context},"), "")
    site = site_at(known, at) if function else None
    tree = syntax_if_known(site.text) if site else None
    number = number_at(tree.body, at.line) if tree else None
    if site is None or tree is None or number is None:
        return None
    names = {dotted(call.func) for call in calls_in(site.statement)}
    last = {one: one.rpartition(".")[2] for one in sorted(names)}
    name = next((one for one, own in last.items() if _OTHER_NAMES.get(own, own) == function), "")
    whole = tree.body[number]
    imports = [one for one in tree.body[:number] if isinstance(one, (ast.Import, ast.ImportFrom))]
    bound = {alias.asname or alias.name for one in imports for alias in one.names}
    if not name or not {name.partition(".")[0], site.torch} <= bound:
        return None
    first = first_line(whole)
    line = site.text.split("\n")[first - 1].strip()
    text = _IN_PYTHON[function].format(torch=site.torch, name=name, function=function)
    return Lines(at.file, first, (line,), (*text.splitlines(), "", "", line))
