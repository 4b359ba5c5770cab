"""The source text that a recording holds."""

from __future__ import annotations

from compiler_lens.recording.model import Recording
from compiler_lens.recording.source_text import Definition, Excerpt, Sources

__all__ = ["Definition", "Excerpt", "Sources", "sources"]


def sources(recording: Recording) -> Sources:
    """What can be asked of the files of a recording."""
    return Sources({source.file: source.text for source in recording.sources})
