"""The page in a real Chromium: every view, deep links, clicks, keys; nothing is asked for, nothing goes wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pages
import pytest

from compiler_lens.recording.model import Direction
from compiler_lens.render.page.page import report_page
from compiler_lens.views.text import clean

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages as files."""
    folder = tmp_path_factory.mktemp("pages")
    made = {name: pages.page(name) for name in pages.FILES} | {
        "hostile": report_page(pages.hostile(pages.recording("gpt"))),
        "hostile-broken": report_page(pages.hostile(pages.recording("broken"))),
        "redacted": pages.page("gpt", redact=True),
        "long": report_page(pages.longer(pages.recording("broken"), 1_000)),
    }
    for name, html in made.items():
        (folder / f"{name}.html").write_text(html, encoding="utf-8")
    return {name: (folder / f"{name}.html").as_uri() for name in made}


@pytest.mark.parametrize("name", [*sorted(pages.FILES), "hostile", "hostile-broken", "redacted"])
def test_every_view_shows_something(name: str, open_page: Any) -> None:
    page = open_page(name)
    menu = page.run("[...document.querySelectorAll('.menu a')].map((a) => a.getAttribute('href'))")
    assert "#/overview" in menu
    for to in menu[1:]:
        page.go(to)
        assert page.texts("main h1"), to
        assert page.texts("main .view.on")[0].strip(), to
        assert "could not be shown" not in page.texts("main .view.on")[0]
        assert page.run("document.querySelectorAll('main > .view.on').length") == 1
        assert page.run("document.querySelector('.menu [aria-current]').getAttribute('href')") == to
    assert page.run("typeof hacked") == "undefined"
    assert page.run("document.querySelectorAll('img, iframe, script[src]').length") == 0


@pytest.mark.parametrize("name", ["gpt", "odd", "hostile"])
def test_every_kernel_and_graph_shows_itself(name: str, open_page: Any, addresses: dict[str, str]) -> None:
    page = open_page(name)
    data = pages.data(Path(addresses[name].removeprefix("file://")).read_text("utf-8"))
    for kernel in data["kernel"][:12]:
        page.go(f"#/kernel/{kernel['key']}")
        assert page.texts("main h1") == [kernel["name"]]
    for each in data["graph"]:
        for stage in each["stages"]:
            page.go(f"#/graphs/{each['key']}/{stage['key']}")
            assert page.run("document.querySelector('.tabs [aria-current]').title") == stage["name"]
            assert page.texts(".listing") or stage.get("levels")
            if stage["code"]:
                page.wait("document.querySelector('.listing')")
            if stage.get("levels"):
                assert page.run("document.querySelectorAll('.canvas svg.clg').length") == 1
                page.wait(
                    "document.querySelector('.canvas').clientHeight > 60 && document.querySelector('.canvas svg').style.transform"
                )
    assert page.run("typeof hacked") == "undefined"


def test_a_long_file_is_whole_soon_and_its_last_line_at_once(open_page: Any) -> None:
    page = open_page(
        "long", "#/source/broken.py:1007"
    )  # the forward that broken.py begins with, a thousand lines below
    assert page.run("document.querySelector('.row.sel').dataset.line") == "1007"
    page.wait("document.querySelectorAll('.row').length > 1000")
    numbers = page.run("[...document.querySelectorAll('.row')].map((row) => Number(row.dataset.line))")
    assert numbers == list(range(1, len(numbers) + 1))
    page.wait(
        "(({top, bottom}) => top > 0 && bottom < innerHeight)(document.querySelector('.row.sel').getBoundingClientRect())"
    )


def test_from_a_line_to_its_kernels_and_back(open_page: Any) -> None:
    page = open_page("gpt", "#/source/models.py:24")
    page.wait("document.querySelector('.hits li')")
    page.click('[data-line="25"] .src')
    page.wait("document.querySelector('.row.sel').dataset.line === '25'")
    assert page.run("location.hash") == "#/source/models.py:25"
    heads = [head for head in page.texts(".panel h2") if head.startswith(("forward", "backward"))]
    assert len(heads) == 2
    page.click('.hits li[data-kernel="0_0/triton_per_fused__to_copy_add_native_layer_norm_view_5"] button')
    lit = page.run("[...document.querySelectorAll('.row.lit')].map((row) => row.dataset.line)")
    assert lit == ["24", "25"]
    page.press("Escape")
    assert page.run("document.querySelectorAll('.row.lit').length") == 0
    kernel = '.hits li[data-kernel="0_0/triton_per_fused__to_copy_add_native_layer_norm_view_5"] a'
    page.follow(kernel, "document.querySelector('.tree')")
    assert sorted(page.texts(".tree a")) == ["models.py:24", "models.py:25"]
    page.follow('.tree a[href$=":24"]', "document.querySelector('.row.sel')")
    assert page.run("location.hash") == "#/source/models.py:24"


def test_the_back_button_goes_back(open_page: Any) -> None:
    page = open_page("gpt")
    # With the mouse: Chromium may put a view in the place of another that nobody acted upon.
    page.click('.menu a[href="#/kernels"]')
    page.wait("document.querySelector('main > .view.on h1')?.textContent === 'Kernels'")
    shown = "document.querySelector('.drawn.on h1')?.textContent === 'triton_poi_fused_gelu_view_8'"
    page.follow('.data tbody a[href$="/triton_poi_fused_gelu_view_8"]', shown)
    page.back()
    page.wait("document.querySelector('main > .view.on h1')?.textContent === 'Kernels'")
    page.back()
    page.wait("document.querySelector('#view-overview.on')")


