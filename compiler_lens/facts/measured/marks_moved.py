"""`@torch.compile` on the parts of a function that was divided, in place of on the function, which then needs no mark.

While it is tried it stays where it was: calls of the same function are compared then.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from compiler_lens.facts.breaks.rewrites.syntax import called, calls_in, dotted
from compiler_lens.facts.measured.bookkeeping import MARK
from compiler_lens.facts.measured.collected import INNER
from compiler_lens.facts.measured.marked_inside import function_in, is_given
from compiler_lens.recording.source_text import first_line

# What is said of a function that is Python by a mark, and not of one that torch.compile is not given.
ALSO_WHOLE = ", also where `fullgraph=True` is asked for"
BREAKS_ITS_CALLER = "; compiled code that calls `{name}` breaks its graph there, and cannot be exported whole"
LOGGING_PASSED_OVER = "; Python's `logging` is then passed over by the compiler, wherever it is called"
NOT_THE_OPTIMIZER = "; the optimizer's `step` runs eagerly: to have it compiled, give it to torch.compile by itself"
WITH_OPTIMIZER = "; the optimizer's `step` is compiled by itself, and breaks once, as torch has it"
MARK_STAYS = "; its `@torch.compile` stays, as it has what is called there compiled"


def price_as_moved(price: str, name: str) -> str:
    """Return what is said of a function that is divided, once torch.compile's mark stands on its parts."""
    for said in (ALSO_WHOLE, BREAKS_ITS_CALLER.format(name=name), LOGGING_PASSED_OVER, MARK_STAYS):
        price = price.replace(said, "")
    return price.replace(WITH_OPTIMIZER, NOT_THE_OPTIMIZER)


def is_moved(text: str, name: str) -> bool:
    """Return whether the parts of a function have torch.compile's mark, and the function has none."""
    function = function_in(text, name)
    parts = parts_called(text, name, function) if function and not function.decorator_list else []
    return any(map(is_given, (mark for part in parts for mark in part.decorator_list)))


def with_marks_moved(text: str, name: str) -> str:
    """Return a text in which the parts of a function, by its qualified name, are given to torch.compile by themselves.

    The same text where the function is not given so, or has other marks beside, which its parts would not have.
    """
    function = function_in(text, name)
    marks = function.decorator_list if function else []
    given = [one for one in marks if is_given(one)]
    passed_over = [one for one in marks if dotted(one).endswith(MARK)]
    parts = parts_called(text, name, function) if function else []
    if function is None or not (given and passed_over and parts) or len(marks) != len(given) + len(passed_over):
        return text
    lines = text.split("\n")
    first, last = first_line(function) - 1, function.lineno - 1
    moved = [line for mark in given for line in lines[mark.lineno - 1 : mark.end_lineno]]
    for part in sorted(parts, key=first_line, reverse=True):
        lines[first_line(part) - 1 : first_line(part) - 1] = moved
    del lines[first:last]
    return "\n".join(lines)


def parts_called(text: str, name: str, function: ast.FunctionDef) -> Sequence[ast.FunctionDef]:
    """Return the parts that a function calls, which stand below it."""
    owner, _, own = name.rpartition(".")
    begin = f"{own.partition(INNER)[0]}{INNER}"
    names = dict.fromkeys(called(call) for call in calls_in(function) if called(call).startswith(begin))
    found = [function_in(text, f"{owner}.{one}" if owner else one) for one in names]
    parts = [one for one in found if one is not None and one.lineno > function.lineno]
    return parts if len(parts) == len(found) else []
