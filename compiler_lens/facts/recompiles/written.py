"""Where the user's code writes a value that recompiles are about."""

from __future__ import annotations

import re

from msgspec.structs import replace

from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

WORD = re.compile(r"[A-Za-z_]\w*")


def writing_line(texts: Sources, at: SourceLine, subject: str) -> SourceLine | None:
    """Return the line that computes a value anew from itself: the given one, or another of the function around it."""
    if _writes(at.code, subject):
        return at
    function = texts.function_at(at.file, at.line)
    numbers = range(function.line, function.last + 1) if function else ()
    found = next((n for n in numbers if _writes(texts.line(at.file, n), subject)), None)
    return replace(at, line=found, code=texts.line(at.file, found).strip()) if found else None


def _writes(code: str, subject: str) -> bool:
    """`self.calls += 1`, `self.calls = self.calls + 1`."""
    *path, last = WORD.findall(subject.removeprefix("global ")) or [""]
    name = (r"[.'\"]" if path else r"(?<![\w.])") + rf"{re.escape(last)}\b"
    written = rf"{name}['\"\]]*\s*(?:(?:[-+*/%|&^@]|<<|>>)+=|=(?!=).*{name})"
    return bool(last) and re.search(written, code) is not None
