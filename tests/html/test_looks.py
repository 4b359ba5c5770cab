"""How the page looks: what can be read, what has room, what leads where. A real Chromium measures it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pages
import pytest
from browser import Browser
from msgspec.structs import replace

import compiler_lens
from compiler_lens.facts.kernels.kernels import Costs
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import Recording
from compiler_lens.render.page.page import report_page
from compiler_lens.views.document import Tile, Tiles
from compiler_lens.views.parts import Figure, Kind
from compiler_lens.views.registry import VIEWS

STYLE = Path(compiler_lens.__file__).parent / "render" / "page" / "page.css"


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("looks")
    for name in ("gpt", "broken"):
        (folder / f"{name}.html").write_text(pages.page(name), encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in ("gpt", "broken")}


@pytest.fixture
def open_page(chromium: Browser, addresses: dict[str, str]) -> Iterator[Any]:
    chromium.errors.clear()

    def opened(name: str, at: str, width: int = 1400) -> Browser:
        chromium.ask("Page.navigate", url="about:blank")
        _wide(chromium, width)
        chromium.open(addresses[name] + at)
        return chromium

    yield opened
    _wide(chromium, 1400)
    assert not chromium.errors


def _wide(page: Browser, width: int) -> None:
    page.ask("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)


# -- colours


def _colours(block: str) -> dict[str, list[float]]:
    return {
        name: [int((given * 2 if len(given) == 3 else given)[i : i + 2], 16) for i in (0, 2, 4)]
        if len(given) == 6
        else [int(c * 2, 16) for c in given]
        for name, given in re.findall(r"--(\w+):#([0-9a-f]{6}|[0-9a-f]{3})\b", block)
    }


TEXTS = ("ink", "quiet", "link", "good", "warn", "bad")
CODE = ("k", "s", "c", "n", "f")
PAIRS = [
    *((text, back) for back in ("back", "side", "code", "sel", "lit", "mark") for text in TEXTS),
    *((text, back) for back in ("code", "sel", "lit", "goodback", "badback") for text in CODE),
    *((text, back) for back in ("badback", "goodback", "warnback") for text in ("ink", "quiet", "link")),
    ("good", "goodback"), ("bad", "badback"), ("warn", "warnback"), ("ink", "line"), ("quiet", "line"),
]  # fmt: skip


@pytest.mark.parametrize("dark", [False, True])
def test_every_text_can_be_read_on_what_is_behind_it(*, dark: bool) -> None:
    light, night = re.findall(r":root\{(.*?)\}", STYLE.read_text("utf-8"), re.DOTALL)
    colours = _colours(light) | (_colours(night) if dark else {})
    found = {pair: pages.contrast(colours[pair[0]], colours[pair[1]]) for pair in PAIRS}
    assert not {pair: round(value, 2) for pair, value in found.items() if value < 4.5}


# -- kernels


def _tiles(name: str, recording: Recording) -> dict[str, Tile]:
    """What the kernel's own view says in figures."""
    view = {each.name: each for each in VIEWS}["kernel"]
    documents = view.documents(recording, Selection(for_page=True))
    blocks = next(d.blocks for k, d in zip(recording.kernels, documents, strict=False) if k.name == name)
    return {tile.label: tile for block in blocks if isinstance(block, Tiles) for tile in block.tiles}


def test_a_librarys_kernel_computes_what_it_is_called_for() -> None:
    (table,) = pages.data(pages.page("gpt"))["kernels"]
    names = [cell for row in pages.rows(table) if (cell := row[0])[0] == "extern_kernels.mm"]
    assert names
    assert {cell[3] for cell in names} == {"mm"}


def test_a_kernels_figures_are_those_of_the_profile() -> None:
    recording, costs = pages.recording("gpt"), Costs.of(pages.recording("gpt"))
    found = _tiles("extern_kernels.mm", recording)
    lineages = [one for one in Provenance.of(recording).lineages if one.kernel.name == "extern_kernels.mm"]
    assert found["time a call"].value == Figure(costs.microseconds(lineages), Kind.MICROSECONDS)
    assert found["multiplies"].value == Figure(costs.flops(lineages), Kind.FLOPS)
    assert found["bound by"].value in {"memory", "compute", "launch", "neither"}
    assert " % of " in found["FLOP/s"].note


