"""Whether a line gives the same to torch.compile in every run, as the files show."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.rewrites.site import nodes_in, site_in
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted
from compiler_lens.facts.measured.bookkeeping import name_at
from compiler_lens.recording.source_text import Sources

_CONDITIONAL = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.While)
_LOOPS = (ast.For, ast.AsyncFor, ast.comprehension)
_DEEPEST = 3  # calls that lead to where a function is given


def is_of_one(text: str, call: ast.expr, known: Sources) -> bool:
    """Return whether the same is given to torch.compile in every run.

    A mark on what it calls gives that in all runs, and it alone.
    """
    given = _given(call)
    is_chosen = given is not None and _is_chosen(text, given, known, _DEEPEST)
    return not (is_chosen or _is_conditional(text, call, known, _DEEPEST) or _is_of_each(text, call))


def _given(call: ast.expr) -> ast.expr | None:
    """Return what a call gives to torch.compile, or its object; None of a mark."""
    match call:
        case ast.Call(args=[given, *_]):
            return given
        case ast.Call(func=ast.Attribute(value=given)):
            return given
    return None


def _is_chosen(text: str, node: ast.expr, known: Sources, deeper: int) -> bool:
    """Whether an expression gives one of several things, as far as names and functions show what they stand for."""
    match node:
        case ast.IfExp() | ast.BoolOp() | ast.Subscript():
            return True
        case ast.Call(func=ast.Name(id="getattr") | ast.Attribute(attr="get")):
            return True
        case ast.Call(func=ast.Attribute(value=of)) | ast.Call(func=of) if not dotted(of):  # `Net().eval()`
            return _is_chosen(text, of, known, deeper)
        case ast.Name(id=name) if deeper:
            return any(_is_chosen(text, value, known, deeper - 1) for value in _assigned(text, name))
        case ast.Call(func=ast.Name(id=name)) if deeper:
            return any(_returns_choice(there, name, known, deeper - 1) for there in known.texts.values())
    return False


def _assigned(text: str, name: str) -> Iterator[ast.expr]:
    """Yield what a file assigns to a name, but what torch.compile makes of it, which has the same one as a rule."""
    for node in nodes_in([text]):
        if isinstance(node, ast.Assign) and name in map(dotted, node.targets):
            value = node.value
            if not (isinstance(value, ast.Call) and called(value) == "compile"):
                yield value


def _returns_choice(text: str, name: str, known: Sources, deeper: int) -> bool:
    """Whether a function of a file returns one of several things."""
    functions = [n for n in nodes_in([text]) if isinstance(n, ast.FunctionDef) and n.name == name]
    returns = [n.value for one in functions for n in ast.walk(one) if isinstance(n, ast.Return) and n.value]
    return len(returns) > 1 or any(_is_chosen(text, one, known, deeper) for one in returns)


def _is_of_each(text: str, call: ast.expr) -> bool:
    """Whether a line gives what a loop goes over: in another run there may be more."""
    loops = [node for node in nodes_in([text]) if isinstance(node, _LOOPS)]
    each = {n.id for one in loops for n in ast.walk(one.target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in each for n in ast.walk(call))


def _is_conditional(text: str, call: ast.expr, known: Sources, deeper: int) -> bool:
    """Whether something is given to torch.compile in some runs alone: also where others return before that."""
    around = (node for node in nodes_in([text]) if isinstance(node, _CONDITIONAL))
    tested = [node for node in around if not (isinstance(node, ast.If) and "__name__" in ast.unparse(node.test))]
    site = site_in(text, call.lineno)
    function = site.function if site else None
    is_late = any(isinstance(n, ast.Return) and n.lineno < call.lineno for n in ast.walk(function or ast.Pass()))
    is_tested = any(node.lineno <= call.lineno <= (node.end_lineno or 0) for node in tested)
    callers = _callers(name_at(text, function.lineno), known) if function and deeper else []
    return is_late or is_tested or any(_is_conditional(there, one, known, deeper - 1) for there, one in callers)


def _callers(name: str, known: Sources) -> Sequence[tuple[str, ast.expr]]:
    """Return the calls of a function by its name, or of its class where it makes objects of that, each in its text."""
    owner, _, last = name.rpartition(".")
    wanted = owner.rpartition(".")[2] if last == "__init__" else last
    return [
        (text, node)
        for text in known.texts.values()
        for node in nodes_in([text])
        if isinstance(node, ast.Call) and called(node) == wanted
    ]
