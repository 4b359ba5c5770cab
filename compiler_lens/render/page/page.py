"""A recording as one HTML file: what a reader needs first stands in it as text, the rest as data for its script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler_lens.facts.overview.shared import provenance_of
from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.recording.errors import UsageError, writing
from compiler_lens.recording.ids import Direction
from compiler_lens.recording.model import Recording
from compiler_lens.recording.output_files import Product, write_whole
from compiler_lens.recording.redact import redacted
from compiler_lens.render.figures import written
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.document import DocumentPart, document_part, drawn_part
from compiler_lens.render.page.graphs import gallery, graph_data
from compiler_lens.render.page.links import address
from compiler_lens.render.page.pool import packed, shelved
from compiler_lens.render.page.shell import own_file, rendered, script
from compiler_lens.render.picture.style import style_sheet
from compiler_lens.views import graphs as graphs_view
from compiler_lens.views.document import Annotated, Document, SourceRow
from compiler_lens.views.parts import Kind
from compiler_lens.views.registry import BY_NAME, OVERVIEW, VIEWS
from compiler_lens.views.text import clean, number, one_line

_DRAWN: Mapping[str, str] = {"source": "Source", "graphs": "Graphs"}  # views that the script draws, with their names
_LONGEST = 2_000  # characters of a line of source


def report_page(recording: Recording, *, user_paths: UserPaths = (), path: str = "REC", redact: bool = False) -> str:
    """The whole page. With `redact`, without source text and without the folders of files."""
    shown, name = (redacted(recording, Ownership.of(user_paths).owns), "REC") if redact else (recording, path)
    context = PageContext.of(shown, user_paths, name)
    documents = _documents(context)
    argv = shown.environment.argv
    return rendered(
        "page.html",
        own_file("page.css") + style_sheet(),
        script("elements", "code", "tables", "source", "graphs", "search", "views"),
        name=one_line(argv[0].rpartition("/")[2] if argv else name, 200),
        views=_menu(context, documents),
        documents=[part.html for part in documents.values()],
        redact=redact,
        data=[*_data(context), *((name, packed(part.tables)) for name, part in documents.items())],
    )


def write_page(  # noqa: PLR0913 -- each by its name
    recording: Recording,
    target: Path,
    *,
    user_paths: UserPaths = (),
    name: str = "REC",
    redact: bool = False,
    overwrite: bool = False,
) -> None:
    """Write the page to a file. Raises `UsageError` where it cannot be written, or is there and no page of ours."""
    page = report_page(recording, user_paths=user_paths, path=name, redact=redact)
    with writing(target, UsageError):
        write_whole(target, page.encode(), Product.PAGE, overwrite=overwrite)


def _documents(context: PageContext) -> dict[str, DocumentPart]:
    """Each view that is a Document and has something to show."""
    made = {}
    for view in (OVERVIEW, *VIEWS):
        name = "overview" if view is OVERVIEW else view.name
        if view is OVERVIEW or (view.in_page and name not in _DRAWN):
            document = view.document(context.recording, context.selection)
            if view is OVERVIEW or document.count != 0:
                made[name] = document_part(name, view.title, document, context.links)
    return made


def _menu(context: PageContext, documents: Mapping[str, DocumentPart]) -> list[tuple[str, str, str]]:
    """Each view that has something to show, with how much that is."""
    counts: dict[str, tuple[str, int | None]] = {name: (part.title, part.count) for name, part in documents.items()}
    if context.views:
        counts["source"] = (_DRAWN["source"], len(context.views))
    if context.recording.compilations:
        counts["graphs"] = (_DRAWN["graphs"], context.summary.graphs or None)
    order = ("overview", *(view.name for view in VIEWS))
    menu = ((name, *counts[name]) for name in sorted(counts, key=order.index))
    return [(name, title, "" if count is None else number(count)) for name, title, count in menu]


def _data(context: PageContext) -> Iterator[tuple[str, str]]:
    """What the script reads, by name; the texts last, for then all are known."""
    yield "main", packed({"search": _found(context)})
    source = BY_NAME["source"].document(context.recording, context.selection)
    files = [_file(block, context) for block in source.blocks if isinstance(block, Annotated)]
    yield "source", packed([[one["name"], one["breaks"]] for one in files])
    yield from shelved("file", ((one["name"], one) for one in files))
    yield "lines", packed(_kernel_lines(context))
    yield from shelved("kernel", _kernels(context))
    graphs = graph_data(context)
    yield from shelved("graph", ((one["key"], one) for one in graphs))
    yield "gallery", packed(gallery(context, graphs))
    compilations = graphs_view.document(context.recording, context.selection)
    yield "graphs", packed(document_part("graphs", "Compilations", compilations, context.links).tables)
    yield from context.pool.parts()


def _found(context: PageContext) -> list[list[str]]:
    """What the search finds: name, kind, address, and what else it is found by."""
    links, found = context.links, []
    for view in context.views:
        name = links.files[view.file]
        found.append([view.file.rpartition("/")[2], "file", f"#/source/{name}", name])
    found += [[one.name, f"kernel [{one.compile_id}]", links.kernel(one), ""] for one in context.recording.kernels]
    for function in context.summary.coverage.functions:
        at = links.at(function.name) if function.name.file else ""
        found.append([function.name.name, "function", links.href(function.name) or "#/frames", at])
    return found


def _kernel_lines(context: PageContext) -> list[list[Any]]:
    """Each kernel's address, name and lines, in the order of `Recording.kernels`: all that the source view asks for."""
    files, found = context.links.files, []
    provenance = provenance_of(context.recording, context.selection)
    for index, kernel in enumerate(context.recording.kernels):
        places = {at.place: at for one in provenance.of_kernel(index) for at in one.lines}
        lines = [(files[at.file], at.line) for at in places.values() if at.file in files]
        found.append([context.links.kernels[kernel.id], kernel.name, lines])
    return found