def test_times_that_are_not_usable_are_no_figures() -> None:
    recording = pages.recording("gpt")
    (profile,) = recording.profiles
    noisy = replace(recording, profiles=(replace(profile, spread=profile.microseconds),))
    assert set(_tiles("extern_kernels.mm", noisy)) == {"launches", "moves", "multiplies"}


def test_without_a_profile_there_are_no_times() -> None:
    recording = replace(pages.recording("gpt"), profiles=())
    assert set(_tiles("extern_kernels.mm", recording)) == {"launches", "moves", "multiplies"}


def test_a_kernel_has_what_autotuning_tried_for_it() -> None:
    data = pages.data(pages.page("tuned"))
    tried = [one for one in data["kernel"] if "choices, " in one["html"]]
    assert tried
    listed = [block["columns"] for block in data["autotune"][1:]]
    assert all(any(block["columns"] in listed for block in one["tables"]) for one in tried)


@pytest.mark.browser
@pytest.mark.parametrize("width", [1180, 1400])
def test_no_kernel_is_cut_off(open_page: Any, width: int) -> None:
    page = open_page("gpt", "#/kernels", width)
    assert page.run("document.querySelector('.data').offsetWidth <= document.querySelector('.scroll').clientWidth")


@pytest.mark.browser
def test_kernels_are_found_and_sorted_by_what_they_compute(open_page: Any) -> None:
    page = open_page("gpt", "#/kernels")
    before = page.texts("tbody td:first-child .beneath")
    page.run("document.querySelector('th button.beneath').click()")
    shown = page.texts("tbody td:first-child .beneath")
    assert shown != before
    starts = [told[0] for told in shown if told[0].isalpha()]
    assert starts == sorted(starts)
    page.click(".tools input")
    page.type("native_layer_norm")
    page.wait("document.querySelector('.tools output').textContent")
    assert all("layer_norm" in told for told in page.texts("tbody td:first-child"))


# -- graphs


@pytest.mark.browser
def test_stages_stand_in_two_rows_at_most(open_page: Any) -> None:
    page = open_page("gpt", "#/graphs/0_0", 1180)
    tops = page.run("[...new Set([...document.querySelectorAll('.tabs li')].map((one) => one.offsetTop))].length")
    assert tops <= 2
    assert page.texts(".tabs a")[:4] == ["Dynamo", "joint", "forward", "backward"]
    assert "kernels over the post-grad graph of the backward" in page.run(
        "[...document.querySelectorAll('.tabs a')].map((one) => one.getAttribute('aria-label'))"
    )


@pytest.mark.browser
def test_another_stage_shows_the_module_around_the_place(open_page: Any) -> None:
    page = open_page("gpt", "#/graphs/0_0/forward/net.norm_1")
    to = "[...document.querySelectorAll('.tabs a')].find((one) => one.title === '{}').hash"
    assert page.run(to.format("post-grad graph")) == "#/graphs/0_0/post_grad/net.norm_1"
    assert page.run(to.format("output code, forward")).endswith("code-forward/net.norm_1")  # for the way back
    levels = {
        one["key"]: {level[0] for level in one["levels"]}
        for one in pages.data(pages.page("gpt"))["graph"][0]["stages"]
        if one.get("levels")
    }
    assert "net.norm_1" not in levels["dynamo"]
    assert page.run(to.format("Dynamo graph")) == "#/graphs/0_0/dynamo" + ("/net" if "net" in levels["dynamo"] else "")


@pytest.mark.browser
def test_graphs_begin_with_functions_and_their_breaks(open_page: Any) -> None:
    page = open_page("broken", "#/graphs")
    page.wait("document.querySelector('.shot svg')")
    cuts = page.texts(".pieces .cut a")
    assert cuts
    assert set(cuts) == {"break"}
    assert page.run("document.querySelector('.pieces .cut a').hash").startswith("#/breaks/")
    assert page.run("[...document.querySelectorAll('.shot h2 a')][0].hash").endswith("/frame")
    assert not page.run(
        "[...document.querySelectorAll('.thumb a')].length && !document.querySelector('.thumb [inert]')"
    )


# -- source


