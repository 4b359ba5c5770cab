"""What the author calls each compiled function: by our hook, by the source, or by the function that it resumes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from compiler_lens.recording.event import WRAPPER_FILE
from compiler_lens.recording.model import Compilation, SourceFile, SourceLine
from compiler_lens.recording.source_text import Sources


def name_definitions(compilations: Sequence[Compilation], files: Iterable[SourceFile]) -> tuple[Compilation, ...]:
    """Return the compilations with `definition` and `parameters`, as far as anybody knows them."""
    texts = Sources({source.file: source.text for source in files})
    named = [c if c.definition else _from_source(c, texts) for c in compilations]
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


def _resumed(compilation: Compilation, known: Mapping[tuple[str, str], list[Compilation]]) -> Compilation:
    """A resume function begins at its break: it belongs to the last function of its name that starts before."""
    candidates = known.get((compilation.file, compilation.resumes), [])
    before = [c.definition for c in candidates if c.definition and c.definition.line <= compilation.line]
    found = max(before, key=lambda at: at.line, default=None)
    return replace(compilation, definition=found) if found else compilation
