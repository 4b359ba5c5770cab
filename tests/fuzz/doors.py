"""All that is made of a recording: every view of it, whole and of its parts, on every way out, and what differs from another."""

from __future__ import annotations

import contextlib
import io
import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple
from xml.etree import ElementTree as ET

from compiler_lens.cli import main
from compiler_lens.decode.recording_file import load, save
from compiler_lens.facts.graphs.graph_choice import STAGES
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.facts.program.select import Selection, compile_ids, select_ids, select_launches, select_stage
from compiler_lens.recording.errors import LensError
from compiler_lens.recording.model import GraphStage, Recording
from compiler_lens.recording.redact import redacted
from compiler_lens.render import console
from compiler_lens.render.console.page import page_for
from compiler_lens.render.json import view_json
from compiler_lens.render.page.page import report_page
from compiler_lens.render.picture.drawing import draw
from compiler_lens.render.results import Diff, diff
from compiler_lens.views.diff.views import VIEWS as DIFF_VIEWS
from compiler_lens.views.registry import OVERVIEW, VIEWS, Asks, View

Step = tuple[str, Callable[[], object]]  # what is tried, in words, and the trying

MARK = "<img src=x onerror=odd>"  # a text of the user's that must not become an element
_ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]"
)  # on a terminal; half characters cannot be written at all
_OF_ONE_GRAPH = {stage.value for stage in GraphStage}
_EACH = 2  # names of each kind that a view is asked about


def views_as_json(recording: Recording, _: Recording, __: int) -> Iterator[Step]:
    """Every view, whole, as the documents for programs."""
    kept = Selection(kept={})
    for view in _whole():
        yield f"{view.name} --json", lambda view=view: json.loads(view_json(recording, view.name, kept))


def views_as_text(recording: Recording, _: Recording, __: int) -> Iterator[Step]:
    """Every view, whole, as lines for a terminal; first the report."""
    yield "the report", lambda: _is_text(console.report(recording, width=80, color=False))
    yield "the report in a notebook", lambda: _is_markup(console.html_fragment(recording))
    page = page_for(recording, width=100, color=False, path="REC")
    for view in _whole():
        yield view.name, lambda view=view: _is_text(console.view(recording, view.name, page, Selection(kept={})))


def views_of_parts(recording: Recording, _: Recording, pick: int) -> Iterator[Step]:
    """Every view, asked about one of the things that it can be asked about."""
    page = page_for(recording, width=60, color=True, path="REC")
    for view in VIEWS:
        asked = list(_asked(recording, view))
        for words in asked and [asked[pick % len(asked)]]:
            yield (
                f"{view.name} {' '.join(words)[:80]!r}",
                lambda view=view, words=words: console.view(
                    recording, view.name, page, _selection(recording, view, words)
                ),
            )


def commands(recording: Recording, _: Recording, __: int) -> Iterator[Step]:
    """What is typed: a mistake of ours is one line there, and `--traceback` raises it."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder, "r.clens.gz"))
        yield "save", lambda: save(recording, path)
        for words in (["show", path, "frames"], ["source", path], ["graph", path, "-o", f"{folder}/g.dot"]):
            yield " ".join(words[::2]), lambda words=words: _typed(*words, "--traceback")


def page(recording: Recording, _: Recording, __: int) -> Iterator[Step]:
    """The page of one recording."""
    yield "report", lambda: _is_markup(report_page(recording))


def pictures(recording: Recording, _: Recording, pick: int) -> Iterator[Step]:
    """Two of the pictures there are, as SVG and as DOT, and one module of one."""
    graphs = recording.graphs[pick % len(recording.graphs or "-") :][:1]
    modules = [*dict.fromkeys(node.module for graph in graphs for node in graph.nodes if node.module)]
    there = {graph.stage.value for graph in recording.graphs}
    stages = [stage for stage in STAGES if stage in there or stage not in _OF_ONE_GRAPH]
    for stage in ("", stages[pick % len(stages)]):
        yield f"graph --stage {stage}", lambda stage=stage: _is_picture(draw(recording, stage))
    for module in modules and [modules[pick % len(modules)]]:
        yield (
            f"graph --module {module[:80]!r}",
            lambda module=module: _is_picture(draw(recording, graphs[0].stage, module=module, depth=1)),
        )


def redacted_views(recording: Recording, _: Recording, __: int) -> Iterator[Step]:
    """What is left of it after redaction, and read back."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "r.clens")

        def again() -> None:
            kept = redacted(recording, Ownership.of(()).owns)
            save(kept, path)
            read = load(path, strict=True)
            if read != kept:
                raise AssertionError(f"what was written is not what was read: {_differs(read, kept)}")

        yield "redact", again
        yield "show --redact", lambda: console.report(redacted(recording, Ownership.of(()).owns), color=False)


def redacted_page(recording: Recording, _: Recording, __: int) -> Iterator[Step]:
    """The page of what is left after redaction."""
    yield "report --redact", lambda: _is_markup(report_page(recording, redact=True))


def differences(recording: Recording, other: Recording, pick: int) -> Iterator[Step]:
    """Every view of what differs from another recording, in one direction."""
    before, after = (other, recording) if pick % 2 else (recording, other)
    made: list[Diff] = []
    yield "diff", lambda: made.append(diff(before, after))
    if made:
        yield from _views_of(made[0])