@pytest.mark.browser
def test_a_file_opens_at_its_first_marked_line(open_page: Any) -> None:
    data = pages.data(pages.page("gpt"))
    file = data["file"][0]
    page = open_page("gpt", f"#/source/{file['name']}")
    page.wait("document.querySelector('.row.sel')")
    assert page.run("document.querySelector('.row.sel').dataset.line") == min(file["lines"], key=int)
    page.wait(
        "(({top, bottom}) => top > 0 && bottom < innerHeight)(document.querySelector('.row.sel').getBoundingClientRect())"
    )


@pytest.mark.browser
def test_the_end_of_a_long_line_is_reached(open_page: Any) -> None:
    page = open_page("gpt", "#/source/models.py:22", 1180)
    page.wait("document.querySelector('.row.sel')")
    end = "document.querySelector('.row.sel .src').getBoundingClientRect().right"
    edge = "document.querySelector('.text').getBoundingClientRect().right"
    assert page.run(f"{end} > {edge}")
    page.wait(f"(document.querySelector('.text').scrollLeft = 1e6, {end} <= {edge})")  # once its block is laid out
    assert page.run("document.querySelector('.row.sel .no').getBoundingClientRect().left >= "
                    "document.querySelector('.text').getBoundingClientRect().left")  # fmt: skip


def test_a_lines_kernels_come_by_time() -> None:
    file = pages.data(pages.page("gpt"))["file"][0]
    listed = [[one[4] for one in line["kernels"]] for line in file["lines"].values()]
    assert max(len(times) for times in listed) > 4
    for times in listed:
        took = [_in_microseconds(told) for told in times]
        assert took == sorted(took, reverse=True)


def _in_microseconds(told: str) -> float:
    if not told:
        return 0.0
    figure, unit = told.split()
    return float(figure) * {"µs": 1, "ms": 1000}[unit]


@pytest.mark.browser
def test_a_line_and_a_kernel_lead_to_their_nodes(open_page: Any) -> None:
    page = open_page("gpt", "#/source/models.py:24")
    page.wait("document.querySelector('.nodes a[title=\"AOT backward graph\"]')")
    page.wait("document.querySelector('.hits .sub a[href*=\"find=\"]')")
    kernel = page.run("document.querySelector('.hits .sub a[href*=\"find=\"]').hash")
    page.run("document.querySelector('.nodes a[title=\"AOT backward graph\"]').click()")
    page.wait("document.querySelector('.canvas .near')")
    titles = page.run("[...document.querySelectorAll('.canvas .near title')].map((one) => one.textContent)")
    assert titles
    assert all("models.py:24 " in told for told in titles)
    page.go(kernel)
    page.wait("document.querySelector('.canvas .near')")
    name = page.run("document.querySelector('.tools input').value")
    assert page.run("document.querySelector('.canvas .near title').textContent").startswith(f"kernel {name}\n")


@pytest.mark.browser
def test_a_name_that_ends_in_a_number_is_not_found_in_a_longer_one(open_page: Any) -> None:
    page = open_page("gpt", "#/graphs/0_0/forward?find=models.py%3A2")
    assert page.texts(".tools [role=status]") == ["not in this picture"]


# -- narrow, and on paper


@pytest.mark.browser
@pytest.mark.parametrize("name", ["gpt", "broken"])
def test_on_a_phone_only_boxes_scroll_sideways(open_page: Any, name: str) -> None:
    page = open_page(name, "#/overview", 390)
    views = page.run("[...document.querySelectorAll('.menu a')].map((one) => one.hash)")
    for view in [*views[1:], *views[:1]]:
        page.go(view)
        page.wait("document.querySelector('main > .view.on h1')")
        assert page.run("document.documentElement.scrollWidth <= innerWidth"), view


@pytest.mark.browser
def test_on_paper_code_stands_below_the_picture(open_page: Any) -> None:
    page = open_page("gpt", "#/graphs/0_0/forward", 800)
    page.wait("document.querySelector('.listing')")
    page.ask("Emulation.setEmulatedMedia", media="print")
    try:
        below = "document.querySelector('.listing').getBoundingClientRect().top"
        assert page.run(f"document.querySelector('.canvas svg').getBoundingClientRect().bottom <= {below}")
        page.go("#/kernels")
        assert page.run("document.documentElement.scrollWidth <= innerWidth")
    finally:
        page.ask("Emulation.setEmulatedMedia", media="")


def test_an_empty_recording_says_what_to_do() -> None:
    html = report_page(Recording())
    assert "What to do first" in html
    assert 'class="do"' in html
