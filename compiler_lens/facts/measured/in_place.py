"""A module of which only methods beside what torch.compile made of it are called: it is compiled in place.

`model = torch.compile(model)` is a module round another, and `model.generate(…)` a method of that other one, which
calls itself and not what is round it. `model.compile()` compiles its own calls, wherever they come from.
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


def in_place(recording: Recording, own: Ownership, known: Sources) -> Iterator[Offer]:
    """Yield for each module that torch.compile was given what compiles it in place, where nothing of it was called.

    Args:
        recording: the run.
        own: what is the user's.
        known: the user's files: a recording has none of which nothing was compiled.
    """
    if any(word in text for text in known.texts.values() for word in _OF_ITS_WRAPPER):
        return
    for one in recording.sites:
        at = one.place
        if at and one.module and not (one.in_place or one.is_disabled) and own.owns(at.file):
            yield from _compiled_in_place(at, known.texts.get(at.file, ""))


def _compiled_in_place(at: SourceLine, text: str) -> Iterator[Offer]:
    tree = parsed(text)
    here = (n for n in ast.walk(tree) if isinstance(n, ast.Assign) and n.lineno == at.line) if tree else ()
    for one in here:
        match one:
            case ast.Assign(targets=[target], value=ast.Call(args=[given], keywords=words) as call):
                name, lines = dotted(target), text.split("\n")
            case _:
                continue
        line = lines[at.line - 1].strip()
        is_whole = line.startswith(f"{ast.unparse(target)} =") and one.lineno == one.end_lineno and ";" not in line
        if name and called(call) == "compile" and is_whole:
            after = tuple(_lines(text, name, given, words))
            edit = Lines(at.file, at.line, (line,), after)
            yield Offer(Target(replace(at, code=line), _KIND), edit, _PRICE.format(name=name))


def _lines(text: str, name: str, given: ast.expr, words: Sequence[ast.keyword]) -> Iterator[str]:
    if dotted(given) != name:
        yield f"{name} = {ast.get_source_segment(text, given)}"
    told = ", ".join(filter(None, (ast.get_source_segment(text, one) for one in words)))
    yield f"{name}.compile({told})"