def _views_of(found: Diff) -> Iterator[Step]:
    cases = [case for change in found.result.kernels for case in change.cases]
    names = [launch.kernel for case in cases for launch in (*case.before, *case.after)][:_EACH]
    for view in DIFF_VIEWS:
        for name in names if view == "kernel" else [""]:
            yield f"diff {view}", partial(_is_report, found, view, name)
    yield "diff --json", lambda: json.loads(found.to_json())


def page_of_two(recording: Recording, other: Recording, _: int) -> Iterator[Step]:
    """The page of two recordings."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "diff.html")
        yield "report of two", lambda: _is_markup(diff(other, recording).html(path).read_text("utf-8"))


class Door(NamedTuple):
    """A way out, and how often cases take it."""

    steps: Callable[[Recording, Recording, int], Iterator[Step]]
    share: int


DOORS: dict[str, Door] = {
    "text": Door(views_as_text, 4),
    "parts": Door(views_of_parts, 4),
    "pictures": Door(pictures, 4),
    "diff": Door(differences, 3),
    "redacted": Door(redacted_views, 2),
    "commands": Door(commands, 1),
    "page": Door(page, 1),
    "redacted page": Door(redacted_page, 1),
    "page of two": Door(page_of_two, 1),
}  # every case goes through `views_as_json` before


def go_through(steps: Iterable[Step]) -> Iterator[tuple[str, Exception]]:
    """Try all steps; return those that end in anything but a value or an error of ours, with what they raise."""
    for name, trying in steps:
        error = _raised(trying)
        if error is not None and not isinstance(error, LensError):
            yield name, error


def _raised(trying: Callable[[], object]) -> Exception | None:
    try:
        trying()
    except Exception as error:  # noqa: BLE001 -- what is looked for
        return error
    return None


def _whole() -> tuple[View, ...]:
    return (OVERVIEW, *(view for view in VIEWS if view.asks is not Asks.KERNEL))


def _asked(recording: Recording, view: View) -> Iterator[list[str]]:
    """What to type after a view's name."""
    ids = [str(one) for one in compile_ids(recording)[:_EACH]]
    frames = [one.partition("/")[0] for one in ids[:1]]
    kernels = [*dict.fromkeys(kernel.name for kernel in recording.kernels)][-_EACH:]
    nodes = [node for graph in recording.graphs[:3] for node in graph.nodes if node.source]
    lines = [*dict.fromkeys(f"{node.source[-1].file.rpartition('/')[2]}:{node.source[-1].line}" for node in nodes)][
        :_EACH
    ]
    modules = [*dict.fromkeys(node.module for node in nodes if node.module)][-_EACH:]
    files = [*dict.fromkeys(c.file for c in recording.compilations), *(file.file for file in recording.sources)][:_EACH]
    if view.asks in {Asks.IDS, Asks.LAUNCHES, Asks.GRAPH}:
        yield from ([one] for one in (*ids, *frames, "99/99", ""))
    if view.asks is Asks.GRAPH:
        stages = dict.fromkeys(graph.stage.value for graph in recording.graphs)
        yield from ([one, stage] for one in ids for stage in stages)
    if view.asks in {Asks.LAUNCHES, Asks.KERNEL}:
        yield from ([kernel] for kernel in (*kernels, "nothing"))
    if view.asks in {Asks.LAUNCHES, Asks.LINE}:
        yield from ([place] for place in (*lines, *modules, "no.py:-1", ""))
    if view.asks is Asks.FILE:
        yield from ([place] for place in (*files, *lines, "no.py", f"{files[0] if files else ''}:99999999999"))


def _selection(recording: Recording, view: View, words: list[str]) -> Selection:
    """What the command line makes of these words."""
    named = words[0]
    match view.asks:
        case Asks.KERNEL:
            return Selection(kernel=named)
        case Asks.FILE:
            return Selection(file=named)
        case Asks.LINE:
            return Selection(place=named)
        case Asks.LAUNCHES:
            return select_launches(recording, named)
    ids = select_ids(recording, named)
    return Selection(ids=ids, stage=select_stage(recording, ids, words[1]) if words[1:] else None)


def _differs(one: Recording, other: Recording) -> str:
    return ", ".join(name for name in one.__struct_fields__ if getattr(one, name) != getattr(other, name))


def _typed(*words: str) -> None:
    out, wrong = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(wrong):
        main(list(words))
    _is_text(out.getvalue() + wrong.getvalue())


def _is_text(text: str) -> None:
    found = _ACTS.search(text)
    if found:
        raise AssertionError(
            f"{found[0]!r} reaches the terminal: {text[max(found.start() - 40, 0) : found.end() + 40]!r}"
        )


def _is_report(found: Diff, view: str, name: str) -> None:
    _is_text(found.report(view, name, width=100, color=False))


def _is_markup(text: str) -> None:
    text.encode()
    if MARK in text:
        raise AssertionError(f"a text of the recording is markup: {text[max(text.index(MARK) - 80, 0) :][:160]!r}")


def _is_picture(drawing: object) -> None:
    _is_markup(drawing.svg)
    ET.fromstring(drawing.svg)
    if drawing.level is not None:
        drawing.dot.encode()
