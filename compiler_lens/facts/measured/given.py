"""Whether a line gives the same to torch.compile in every run, as the files show."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from compiler_lens.facts.breaks.rewrites.site import parsed, site_in
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
    is_chosen = isinstance(call, ast.Call) and any(map(_is_choice, _made(text, call, known, _DEEPEST)))
    return not (is_chosen or _is_conditional(text, call, known, _DEEPEST) or _is_of_each(text, call))


def _made(text: str, call: ast.Call, known: Sources, deeper: int) -> Iterator[ast.expr]:
    """Yield what a call is given, or its object, with what a file assigns to that name, and functions of it return."""
    given = call.args[0] if call.args else call.func.value if isinstance(call.func, ast.Attribute) else None
    if given is not None:
        yield from _values(text, given, known, deeper)


def _values(text: str, node: ast.expr, known: Sources, deeper: int) -> Iterator[ast.expr]:
    yield node
    tree = parsed(text)
    if not deeper or tree is None:
        return
    match node:
        case ast.Name(id=name):
            given = [n.value for n in ast.walk(tree) if isinstance(n, ast.Assign) and name in map(dotted, n.targets)]
            # What torch.compile makes of it has the same name as a rule.
            inner = [one for one in given if not (isinstance(one, ast.Call) and called(one) == "compile")]
            yield from (value for one in inner for value in _values(text, one, known, deeper - 1))
        case ast.Call(func=ast.Attribute(value=ast.Call() as of)):
            yield from _values(text, of, known, deeper - 1)
        case ast.Call(func=ast.Name(id=name)):
            for there in known.texts.values():
                functions = [n for n in ast.walk(parsed(there) or ast.Module([], [])) if isinstance(n, ast.FunctionDef)]
                returned = (
                    n.value for one in functions if one.name == name for n in ast.walk(one) if isinstance(n, ast.Return)
                )
                several = [one for one in returned if one is not None]
                # Of several one is chosen.
                yield from (ast.IfExp(one, one, one) for one in several[1:])
                yield from (value for one in several for value in _values(there, one, known, deeper - 1))


def _is_choice(node: ast.expr) -> bool:
    """Whether an expression gives one of several things; `Net().eval()` does as `Net()` does."""
    match node:
        case ast.IfExp() | ast.BoolOp() | ast.Subscript():
            return True
        case ast.Call(func=ast.Name(id="getattr") | ast.Attribute(attr="get")):
            return True
        case ast.Call(func=ast.Attribute(value=of)) | ast.Call(func=of) if not dotted(of):
            return _is_choice(of)
    return False


def _is_of_each(text: str, call: ast.expr) -> bool:
    """Whether a line gives what a loop goes over: in another run there may be more."""
    tree = parsed(text)
    loops = [node for node in ast.walk(tree) if isinstance(node, _LOOPS)] if tree else []
    each = {n.id for one in loops for n in ast.walk(one.target) if isinstance(n, ast.Name)}
    return any(isinstance(n, ast.Name) and n.id in each for n in ast.walk(call))


def _is_conditional(text: str, call: ast.expr, known: Sources, deeper: int) -> bool:
    """Whether something is given to torch.compile in some runs alone: also where others return before that."""
    tree = parsed(text)
    nodes = list(ast.walk(tree)) if tree else []
    around = (node for node in nodes if isinstance(node, _CONDITIONAL))
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
        for node in ast.walk(parsed(text) or ast.Module([], []))
        if isinstance(node, ast.Call) and called(node) == wanted
    ]