def _kernels(context: PageContext) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each kernel's own view, by its address."""
    documents = BY_NAME["kernel"].documents(context.recording, context.selection)
    for kernel, document in zip(context.recording.kernels, documents, strict=True):
        key, backward = context.links.kernels[kernel.id], kernel.direction is Direction.BACKWARD
        drawn = drawn_part("kernel", document, context.links, context.pool)
        yield key, {"key": key, "name": kernel.name, "backward": backward, **drawn}


# -- files line by line


def _file(block: Annotated, context: PageContext) -> dict[str, Any]:
    """A file: each line with its marks and notes, and its kernels."""
    return {
        "name": context.links.files[block.file],
        "counts": block.summary,
        "breaks": block.breaks,
        "legend": [[mark.sign, mark.words] for mark in block.legend],
        "text": context.pool.add("\n".join(map(_cut, block.text))) if block.text else None,
        "lines": {str(number): _row(row, context) for number, row in block.rows.items()},
    }


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} … {len(line) - _LONGEST:,} more characters"


def _row(row: SourceRow, context: PageContext) -> dict[str, Any]:
    links, notes = context.links, []
    for note in row.notes:
        words = note.words if isinstance(note.words, str) else note.words.text
        to = f"#/{note.head.view}/{note.head.card}" if note.head.card else f"#/{note.head.view}"
        notes.append([note.mark.sign, note.head.words, note.between + clean(words), to])
    made = {
        "marks": "".join(mark.sign if mark else " " for mark in row.marks),
        "code": _cut(row.code),
        "ids": [[str(one), links.graph(one), address(one)] for one in row.ids],
        "told": notes,
    }
    if row.story is None:
        return made
    above, below = (
        drawn_part("source", Document(blocks, None), links, context.pool)["html"]
        for blocks in (row.story.above, row.story.below)
    )
    # Of a kernel: its place among all; whether it is of the backward; its launches, share and time for this line.
    kernels = [
        [one.index, int(one.backward), one.launches, one.share, written(one.microseconds, Kind.MICROSECONDS)]
        for one in row.story.kernels
    ]
    return {**made, "above": above, "kernels": kernels, "below": below}
