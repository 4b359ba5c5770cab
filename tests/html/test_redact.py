"""A redacted page: no source text, no paths, and the same structure."""

from __future__ import annotations

import re
from dataclasses import replace

import pages
import pytest

from compiler_lens.analysis.explanation import explain
from compiler_lens.analysis.remedies import REMEDIES
from compiler_lens.model import CaptureProblem
from compiler_lens.render.html import report_page
from compiler_lens.render.html.redact import redacted

ALL = sorted(pages.FILES)


@pytest.mark.parametrize("name", ALL)
def test_no_line_of_source_is_left(name: str) -> None:
    recording, text = pages.recording(name), pages.all_text(pages.page(name, redact=True))
    lines = {line.strip() for source in recording.sources for line in source.text.splitlines()}
    lines |= {at.code.strip() for event in recording.graph_breaks for at in event.user_stack}
    lines |= {at.code.strip() for graph in recording.graphs for node in graph.nodes for at in node.source}
    lines -= {line.strip() for remedy in REMEDIES for line in (remedy.before + "\n" + remedy.after).splitlines()}
    told = [line for line in lines if len(line) > 12 and re.search(r"[(=.]", line) and line in text]
    assert not told


@pytest.mark.parametrize("name", ALL)
def test_no_path_is_left(name: str) -> None:
    recording, text = pages.recording(name), pages.all_text(pages.page(name, redact=True))
    own = {source.file for source in recording.sources} | {c.file for c in recording.compilations}
    for file in own:
        folder, _, base = file.rpartition("/")
        assert not folder or folder not in text
        if folder and "site-packages" not in file and "/lib/" not in file:
            assert base not in text
    assert "/home/" not in text
    assert "/tmp/" not in text
    assert "/root/" not in text


@pytest.mark.parametrize("name", ALL)
def test_structure_is_kept(name: str) -> None:
    full, less = pages.recording(name), redacted(pages.recording(name))
    for one in full.__dataclass_fields__:
        if one not in {"sources", "environment"}:
            assert len(getattr(less, one)) == len(getattr(full, one)), one
    assert [k.name for k in less.kernels] == [k.name for k in full.kernels]
    assert [g.nodes and len(g.nodes) for g in less.graphs] == [g.nodes and len(g.nodes) for g in full.graphs]
    one, other = explain(full), explain(less)
    assert [c.gb_type for c in one.cards] == [c.gb_type for c in other.cards]
    assert [len(f.severity.value) for f in one.findings] == [len(f.severity.value) for f in other.findings]
    assert one.coverage.counts == other.coverage.counts


def test_paths_in_any_text_go() -> None:
    told = "cannot open '/home/me/my secrets/x.py' and C:\\Users\\me\\y.py and ~/z/w.py, 1/2 and a/b stay; f32[8]"
    recording = replace(pages.recording("gpt"), problems=(CaptureProblem("reader", told),))
    (problem,) = redacted(recording).problems
    assert not re.search(r"secret|Users|~|w\.py", problem.message)
    assert "1/2" in problem.message
    assert "f32[8]" in problem.message


def test_the_recordings_own_path_is_not_told() -> None:
    html = report_page(pages.recording("broken"), path="/secret/place/run.clens", redact=True)
    assert "secret" not in pages.all_text(html)


def test_the_page_says_so() -> None:
    assert "Redacted: no source text" in pages.page("gpt", redact=True)
    assert "holds source code" in pages.page("gpt")
    pages.Elements(report_page(pages.recording("broken"), redact=True))