def test_a_table_is_sorted_and_filtered(open_page: Any) -> None:
    page = open_page("gpt", "#/kernels")
    times = "[...document.querySelectorAll('.data tbody tr')].map((row) => row.cells[{}].textContent)"
    heads = page.texts(".data thead th")
    ops = heads.index("ops")
    page.click(f".data thead th:nth-child({ops + 1}) button")
    counts = [int(count.replace(",", "")) for count in page.run(times.format(ops))]
    assert counts == sorted(counts, reverse=True)
    assert page.run("document.querySelector('th[aria-sort]').getAttribute('aria-sort')") == "descending"
    page.run("document.querySelector('.tools input').focus()")
    page.type("gelu")
    names = page.run(times.format(0))
    assert 0 < len(names) < len(counts)
    page.run(
        "{const s = document.querySelector('.tools select'); s.value = 'backward'; s.dispatchEvent(new Event('change'))}"
    )
    assert set(page.run(times.format(heads.index("pass")))) == {"backward"}


def test_a_long_listing_is_whole_and_highlighted_to_its_end(open_page: Any) -> None:
    page = open_page("tuned", "#/graphs/0_0/code-backward")
    code = next(code.code for code in pages.recording("tuned").output_codes if code.direction is Direction.BACKWARD)
    assert code.count("\n") > 400
    assert page.run("document.querySelector('.listing').textContent") == clean(code)
    page.wait("[...document.querySelectorAll('.listing .part')].every((part) => part.querySelector('.hk, .hs'))")
    assert page.run("document.querySelector('.listing').textContent") == clean(code)
    strings = page.run("[...document.querySelectorAll('.listing .hs')].map((one) => one.textContent).join('')")
    assert "tl.load" in strings  # kernels stand in strings of many lines, which go on from block to block
    assert page.run("[...document.querySelectorAll('.listing .part')].every((part) => !/tl\\.load/.test("
                    "[...part.childNodes].filter((one) => one.nodeType === 3).map((one) => one.data).join('')))")  # fmt: skip


def test_search_by_keys(open_page: Any) -> None:
    page = open_page("gpt")
    page.press("/")
    page.type("gelu")
    page.wait("document.querySelectorAll('#found li').length > 1")
    page.press("ArrowDown")
    wanted = page.texts("#found [aria-selected=true] b")[0]
    page.press("Enter")
    page.wait("document.querySelector('.drawn.on h1')")
    assert page.texts("main h1") == [wanted]
    assert page.run("document.getElementById('found').hidden")


def test_arrows_go_from_line_to_line(open_page: Any) -> None:
    page = open_page("gpt", "#/source/models.py:22")
    page.wait("document.querySelector('.row.sel')")
    page.press("ArrowDown")
    page.wait("document.querySelector('.row.sel').dataset.line === '23'")
    page.press("ArrowUp")
    page.wait("location.hash === '#/source/models.py:22'")


def test_a_card_has_an_address(open_page: Any) -> None:
    page = open_page("broken", "#/breaks/1")
    assert page.run("document.querySelector('.card.on').id") == "breaks-1"


def test_a_box_opens_and_the_stage_keeps_the_place(open_page: Any) -> None:
    page = open_page("gpt", "#/graphs/0_0/forward")
    page.run(
        "document.querySelector('.canvas svg a[href*=\"norm_1\"]').dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true}))"
    )
    page.wait("location.hash.endsWith('net.norm_1')")
    page.wait("document.querySelectorAll('.setting a').length > 1")
    page.run("[...document.querySelectorAll('.tabs a')].find((a) => a.title === 'post-grad graph').click()")
    page.wait("location.hash === '#/graphs/0_0/post_grad/net.norm_1'")


def test_a_picture_is_moved_zoomed_and_searched(open_page: Any) -> None:
    page = open_page("gpt", "#/graphs/0_0/forward")
    page.wait("document.querySelector('.canvas svg').style.transform")
    before = page.run("document.querySelector('.canvas svg').style.transform")
    page.click(".canvas .keys button")
    assert page.run("document.querySelector('.canvas svg').style.transform") != before
    page.click(".tools input")
    page.type("softmax of nothing")
    assert page.run("document.querySelectorAll('.canvas .dim').length > 3")


def test_dark_and_light_differ_and_both_can_be_read(open_page: Any) -> None:
    page = open_page("broken")
    script = """(() => { const of = (e) => { const [r, g, b] = getComputedStyle(e).color.match(/[\\d.]+/g).map(Number); return [r, g, b]; };
      const back = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
      return [back, ...['h1', '.quiet', '.warn', '.bad', 'a.place', '.do', '.what'].map((s) => document.querySelector(s)).filter(Boolean).map(of)]; })()"""
    for dark in (False, True):
        page.dark(dark=dark)
        back, *inks = page.run(script)
        assert (sum(back) < 150) == dark
        for ink in inks:
            assert pages.contrast(ink, back) >= 4.5
    page.dark(dark=False)


def test_without_scripts_the_report_stands(open_page: Any) -> None:
    page = open_page("gpt")
    with page.without_scripts():
        assert page.run("getComputedStyle(document.getElementById('view-frames')).display") == "block"


def test_everything_has_a_name_for_a_screen_reader(open_page: Any) -> None:
    page = open_page("gpt")
    for view in ("overview", "kernels", "source/models.py:24", "graphs/0_0/forward", "times"):
        page.go(f"#/{view}")
        tree = page.ask("Accessibility.getFullAXTree")["nodes"]
        named = {"link", "button", "searchbox", "combobox", "textbox", "table", "navigation", "region"}
        for node in tree:
            role = node.get("role", {}).get("value")
            if role in named and not node.get("ignored"):
                told = node.get("name", {}).get("value")
                assert told or role == "table", (view, node)
