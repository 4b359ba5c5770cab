"""What a program gave to torch.compile and never ran compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from msgspec import Struct

from compiler_lens.recording.model import CompileSite, Recording, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import Definition, Sources, sources


class Uncalled(Struct, frozen=True):
    """Something that was given to torch.compile, and no call went through what that made."""

    site: CompileSite
    is_entered: bool = False  # the same function entered the compiler otherwise, as another module of its class
    is_marked: bool = False  # a mark where it is defined has torch pass over it


def never_called(recording: Recording) -> tuple[Uncalled, ...]:
    """Return what the user's lines gave to torch.compile and no call of was recorded, each once.

    Of what the same function was given to elsewhere that is known only where nothing is done with the result.
    """
    own = [site for site in recording.sites if site.place and is_own(site.place.file)]
    if not own:
        return ()
    modules = {c.module for c in recording.compilations if c.module}
    places = {(c.file, c.line) for c in recording.compilations}
    places |= {(c.definition.file, c.definition.line) for c in recording.compilations if c.definition}
    places |= {(one.function.file, one.function.line) for one in recording.eager_calls}
    names, texts = {c.function.rpartition(".")[2] for c in recording.compilations}, sources(recording)
    # A compiled function that another one calls is a part of that.
    inlined = {(at.file, at.function) for at in _lines(recording)}

    def is_entered(site: CompileSite) -> bool:
        defined = site.defined
        function = defined.file, defined.function.rpartition(".")[2]
        is_one = site.module in modules or (defined.file, defined.line) in places or function in inlined
        return is_one or _hands_on(site, texts, names)

    every = (Uncalled(site, is_entered(site), bool(_marked(site, texts))) for site in dict.fromkeys(own))
    return tuple(one for one in every if one.site.is_dropped or not one.is_entered)


# Marks with which torch goes past a function, but not past what that calls.
_KEPT_OUT = re.compile(r"@[\w.]*\bskip\b|@[\w.]*\bdisable\(.*recursive=False")
_CALLED = re.compile(r"\b(\w+)\(")
_FORWARD = re.compile(r"(?<![\w.])self(?:\.forward|\.__call__)?\(")


def calls_forward(site: CompileSite, texts: Sources) -> bool | None:
    """Return whether a method of a module calls its forward, by their text; None where it does not have all of them."""
    owner = site.defined.function.rpartition(".")[0]
    methods = [one for one in texts.definitions(site.defined.file) if one.name.rpartition(".")[0] == owner]
    named = {one.name.rpartition(".")[2] for one in methods}
    if not owner or not named.issuperset(site.methods):
        return None
    others = (one for one in methods if one.name.rpartition(".")[2] != "forward")
    numbers = (number for one in others for number in range(one.line, one.last + 1))
    return any(_FORWARD.search(texts.line(site.defined.file, number)) for number in numbers)


def _hands_on(site: CompileSite, texts: Sources, names: AbstractSet[str]) -> bool:
    """Whether a function is kept in Python by a mark of torch's, and calls one that entered the compiler."""
    marked = _marked(site, texts)
    body = range(marked.first + 1, marked.last + 1) if marked else ()
    called = (name for number in body for name in _CALLED.findall(texts.line(site.defined.file, number)))
    return not names.isdisjoint(called)


def _marked(site: CompileSite, texts: Sources) -> Definition | None:
    """Return the definition of a function that a mark of torch's there keeps in Python."""
    at = site.defined
    defined = next((one for one in texts.definitions(at.file) if at.line in (one.line, one.first)), None)
    marks = range(defined.line, defined.first) if defined else ()
    return defined if any(_KEPT_OUT.search(texts.line(at.file, number)) for number in marks) else None


def _lines(recording: Recording) -> Iterator[SourceLine]:
    for graph in recording.graphs:
        for node in graph.nodes:
            yield from node.source
    for event in recording.graph_breaks:
        yield from event.user_stack
