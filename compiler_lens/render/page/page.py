"""A recording as one HTML file: what a reader needs first stands in it as text, the rest as data for its script."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from compiler_lens.facts.program.ownership import Ownership, UserPaths
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.recording.redact import redacted
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.document import DocumentPart, document_part
from compiler_lens.render.page.gallery import gallery
from compiler_lens.render.page.graphs import graph_data
from compiler_lens.render.page.pool import packed, shelved
from compiler_lens.render.page.shell import own_file, rendered, write
from compiler_lens.render.page.tables import (
    strip,
)
from compiler_lens.render.picture.style import style_sheet
from compiler_lens.views import graphs as graphs_view
from compiler_lens.views import text
from compiler_lens.views.page.kernels import kernel_details, kernel_lines, kernel_table
from compiler_lens.views.page.overview import overview
from compiler_lens.views.page.sources import LEGEND, source_data
from compiler_lens.views.registry import VIEWS

# Views, as the page's script and addresses call them, with their names; in the order of the page's menu.
_VIEWS: Mapping[str, str] = {
    "overview": "Overview",
    "source": "Source",
    "kernels": "Kernels",
    "graphs": "Graphs",
}


def report_page(recording: Recording, *, user_paths: UserPaths = (), path: str = "REC", redact: bool = False) -> str:
    """The whole page. With `redact`, without source text and without the folders of files."""
    shown, name = (redacted(recording, Ownership.of(user_paths).owns), "REC") if redact else (recording, path)
    matter = PageContext.of(shown, user_paths, name)
    documents = _documents(matter)
    return rendered(
        "page.html",
        own_file("page.css") + style_sheet(),
        own_file("page.js"),
        **overview(matter),
        matter=matter,
        views=_views(matter, documents),
        documents=[part.html for part in documents.values()],
        redact=redact,
        data=[*_data(matter), *((name, packed(part.tables)) for name, part in documents.items())],
    )


def write_page(
    recording: Recording, target: Path, *, user_paths: UserPaths = (), name: str = "REC", redact: bool = False
) -> None:
    """Write the page to a file. Raises `UsageError` where it cannot be written."""
    write(report_page(recording, user_paths=user_paths, path=name, redact=redact), target)


def _documents(matter: PageContext) -> dict[str, DocumentPart]:
    """Each view that is a Document and has something to show."""
    selection = Selection(user_paths=matter.user_paths, folds_nothing=True)
    made = {}
    for view in VIEWS:
        if view.in_page and view.name not in _VIEWS:
            document = view.document(matter.recording, selection)
            if document.count != 0:
                made[view.name] = document_part(view.name, view.title, document, matter.ink)
    return made


def _views(matter: PageContext, documents: Mapping[str, DocumentPart]) -> list[tuple[str, str, str]]:
    """Each view that has something to show, with how much that is."""
    recording, summary = matter.recording, matter.summary
    counts: dict[str, int | None] = {
        "overview": None,
        "source": len(matter.views),
        "kernels": len(recording.kernels),
        "graphs": (summary.graphs or None) if recording.compilations else 0,
    }
    menu = [
        (view, name, "" if counts[view] is None else text.number(counts[view]))
        for view, name in _VIEWS.items()
        if counts[view] != 0
    ]
    for name, part in documents.items():
        menu.append((name, part.title, "" if part.count is None else text.number(part.count)))
    order = ["overview", *(view.name for view in VIEWS)]
    return sorted(menu, key=lambda entry: order.index(entry[0]))


def _data(matter: PageContext) -> Iterator[tuple[str, str]]:
    """What the script reads, by name; the texts last, for then all are known."""
    recording, ink = matter.recording, matter.ink
    yield "main", packed({"search": _found(matter)})
    yield "strip", packed(strip(recording))
    files = source_data(matter)
    yield "source", packed({"legend": list(LEGEND.items()), "files": [[one["name"], one["breaks"]] for one in files]})
    yield from shelved("file", ((one["name"], one) for one in files))
    yield "kernels", packed([kernel_table(matter)])
    yield "lines", packed(kernel_lines(matter))
    yield from shelved("kernel", ((one["key"], one) for one in kernel_details(matter)))
    graphs = graph_data(matter)
    yield from shelved("graph", ((one["key"], one) for one in graphs))
    yield "gallery", packed(gallery(matter, graphs))
    compilations = graphs_view.document(recording, Selection(folds_nothing=True))
    yield "graphs", packed(document_part("graphs", "Compilations", compilations, ink).tables)
    yield from matter.pool.parts()


def _found(matter: PageContext) -> list[list[str]]:
    """What the search finds: name, kind, address, and what else it is found by."""
    ink = matter.ink
    found = [[view.file.rpartition("/")[2], "file", f"#/source/{name}", name]
             for view, name in ((view, ink.files[view.file]) for view in matter.views)]  # fmt: skip
    found += [
        [kernel.name, f"kernel [{kernel.compile_id}]", ink.kernel(kernel), ""] for kernel in matter.recording.kernels
    ]
    found += [
        [f.name.name, "function", ink.href(f.name) or "#/frames", ink.at(f.name) if f.name.file else ""]
        for f in matter.summary.coverage.functions
    ]
    return found
