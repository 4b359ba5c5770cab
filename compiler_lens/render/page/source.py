"""Files line by line, as the page's script reads them: each with its marks and notes, and the kernels of each line."""

from __future__ import annotations

from typing import Any

from compiler_lens.render.figures import written
from compiler_lens.render.page.document import drawn_part
from compiler_lens.render.page.links import PageLinks, address
from compiler_lens.render.page.pool import Pool
from compiler_lens.views.document import Annotated, Document, KernelPart, LineNote, SourceRow, SourceStory
from compiler_lens.views.parts import Kind
from compiler_lens.views.text import clean

_LONGEST = 2_000  # characters of a line of source


def source_files(document: Document, links: PageLinks, pool: Pool) -> list[dict[str, Any]]:
    """Return every file of a document of the view `source`; their texts go to the pool."""
    return [_file(block, links, pool) for block in document.blocks if isinstance(block, Annotated)]


def _file(block: Annotated, links: PageLinks, pool: Pool) -> dict[str, Any]:
    return {
        "name": links.files[block.file],
        "counts": block.summary,
        "breaks": block.breaks,
        "legend": [[mark.sign, mark.words] for mark in block.legend],
        "text": pool.add("\n".join(map(_cut, block.text))) if block.text else None,
        "lines": {str(number): _row(row, links, pool) for number, row in block.rows.items()},
    }


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} … {len(line) - _LONGEST:,} more characters"


def _row(row: SourceRow, links: PageLinks, pool: Pool) -> dict[str, Any]:
    return {
        "marks": "".join(mark.sign if mark else " " for mark in row.marks),
        "code": _cut(row.code),
        "ids": [[str(one), links.graph(one), address(one)] for one in row.ids],
        "told": [_note(note) for note in row.notes],
        **(_story(row.story, links, pool) if row.story else {}),
    }


def _note(note: LineNote) -> list[str]:
    words = note.words if isinstance(note.words, str) else note.words.text
    to = f"#/{note.head.view}/{note.head.card}" if note.head.card else f"#/{note.head.view}"
    return [note.mark.sign, note.head.words, note.between + clean(words), to]


def _story(story: SourceStory, links: PageLinks, pool: Pool) -> dict[str, Any]:
    return {
        "above": drawn_part("source", Document(story.above, None), links, pool)["html"],
        "kernels": [_kernel(one) for one in story.kernels],
        "below": drawn_part("source", Document(story.below, None), links, pool)["html"],
    }


def _kernel(one: KernelPart) -> list[Any]:
    """Its place among the kernels; whether it is of the backward; its launches, share and time for this line."""
    return [one.index, int(one.backward), one.launches, one.share, written(one.microseconds, Kind.MICROSECONDS)]
