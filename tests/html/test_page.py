"""What stands in the page: all of the recording, nothing of anybody else's, and nothing that could run."""

from __future__ import annotations

import base64
import gc
import hashlib
import re
import subprocess
import sys
from pathlib import Path

import pages
import pytest
from msgspec.structs import replace

from compiler_lens.facts.overview.explanation import explain
from compiler_lens.recording.errors import UsageError
from compiler_lens.recording.model import Recording
from compiler_lens.render.page.context import PageContext
from compiler_lens.render.page.page import report_page, write_page
from compiler_lens.render.page.pool import Pool, packed

ALL = sorted(pages.FILES)


@pytest.mark.parametrize("name", ALL)
def test_it_is_well_formed(name: str) -> None:
    found = pages.Elements(pages.page(name)).found
    ids = [given["id"] for _, given in found if "id" in given]
    assert len(ids) == len(set(ids))
    views = {given["id"] for tag, given in found if tag == "section"}
    assert {"view-overview", "view-environment", "drawn"} <= views


@pytest.mark.parametrize(("name", "mood"), [("gpt", "good"), ("broken", "warn")])
def test_the_verdict_is_good_news_only_where_no_function_is_cut(name: str, mood: str) -> None:
    assert f'<h1 class="verdict {mood}">' in pages.page(name)


@pytest.mark.parametrize("name", ALL)
def test_it_needs_nothing_from_outside(name: str) -> None:
    for tag, given in pages.Elements(pages.page(name)).found:
        assert "src" not in given
        assert not [attribute for attribute in given if attribute.startswith("on")]
        assert "style" not in given
        to = given.get("href") or "#"
        assert to.startswith("#") or (tag == "a" and to.startswith("https://meta-pytorch.github.io/")), to
        assert tag not in {"link", "img", "iframe", "base", "form", "object"}
    style = re.search(r"<style>(.*?)</style>", pages.page(name), re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]


def test_nothing_but_our_own_script_may_run() -> None:
    html = pages.page("gpt")
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', html)
    script = re.search(r"<script>(.*?)</script>", html, re.DOTALL)
    assert policy
    assert script
    hashed = base64.b64encode(hashlib.sha256(script[1].encode()).digest()).decode()
    told = policy[1].replace("&#39;", "'")
    assert f"script-src 'sha256-{hashed}'" in told
    assert "default-src 'none'" in told
    assert "unsafe" not in told
    assert "innerHTML" not in script[1].replace("there is no innerHTML here", "")


@pytest.mark.parametrize("name", ALL)
def test_every_kernel_is_there(name: str) -> None:
    recording, data = pages.recording(name), pages.data(pages.page(name))
    assert [one["name"] for one in data["kernel"]] == [kernel.name for kernel in recording.kernels]
    keys = [one["key"] for one in data["kernel"]]
    assert len(set(keys)) == len(keys)
    rows = [row for table in data.get("kernels", []) for row in pages.rows(table)]
    assert sorted(row[0][2] for row in rows) == sorted(f"#/kernel/{key}" for key in keys)
    for kernel, one in zip(recording.kernels, data["kernel"], strict=True):
        if kernel.source:
            pack, place = re.findall(r'data-text="(\d+)-(\d+)"', one["html"])[-1]
            assert data[f"texts-{pack}"][int(place)] == kernel.source


@pytest.mark.parametrize("name", ALL)
def test_every_graph_guard_and_lookup_is_there(name: str) -> None:
    recording, data = pages.recording(name), pages.data(pages.page(name))
    codes = {
        data[f"texts-{one['code'][0]}"][one["code"][1]]
        for each in data["graph"]
        for one in each["stages"]
        if one["code"]
    }
    assert {graph.code for graph in recording.graphs if graph.code} <= codes
    assert {code.code for code in recording.output_codes} <= codes
    guards = data.get("guards", [{"columns": [], "size": 0}])[0]
    times = [one for one in guards["columns"] if one["name"] == "#times"]
    more = [one["cells"][at] for one in times for at in one["rows"]]
    assert guards["size"] + sum(cell[1] - 1 for cell in more if cell) == len(recording.guards)
    assert sum(block["size"] for block in data.get("caches", []) if "size" in block) == len(recording.caches)
    tuned = data.get("autotune", [])
    assert len(tuned[1:]) == len(recording.autotunes)
    assert not recording.autotunes or tuned[0]["size"] == len(recording.autotunes)
    assert len(next(one["strip"] for one in data["overview"] if "strip" in one)["bars"]) == len(recording.compilations)


