"""What a program gave to torch.compile and never ran compiled."""

from __future__ import annotations

import re
from collections.abc import Iterator

from compiler_lens.recording.model import CompileSite, Recording, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.source_text import Sources


def never_called(recording: Recording) -> tuple[CompileSite, ...]:
    """Return what the user's lines gave to torch.compile and no call of was recorded, each once."""
    own = [site for site in recording.sites if site.place and is_own(site.place.file)]
    if not own:
        return ()
    modules = {c.module for c in recording.compilations if c.module}
    places = {(c.file, c.line) for c in recording.compilations}
    places |= {(c.definition.file, c.definition.line) for c in recording.compilations if c.definition}
    places |= {(one.function.file, one.function.line) for one in recording.eager_calls}
    # A compiled function that another one calls is a part of that.
    inlined = {(at.file, at.function) for at in _lines(recording)}
    return tuple(
        site
        for site in dict.fromkeys(own)
        if site.module not in modules
        and (site.defined.file, site.defined.line) not in places
        and (site.defined.file, site.defined.function.rpartition(".")[2]) not in inlined
    )


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


def _lines(recording: Recording) -> Iterator[SourceLine]:
    for graph in recording.graphs:
        for node in graph.nodes:
            yield from node.source
    for event in recording.graph_breaks:
        yield from event.user_stack
