"""Texts in which what a function calls is given to torch.compile, and the function, which was given, is Python.

While that is tried, what torch.compile was given stays, and calls a function that the compiler passes over: so what its
calls return can be compared. What is written for the user is shorter and does the same: the function is not given to
torch.compile any more.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import parsed, site_in
from compiler_lens.facts.breaks.rewrites.syntax import dotted
from compiler_lens.facts.measured.called import function_named
from compiler_lens.recording.model import Compilation, GraphStage, Outcome, Recording
from compiler_lens.recording.source_text import Sources, first_line, sources

_PASSED_OVER = "compiler.disable"
# Of a function that torch.compile is given, `torch.compiler.disable` is taken off again: here it sees another one.
_AROUND = "@(lambda function: lambda *args, **kwargs: function(*args, **kwargs))"
_CALLING = "lambda *args, **kwargs: {}(*args, **kwargs)"
COMPILE = "torch.compile"
_TORCH = "{torch}"  # in a mark: what torch is called in its file
_GIVES = f"@{_TORCH}.compile"
_Texts = Mapping[str, str]


class Inside(Struct, frozen=True):
    """What a function calls compiled by itself, and the function, which torch.compile was given, Python."""

    file: str
    name: str  # of the function, qualified
    inner: tuple[tuple[str, str], ...]  # what is compiled: files, and qualified names
    arguments: str = ""  # that torch.compile gets for these: "dynamic=True"
    site: str = ""  # the file where it was given
    call: str = ""  # how that is written; empty where a mark on the function gives it
    is_kept: bool = False  # it stays given: what torch.compile makes of a module has other names of parameters

    @property
    def title(self) -> str:
        """The change in a few words of code."""
        names = ", ".join(name for _, name in self.inner)
        return f"@torch.compile def {names}, not {self.name}"

    @property
    def code(self) -> str:
        """The same."""
        return self.title


def inside_price(edit: Inside) -> str:
    """Return what it costs to compile by themselves some functions that another one calls, and not that one."""
    names = [f"`{one}`" for _, one in edit.inner]
    is_one = len(names) == 1
    listed = names[0] if is_one else f"{', '.join(names[:-1])} and {names[-1]}"
    marks = "has a mark of its own, and is" if is_one else "have marks of their own, and are"
    how = "passed over by torch.compile" if edit.is_kept else "not given to torch.compile any more"
    return (
        f"`{edit.name}` is {how}: it is Python, with all that it calls but {listed}, which {marks} compiled wherever"
        f" something calls {'it' if is_one else 'them'}"
    )


def with_inside(edit: Inside, texts: _Texts) -> _Texts | None:
    """Return texts in which it is so, to be tried; None where that cannot be written."""
    compiled = f"@{_TORCH}.compile{f'({edit.arguments})' if edit.arguments else ''}"
    passed = f"@{_TORCH}.{_PASSED_OVER}"
    marks = [(edit.file, edit.name, [passed] if edit.call else [_AROUND, passed])]
    for file, name, lines in (*marks, *((file, name, [compiled]) for file, name in edit.inner)):
        new = _with_marks(texts.get(file, ""), name, lines)
        if new is None:
            return None
        texts = {**texts, file: new}
    return _replaced(edit, texts, edit.call, _tried(edit)) if edit.call else texts


def as_written(edit: Inside, texts: _Texts) -> _Texts | None:
    """Return texts that were tried as the user is to have them; None where that cannot be written."""
    if edit.is_kept:
        return texts
    text = texts.get(edit.file, "")
    function = function_in(text, edit.name)
    if function is None:
        return None
    lines, first, last = text.split("\n"), first_line(function) - 1, function.lineno - 1
    marks = [mark for mark in function.decorator_list if is_given(mark)]
    dropped = {n for mark in marks for n in range(mark.lineno - 1, mark.end_lineno or mark.lineno)}
    dropped |= {n for n in range(first, last) if lines[n].strip() == _AROUND or lines[n].endswith(f".{_PASSED_OVER}")}
    texts = {**texts, edit.file: "\n".join(one for n, one in enumerate(lines) if n not in dropped)}
    return _replaced(edit, texts, _tried(edit), _first_argument(edit.call)) if edit.call else texts


def without_around(recording: Recording, texts: _Texts) -> Recording:
    """Return a recording without what calls a function that is passed over only while a change is tried.

    Args:
        recording: a run with texts of `with_inside`.
        texts: the user's files, as they were before.
    """
    known = sources(recording)
    computing = {one.compile_id for one in recording.graphs if one.stage is GraphStage.DYNAMO and one.all_ops}
    ids = {
        one.compile_id
        for one in recording.compilations
        if _is_around(known.line(one.file, one.line), texts.get(one.file, ""))
        or (one.compile_id not in computing and _is_passed_over(one, known, texts))
    }
    if not ids:
        return recording
    return replace(
        recording,
        compilations=tuple(one for one in recording.compilations if one.compile_id not in ids),
        graph_breaks=tuple(one for one in recording.graph_breaks if one.compile_id not in ids),
        recompiles=tuple(one for one in recording.recompiles if one.compile_id not in ids),
    )


def _is_around(line: str, text: str) -> bool:
    begin, end = _CALLING.split("{}")
    return begin in line and end in line and line.strip() not in text


def _is_passed_over(one: Compilation, known: Sources, texts: _Texts) -> bool:
    """Whether torch tried what only calls a function of a module's that a change has it pass over.

    A graph of that computes nothing: torch may hand a number through it.
    """
    at = one.definition
    if at is None or one.outcome not in {Outcome.EMPTY, Outcome.COMPILED}:
        return False
    text, mark = known.texts.get(at.file, ""), f".{_PASSED_OVER}\n"
    begin = text.split("\n")[at.line - 1 :]
    marks = itertools.takewhile(lambda line: not line.lstrip().startswith(("def ", "async def ")), begin)
    is_marked = any(f"{line.strip()}\n".endswith(mark) for line in marks)
    return is_marked and text.count(mark) > texts.get(at.file, "").count(mark)


def is_given(mark: ast.expr) -> bool:
    """Return whether a mark gives its function to torch.compile."""
    return dotted(mark.func if isinstance(mark, ast.Call) else mark) == COMPILE


def givings(text: str) -> int:
    """Return how often a text gives something to torch.compile, by a call or by a mark."""
    tree = parsed(text)
    nodes = list(ast.walk(tree)) if tree else []
    marks = [mark for node in nodes if isinstance(node, ast.FunctionDef) for mark in node.decorator_list]
    given = {(one.lineno, one.col_offset) for one in marks if is_given(one)}
    calls = [node for node in nodes if isinstance(node, ast.Call) and dotted(node.func) == COMPILE]
    return len(given | {(one.lineno, one.col_offset) for one in calls})


def _with_marks(text: str, name: str, marks: Sequence[str]) -> str | None:
    """Return a text in which a function has marks above all others but the one that gives it to torch.compile."""
    function = function_in(text, name)
    site = site_in(text, function.body[0].lineno) if function else None
    if function is None or site is None:
        return None
    if marks[0].startswith(_GIVES) and any(map(is_given, function.decorator_list)):
        return text
    at = next((one.end_lineno or 0 for one in function.decorator_list if is_given(one)), first_line(function) - 1)
    pad, lines = " " * function.col_offset, text.split("\n")
    return "\n".join([*lines[:at], *(pad + one.replace(_TORCH, site.torch, 1) for one in marks), *lines[at:]])


def function_in(text: str, name: str) -> ast.FunctionDef | None:
    """Return a function of a text by its qualified name; None of one whose lines end in another way."""
    tree = parsed(text) if name and "\r" not in text else None
    function = function_named(tree, name) if tree else None
    return function if isinstance(function, ast.FunctionDef) else None


# -- where it was given


def _tried(edit: Inside) -> str:
    """Return how a function is given while it is tried: a method is seen anew at each call."""
    given = _first_argument(edit.call)
    return edit.call.replace(given, _CALLING.format(given), 1) if given and "." not in edit.name else edit.call


def _first_argument(call: str) -> str:
    """Return what a call is given, as it is written; empty where its object is compiled in place."""
    tree = parsed(call)
    match tree.body if tree else []:
        case [ast.Expr(value=ast.Call(args=[given]))]:
            return ast.get_source_segment(call, given) or ""
    return ""


def _replaced(edit: Inside, texts: _Texts, before: str, after: str) -> _Texts | None:
    text = texts.get(edit.site, "")
    if text.count(before) != 1:
        return None
    return {**texts, edit.site: replaced_once(text, before, after or "None")}


def replaced_once(text: str, before: str, after: str) -> str:
    """Return a text with a call written otherwise where it first stands, and no line that does nothing then."""
    line = text[: text.index(before)].count("\n") + 1
    return _without_idle(text.replace(before, after, 1), line)


def _without_idle(text: str, line: int) -> str:
    """Return a text without the statement at a line if that does nothing, and another one stands beside it."""
    tree = parsed(text)
    bodies = (getattr(node, key, None) for node in (ast.walk(tree) if tree else ()) for key in ("body", "orelse"))
    for body in bodies:
        for one in body if isinstance(body, list) and len(body) > 1 else ():
            if one.lineno == line and _is_idle(one):
                lines = text.split("\n")
                return "\n".join([*lines[: line - 1], *lines[one.end_lineno or line :]])
    return text


def _is_idle(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=None)):
            return True
        case ast.Assign(targets=[target], value=value):
            return ast.unparse(target) == ast.unparse(value)
    return False