def test_every_finding_and_card_is_there() -> None:
    recording, html = pages.recording("broken"), pages.page("broken")
    explained = explain(recording)
    assert explained.cards
    found = pages.Elements(html).found
    cards = [given["id"] for tag, given in found if tag == "article" and str(given["id"]).startswith("breaks-")]
    assert cards == [f"breaks-{number}" for number in range(1, len(explained.cards) + 1)]
    steps = [given for tag, given in found if tag == "li" and "step" in str(given.get("class", "")).split()]
    assert len(steps) == len(explained.findings)
    for card in explained.cards:
        assert card.place is not None
        lines = next(f["lines"] for f in pages.data(html)["file"] if card.place.file.endswith(f["name"]))
        assert any("break" in told[1] for told in lines[str(card.place.line)]["told"])


@pytest.mark.parametrize("name", ALL)
def test_links_lead_somewhere(name: str) -> None:
    html = pages.page(name)
    data = pages.data(html)
    known = {f"#/kernel/{one['key']}" for one in data["kernel"]}
    known |= {f"#/graphs/{each['key']}" for each in data["graph"]}
    found = pages.Elements(html).found
    known |= {f"#/{str(given['id']).removeprefix('view-')}" for tag, given in found if tag == "section"}
    known |= {f"#/{str(given['id']).replace('-', '/')}" for tag, given in found if tag == "article"}
    known |= {f"#/{view}" for view in data if not view.startswith("texts")} | {"#/environment"}
    files = {one["name"] for one in data["file"]}
    for to in set(re.findall(r'#/[^"\s\\]+', pages.all_text(html).replace('\\"', '"'))):
        target = re.match(r"#/source/(.+?)(?::\d+)?$", to)
        if to in known:
            continue
        if target:
            assert target[1] in files
        else:
            key, stage = re.match(r"(#/graphs/[^/]+)/([^/]+)", to).groups()
            each = next(each for each in data["graph"] if f"#/graphs/{each['key']}" == key)
            assert stage in {one["key"] for one in each["stages"]}


def test_what_a_page_was_made_of_goes_at_once() -> None:
    """Cycles would keep a whole recording until the collector has walked through all of it: a tenth of the time."""
    gc.collect()
    gc.disable()
    try:
        report_page(pages.recording("broken"))
        assert not [kept for kept in gc.get_objects() if isinstance(kept, PageContext)]
    finally:
        gc.enable()


def test_the_same_recording_gives_the_same_bytes() -> None:
    assert report_page(pages.recording("gpt")) == pages.page("gpt")


def test_texts_are_kept_once_and_compressed() -> None:
    recording, html = pages.recording("gpt"), pages.page("gpt")
    held = {g.code for g in recording.graphs} | {c.code for c in recording.output_codes}
    held |= {k.source for k in recording.kernels} | {s.text for s in recording.sources}
    assert len(html) < sum(map(len, held)) + 150_000  # the program and the pictures
    pool = Pool()
    assert pool.add("a") == pool.add("a") != pool.add("b")
    assert [name for name, _ in pool.parts()] == ["texts-0"]


def test_large_texts_are_apart() -> None:
    pool = Pool()
    refs = [pool.add(f"{n}" * 200_000) for n in range(1, 4)]
    assert refs == [(0, 0), (0, 1), (1, 0)]


