"""Source files for a log that holds none: those on this machine, where they still say what the log says."""

from __future__ import annotations

import sysconfig
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec.structs import replace

from compiler_lens.decode.compilations import name_definitions
from compiler_lens.recording.model import Recording, SourceFile, SourceLine, Unavailable
from compiler_lens.recording.source_text import Sources

_LONGEST = 2_000_000  # bytes of a file
_OTHER = "some files were changed since this log was written, or are not on this machine"


def with_disk_sources(recording: Recording) -> Recording:
    """Return the recording with the text of those files that are on this machine and agree with every known line."""
    lines: dict[str, list[SourceLine]] = defaultdict(list)
    known_lines = [at for event in recording.graph_breaks for at in event.user_stack]
    for c in recording.compilations:
        known_lines += [SourceLine(c.file, 0), *c.stack]
    known_lines += [at for graph in recording.graphs for node in graph.nodes for at in node.source]
    for at in known_lines:
        lines[at.file].append(at)
    # As for what a lens keeps: not torch's own files, not the standard library's.
    library = sysconfig.get_path("stdlib")
    wanted = {}
    for file, known in lines.items():
        path = file.replace("\\", "/")
        is_library = file.startswith(library) and "-packages/" not in path
        if file and not file.startswith("<") and "-packages/torch/" not in path and not is_library:
            wanted[file] = known
    read = {file: text for file in sorted(wanted) if (text := _text(file))}
    files = tuple(SourceFile(file, text) for file, text in read.items() if _agrees(file, wanted[file], read))
    missing = (Unavailable("source text", _OTHER),) if len(files) < len(wanted) else ()
    return replace(
        recording,
        sources=files,
        compilations=name_definitions(recording.compilations, files),
        unavailable=recording.unavailable + missing,
    )


def _text(file: str) -> str:
    try:
        path = Path(file)
        if not path.is_file() or path.stat().st_size > _LONGEST:  # a log may name a pipe, which would never end
            return ""
        with tokenize.open(file) as stream:
            return stream.read()
    except (OSError, SyntaxError, ValueError):  # not there; not Python; a name that no file can have
        return ""


def _agrees(file: str, known: Iterable[SourceLine], texts: Mapping[str, str]) -> bool:
    """Whether each line of which the log has text begins as the file's line does."""
    source = Sources(texts)
    told = {(at.line, at.code.strip()) for at in known if at.line and at.code.strip()}
    lines = [(source.line(file, number).strip(), code) for number, code in told]
    # The log has the whole statement, which the line may only begin.
    return bool(lines) and all(line and code.startswith(line[:40]) for line, code in lines)
