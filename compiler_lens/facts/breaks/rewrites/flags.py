"""An argument of a torch function that is True or False, made a plain bool of Python's.

Where sizes vary, a comparison of them is a symbol in the graph, and torch's functions take none for a flag. A branch
has Python decide, with a guard; `bool(…)` of a symbol is still a symbol (torch 2.13).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from compiler_lens.facts.breaks.remedies import Rewrite
from compiler_lens.facts.breaks.rewrites.site import Change, Site
from compiler_lens.facts.breaks.rewrites.syntax import SIMPLE, called, calls_in, is_method, of_torch
from compiler_lens.recording.model import BreakCause

_ERROR = "TypeError "  # before what raised it: a function, `<built-in function …>`, or a method's name
_REFUSED = " must be bool, not SymBool"  # after "sum(): argument 'keepdim' (position 2)"
_GOT = " received an invalid combination of arguments - got ("  # after "sort()"
_SYMBOL = "SymBool"


def plain_flag(site: Site, cause: BreakCause) -> Rewrite | None:
    """Write `is_causal=True if t > 1 else False` for `is_causal=t > 1`, as torch refuses any flag that is no bool."""
    said = cause.context
    # A function in Python hands its arguments on: which of them is refused, and where it stands, is another matter.
    is_wrapped = said.startswith(f"{_ERROR}<function ")
    if is_wrapped or _SYMBOL not in said or not isinstance(site.statement, SIMPLE):
        return None
    calls = [call for call in calls_in(site.statement) if called(call) == _refusing(said)]
    if len(calls) != 1 or not (of_torch(calls[0]) or is_method(calls[0])):
        return None
    changes: list[Change] = [(flag, f"True if {_test(site, flag)} else False") for flag in _flags(calls[0], said)]
    return site.edit(changes)


def _refusing(said: str) -> str:
    """Return the name of the function that refuses: "sum" of "… sum(): argument 'keepdim' must be bool, …"."""
    before = said.partition("(): argument ")[0] if _REFUSED in said else said.partition(f"(){_GOT}")[0]
    return before.rpartition(" ")[2]


def _test(site: Site, flag: ast.expr) -> str:
    text = site.source(flag)
    return f"({text})" if isinstance(flag, (ast.IfExp, ast.NamedExpr)) else text


def _flags(call: ast.Call, said: str) -> Iterator[ast.expr]:
    """Yield the arguments of a call that are refused."""
    names, places = _told(said)
    for word in call.keywords:
        if word.arg in names:
            yield word.value
    if not any(isinstance(one, ast.Starred) for one in call.args):
        yield from (one for place, one in enumerate(call.args) if place in places)


def _told(said: str) -> tuple[frozenset[str], frozenset[int]]:
    """Return the names of the arguments given by name, and the places of others, that torch refuses."""
    if _REFUSED in said:
        name, _, place = said.partition(_REFUSED)[0].rpartition("argument '")[2].partition("'")
        number = place.strip(" ()").removeprefix("position ")
        return (frozenset(), frozenset({int(number) - 1})) if number.isdecimal() else (frozenset({name}), frozenset())
    given = said.partition(_GOT)[2].partition(")")[0]
    if "(" in given:  # a tuple: what comes after it is not counted
        return frozenset(), frozenset()
    parts = [part.strip() for part in given.split(",")]
    named = frozenset(part.partition("=")[0] for part in parts if part.endswith(f"={_SYMBOL}"))
    return named, frozenset(place for place, part in enumerate(parts) if part == _SYMBOL)