def test_what_steers_a_reader_is_gone() -> None:
    held = packed(["a\u202eb\x1b[31mc", "d\te"])
    assert pages.data(f'<script type="application/octet-stream" id="data-x">{held}</script>') == {"x": ["abc", "d   e"]}


def test_hostile_names_are_text() -> None:
    evil = pages.hostile(pages.recording("gpt"))
    html = report_page(evil)
    clean = pages.Elements(pages.page("gpt")).found
    found = pages.Elements(html).found
    assert {tag for tag, _ in found} == {tag for tag, _ in clean}
    assert "\u202e" not in pages.all_text(html)
    assert "\u2028" not in pages.all_text(html)
    assert not [given for _, given in found if any(name.startswith("on") for name in given)]
    assert html.count("</script>") == pages.page("gpt").count("</script>") + (
        html.count("application/octet-stream") - pages.page("gpt").count("application/octet-stream")
    )
    assert len(html) < 3 * len(pages.page("gpt"))  # a line of a megabyte is cut


def test_an_empty_recording_has_a_page() -> None:
    html = report_page(Recording())
    assert "Nothing was compiled" in html
    pages.Elements(html)


def test_it_is_made_without_torch(tmp_path: Path) -> None:
    code = (
        "import sys; from compiler_lens.cli import main; status = main(sys.argv[1:]); "
        "assert 'torch' not in sys.modules; sys.exit(status)"
    )
    target = tmp_path / "page.html"
    done = subprocess.run(
        [sys.executable, "-c", code, "report", str(pages.FILES["gpt"]), "-o", str(target)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.startswith(str(target))
    assert "</html>" in target.read_text("utf-8")


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        write_page(Recording(), tmp_path / "no" / "such.html")


def test_a_lens_writes_its_page(tmp_path: Path) -> None:
    import torch

    import compiler_lens

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        if y.sum() > 0:
            y = y + 1
        return y.cos()

    with compiler_lens.Lens(strict=True, progress=False) as lens:
        compiled = torch.compile(f, backend="eager")
        compiled(torch.ones(4))
        compiled(torch.ones(8))
    html = lens.html(tmp_path / "page.html").read_text("utf-8")
    pages.Elements(html)
    assert "if y.sum() &gt; 0:" in html
    assert 'id="view-recompiles"' in html


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        (
            "triton_poi_fused_gelu_view_8",
            ["time a call 6.9 µs in 1 run", "of all kernels 3 %", "bytes/s 2.42 TB/s 57 % of 4.27 TB/s copying"],
        ),
        (
            "extern_kernels.addmm",
            ["time a call 31.2 µs in 4 runs", "of all kernels 15 %", "FLOP/s 413 TFLOP/s 52 % of 793 TFLOP/s bf16"],
        ),
    ],
)
def test_a_kernel_has_figures_with_what_they_are_a_part_of(name: str, figures: list[str]) -> None:
    (kernel,) = [one for one in pages.data(pages.page("gpt"))["kernel"] if one["name"] == name]
    text = " ".join(re.sub(r"<[^>]*>", " ", kernel["html"]).split())
    assert [figure for figure in figures if figure not in text] == []


def test_the_search_finds_files_kernels_and_functions_by_their_names() -> None:
    found = pages.data(pages.page("broken"))["main"]["search"]
    files = [one for one in found if one[1] == "file"]
    assert files
    assert all(name == path.rpartition("/")[2] and to == f"#/source/{path}" for name, _, to, path in files)
    assert {kernel.name for kernel in pages.recording("broken").kernels} == {
        one[0] for one in found if one[1].startswith("kernel [")
    }
    assert {"function"} <= {kind for _, kind, _, _ in found}


def test_long_names_make_no_long_page() -> None:
    recording = pages.recording("broken")
    name = "n" * 20_000
    named = tuple(replace(one, function=name, definition=None) for one in recording.compilations)
    made = report_page(replace(recording, compilations=named))
    assert "n" * 400 + "…" in made
    assert len(made) < len(pages.page("broken")) + 20_000
