"""A module of which only methods beside what torch.compile made of it are called: it is compiled in place.

`model = torch.compile(model)` is a module round another, and `model.generate(…)` a method of that other one, which
calls itself and not what is round it. `model.compile()` compiles its own calls, wherever they come from; where its
methods call `self.forward(…)`, that is compiled: `model.forward = torch.compile(model.forward)`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from compiler_lens.facts.breaks.rewrites.site import parsed
from compiler_lens.facts.breaks.rewrites.syntax import called, dotted
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.fix import Offer, Target
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Recording, SourceLine
from compiler_lens.recording.source_text import Sources

_OF_ITS_WRAPPER = ("_orig_mod", "OptimizedModule")  # who asks for these needs what is round the module
_KIND = "compiled, and never called"
_PRICE = (
    "`{name}` is the module itself from now on, whose calls are compiled wherever they come from, also from its own"
    " methods"
)
_PAST = "{past} went past what torch.compile made of `{name}`, and ran eagerly, which no figure of the program counts"


def in_place(recording: Recording, own: Ownership, known: Sources) -> Iterator[Offer]:
    """Yield for each module that torch.compile was given what compiles it in place, where nothing of it was called.

    Args:
        recording: the run.
        own: what is the user's.
        known: the user's files: a recording has none of which nothing was compiled.
    """
    texts = known.texts.values()
    if any(word in text for text in texts for word in _OF_ITS_WRAPPER):
        return
    is_forward = any("self.forward(" in text for text in texts)
    for one in recording.sites:
        at = one.place
        if at and one.module and not one.is_disabled and own.owns(at.file):
            yield from _compiled_in_place(at, known.texts.get(at.file, ""), is_forward=is_forward)


def _compiled_in_place(at: SourceLine, text: str, *, is_forward: bool) -> Iterator[Offer]:
    tree = parsed(text)
    here = (n for n in ast.walk(tree) if isinstance(n, ast.stmt) and n.lineno == at.line) if tree else ()
    for one in here:
        match one:
            case ast.Assign(targets=[target], value=ast.Call(args=[given], keywords=words) as call):
                name, torch = dotted(target), dotted(call.func)
                begin = [] if dotted(given) == name else [f"{name} = {ast.get_source_segment(text, given)}"]
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=module), args=[], keywords=words) as call) if (
                is_forward
            ):
                name, torch, begin = dotted(module), _compile_of(tree), list[str]()
            case _:
                continue
        line = text.split("\n")[at.line - 1].strip()
        is_whole = line.startswith(name) and one.lineno == one.end_lineno and ";" not in line
        if name and torch and called(call) == "compile" and is_whole:
            told = _told(words, text)
            whole = f"{name}.compile({', '.join(told)})"
            forward = _compiled(f"{name}.forward", torch, told)
            edit = Lines(at.file, at.line, (line,), (*begin, forward if is_forward else whole))
            yield Offer(Target(replace(at, code=line), _KIND), edit, _PRICE.format(name=name))


def beside(recording: Recording, own: Ownership, known: Sources) -> Iterator[Offer]:
    """Yield what compiles a method of a module as well, which the user's files call past what torch.compile made of it.

    Arguments are those above.
    """
    for one in recording.sites:
        at = one.place
        if at is None or not one.methods or one.in_place or one.is_disabled or not own.owns(at.file):
            continue
        text = known.texts.get(at.file, "")
        tree = parsed(text)
        assigned = [n for n in ast.walk(tree) if isinstance(n, ast.Assign) and n.lineno == at.line] if tree else []
        match assigned:
            case [ast.Assign(targets=[target], value=ast.Call(keywords=words) as call) as line]:
                name, torch = dotted(target), dotted(call.func)
            case _:
                continue
        methods = [method for method in one.methods if name and _calls(tree, f"{name}.{method}")]
        if methods and called(call) == "compile" and line.lineno == line.end_lineno:
            whole = text.split("\n")[at.line - 1].strip()
            made = [_compiled(f"{name}.{method}", torch, _told(words, text)) for method in methods]
            edit = Lines(at.file, at.line, (whole,), (whole, *made))
            past = " and ".join(f"`{name}.{method}(…)`" for method in methods)
            yield Offer(Target(replace(at, code=whole), _KIND), edit, _PAST.format(past=past, name=name))


def _told(words: Sequence[ast.keyword], text: str) -> list[str]:
    """Return what torch.compile is told, beside what it is given, as it is written."""
    return [found for word in words if (found := ast.get_source_segment(text, word))]


def _compiled(what: str, torch: str, told: Sequence[str]) -> str:
    return f"{what} = {torch}({', '.join([what, *told])})"


def _calls(tree: ast.Module | None, name: str) -> bool:
    """Return whether a file calls a function by a dotted name."""
    return tree is not None and any(isinstance(n, ast.Call) and dotted(n.func) == name for n in ast.walk(tree))


def _compile_of(tree: ast.Module | None) -> str:
    """Return what a file calls torch.compile; empty where it does not import torch."""
    imports = [one for one in (tree.body if tree else ()) if isinstance(one, ast.Import)]
    names = [alias.asname or alias.name for one in imports for alias in one.names if alias.name == "torch"]
    return f"{names[0]}.compile" if names else ""
