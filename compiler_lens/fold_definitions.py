"""What the author calls each compiled function: from our hook, from the source, or from the function it goes on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from compiler_lens.event import WRAPPER_FILE
from compiler_lens.model import Compilation, Outcome, SourceFile, SourceLine
from compiler_lens.source_text import Sources

# torch's own words for "Attempt to trace generator" (GB0003) in ConvertFrameAssert.__call__(), 2.11 to 2.15.
_GENERATOR = "Generators cannot be compiled directly with `torch.compile`."


def name_definitions(compilations: Sequence[Compilation], files: Iterable[SourceFile]) -> tuple[Compilation, ...]:
    """The compilations with `definition` and `parameters`, as far as anybody knows them."""
    texts = Sources({source.file: source.text for source in files})
    named = [_explained(c if c.definition else _from_source(c, texts), texts) for c in compilations]
    known: dict[tuple[str, str], list[Compilation]] = {}
    for c in named:
        if c.definition:
            known.setdefault((c.definition.file, c.function), []).append(c)
    return tuple(_resumed(c, known) if c.resumes else c for c in named)


def _from_source(compilation: Compilation, texts: Sources) -> Compilation:
    if compilation.resumes or compilation.file.replace("\\", "/").endswith(WRAPPER_FILE):
        return compilation
    found = next((d for d in texts.definitions(compilation.file) if d.line == compilation.line), None)
    if found is None:
        return compilation
    at = SourceLine(compilation.file, compilation.line, found.name)
    return replace(compilation, definition=at, parameters=found.parameters)


def _explained(compilation: Compilation, texts: Sources) -> Compilation:
    """torch refuses a generator before it counts it, and says no more than that an error was suppressed."""
    if compilation.compile_id.frame is not None or compilation.outcome is not Outcome.SKIPPED:
        return compilation
    found = next((d for d in texts.definitions(compilation.file) if d.line == compilation.line), None)
    return replace(compilation, reason=_GENERATOR) if found and found.generator else compilation


def _resumed(compilation: Compilation, known: Mapping[tuple[str, str], list[Compilation]]) -> Compilation:
    """A resume function begins at its break: it belongs to the last function of its name that starts before."""
    candidates = known.get((compilation.file, compilation.resumes), [])
    before = [c.definition for c in candidates if c.definition and c.definition.line <= compilation.line]
    found = max(before, key=lambda at: at.line, default=None)
    return replace(compilation, definition=found) if found else compilation
