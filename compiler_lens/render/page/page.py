"""A recording as one HTML file: what a reader needs first stands in it as text, the rest as data for its script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.recording.ids import Direction
from compiler_lens.recording.model import Recording
from compiler_lens.recording.redact import redacted
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.document import DocumentPart, document_part, drawn_part
from compiler_lens.render.page.gallery import gallery
from compiler_lens.render.page.graphs import graph_data
from compiler_lens.render.page.pool import packed, shelved
from compiler_lens.render.page.shell import own_file, rendered, script, write
from compiler_lens.render.page.source import source_files
from compiler_lens.render.picture.style import style_sheet
from compiler_lens.views import graphs as graphs_view
from compiler_lens.views.document import Document
from compiler_lens.views.registry import OVERVIEW, VIEWS
from compiler_lens.views.text import number, one_line

_BY_NAME = {view.name: view for view in VIEWS}

# Views, as the page's script and addresses call them, with their names; in the order of the page's menu.
_VIEWS: Mapping[str, str] = {
    "source": "Source",
    "graphs": "Graphs",
}


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
        views=_views(context, documents),
        documents=[part.html for part in documents.values()],
        redact=redact,
        data=[*_data(context), *((name, packed(part.tables)) for name, part in documents.items())],
    )


def write_page(
    recording: Recording, target: Path, *, user_paths: UserPaths = (), name: str = "REC", redact: bool = False
) -> None:
    """Write the page to a file. Raises `UsageError` where it cannot be written."""
    write(report_page(recording, user_paths=user_paths, path=name, redact=redact), target)


def _documents(context: PageContext) -> dict[str, DocumentPart]:
    """Each view that is a Document and has something to show."""
    selection = context.selection
    overview = OVERVIEW.document(context.recording, selection)
    made = {"overview": document_part("overview", OVERVIEW.title, overview, context.links)}
    for view in VIEWS:
        if view.in_page and view.name not in _VIEWS:
            document = view.document(context.recording, selection)
            if document.count != 0:
                made[view.name] = document_part(view.name, view.title, document, context.links)
    return made


def _views(context: PageContext, documents: Mapping[str, DocumentPart]) -> list[tuple[str, str, str]]:
    """Each view that has something to show, with how much that is."""
    recording, summary = context.recording, context.summary
    counts: dict[str, int | None] = {
        "source": len(context.views),
        "graphs": (summary.graphs or None) if recording.compilations else 0,
    }
    menu = [
        (view, name, "" if counts[view] is None else number(counts[view]))
        for view, name in _VIEWS.items()
        if counts[view] != 0
    ]
    for name, part in documents.items():
        menu.append((name, part.title, "" if part.count is None else number(part.count)))
    order = ["overview", *(view.name for view in VIEWS)]
    return sorted(menu, key=lambda entry: order.index(entry[0]))


def _data(context: PageContext) -> Iterator[tuple[str, str]]:
    """What the script reads, by name; the texts last, for then all are known."""
    recording, links = context.recording, context.links
    yield "main", packed({"search": _found(context)})
    files = source_files(_whole("source", context), links, context.pool)
    yield "source", packed([[one["name"], one["breaks"]] for one in files])
    yield from shelved("file", ((one["name"], one) for one in files))
    yield "lines", packed(_kernel_lines(context))
    yield from shelved("kernel", _kernels(context))
    graphs = graph_data(context)
    yield from shelved("graph", ((one["key"], one) for one in graphs))
    yield "gallery", packed(gallery(context, graphs))
    compilations = graphs_view.document(recording, context.selection)
    yield "graphs", packed(document_part("graphs", "Compilations", compilations, links).tables)
    yield from context.pool.parts()


def _whole(view: str, context: PageContext) -> Document:
    return _BY_NAME[view].document(context.recording, context.selection)


def _kernel_lines(context: PageContext) -> list[list[Any]]:
    """Each kernel's address, name and lines, in the order of `Recording.kernels`: all that the source view asks for."""
    files, found = context.links.files, []
    for index, kernel in enumerate(context.recording.kernels):
        places = {at.place: at for one in context.provenance.of_kernel(index) for at in one.lines}
        lines = [(files[at.file], at.line) for at in places.values() if at.file in files]
        found.append([context.links.kernels[kernel.id], kernel.name, lines])
    return found


def _kernels(context: PageContext) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each kernel's own view, by its address."""
    documents = _BY_NAME["kernel"].documents(context.recording, context.selection)
    for kernel, document in zip(context.recording.kernels, documents, strict=True):
        key, backward = context.links.kernels[kernel.id], kernel.direction is Direction.BACKWARD
        drawn = drawn_part("kernel", document, context.links, context.pool)
        yield key, {"key": key, "name": kernel.name, "backward": backward, **drawn}


def _found(context: PageContext) -> list[list[str]]:
    """What the search finds: name, kind, address, and what else it is found by."""
    links = context.links
    found = [[view.file.rpartition("/")[2], "file", f"#/source/{name}", name]
             for view, name in ((view, links.files[view.file]) for view in context.views)]  # fmt: skip
    found += [
        [kernel.name, f"kernel [{kernel.compile_id}]", links.kernel(kernel), ""] for kernel in context.recording.kernels
    ]
    found += [
        [f.name.name, "function", links.href(f.name) or "#/frames", links.at(f.name) if f.name.file else ""]
        for f in context.summary.coverage.functions
    ]
    return found
