"""`@torch.compile` on the parts of a function that was divided, in place of on the function, which then needs no mark.

While it is tried it stays where it was: calls of the same function are compared then.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence

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

WithParts = tuple[ast.FunctionDef, Sequence[ast.FunctionDef]]  # a function that was divided, and its parts


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
    given = _giving(function) if function else None
    parts = parts_called(text, name, function) if function else []
    if function is None or not (given and parts):
        return text
    return with_marks_above(text, [(function, parts)], _lines(text, function, given))


def with_marks_on_parts(texts: Mapping[str, str], divided: Collection[tuple[str, str]]) -> Mapping[str, str]:
    """Return texts in which the parts of all of some functions have the one mark that gives one of these.

    The compiler then passes over none of them by a mark, and what else they call is Python, too. The same texts where
    one has other marks beside, or none gives it, or a mark says what is not known where the parts are defined.

    Args:
        texts: the user's files, with functions divided.
        divided: these functions: their files, and qualified names.
    """
    found: dict[str, list[WithParts]] = {}
    marks: set[tuple[str, ...]] = set()
    for file, name in divided:
        text = texts.get(file, "")
        function = function_in(text, name)
        given = _giving(function) if function else None
        if function is None or given is None or any(map(_asks_for_names, given)):
            return texts
        if given:
            marks.add(tuple(_lines(text, function, given)))
        found.setdefault(file, []).append((function, parts_called(text, name, function)))
    if len(marks) != 1 or not any(parts for several in found.values() for _, parts in several):
        return texts
    mark = next(iter(marks))
    return {**texts, **{file: with_marks_above(texts[file], several, mark) for file, several in found.items()}}


def _giving(function: ast.FunctionDef) -> Sequence[ast.expr] | None:
    """Return the marks that give to torch.compile a function that the compiler passes over; None if it has others."""
    given = [one for one in function.decorator_list if is_given(one)]
    passed_over = [one for one in function.decorator_list if dotted(one).endswith(MARK)]
    is_known = passed_over and len(function.decorator_list) == len(given) + len(passed_over)
    return given if is_known else None


def _asks_for_names(mark: ast.expr) -> bool:
    arguments = [*mark.args, *(word.value for word in mark.keywords)] if isinstance(mark, ast.Call) else []
    return any(isinstance(node, ast.Name) for one in arguments for node in ast.walk(one))


def _lines(text: str, function: ast.FunctionDef, marks: Sequence[ast.expr]) -> Sequence[str]:
    """Return the lines of some marks of a function, without its indent."""
    lines, pad = text.split("\n"), " " * function.col_offset
    return [line.removeprefix(pad) for mark in marks for line in lines[mark.lineno - 1 : mark.end_lineno]]


def with_marks_above(text: str, divided: Sequence[WithParts], marks: Sequence[str]) -> str:
    """Return a text with marks on the parts of functions, and none on the functions."""
    lines = text.split("\n")
    above = {first_line(part): part for _, parts in divided for part in parts}
    bare = {first_line(function): function for function, _ in divided}
    for number in sorted({*above, *bare}, reverse=True):
        if number in bare:  # a part that was divided again is one of these
            del lines[number - 1 : bare[number].lineno - 1]
        else:
            pad = " " * above[number].col_offset
            lines[number - 1 : number - 1] = [pad + line for line in marks]
    return "\n".join(lines)


def parts_called(text: str, name: str, function: ast.FunctionDef) -> Sequence[ast.FunctionDef]:
    """Return the parts that a function calls, which stand below it."""
    owner, _, own = name.rpartition(".")
    begin = f"{own.partition(INNER)[0]}{INNER}"
    names = dict.fromkeys(called(call) for call in calls_in(function) if called(call).startswith(begin))
    found = [function_in(text, f"{owner}.{one}" if owner else one) for one in names]
    parts = [one for one in found if one is not None and one.lineno > function.lineno]
    return parts if len(parts) == len(found) else []
