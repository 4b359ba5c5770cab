"""What a program gave to torch.compile and never ran compiled."""

from __future__ import annotations

from collections.abc import Iterator

from compiler_lens.recording.model import CompileSite, Recording, SourceLine
from compiler_lens.recording.own_files import is_own


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


def _lines(recording: Recording) -> Iterator[SourceLine]:
    for graph in recording.graphs:
        for node in graph.nodes:
            yield from node.source
    for event in recording.graph_breaks:
        yield from event.user_stack
