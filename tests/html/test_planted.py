"""What somebody planted in a recording, or in a page's address, is text in Chromium: nothing runs, nothing is asked for."""

from __future__ import annotations

import re
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pages
import pytest

import compiler_lens
from compiler_lens.recording.model import Recording
from compiler_lens.render.page.diff import diff_page
from compiler_lens.render.page.page import report_page
from compiler_lens.render.picture.drawing import draw

sys.path.insert(0, str(pages.TESTS))

from planted import STRUCTURE, filled, planted

pytestmark = pytest.mark.browser

# An element or an attribute that a page would have of it has `planted` in its name or its value.
EVIL = (
    "</script><script>planted=1</script><!--<img src=planted.png onerror=planted=1><svg onload=planted=1>"
    '"planted onclick=\'planted=1\' style="background:url(planted.png)"}body{display:none;background:url(planted.png)}'
    "]]></style></title></text><planted>&quot;&lt;{{7*7}}{% x %}`${planted=1}`\u2028\u2029\x00\u202e\ud800"
)
SCHEMES = (
    "javascript:planted=1//",
    "data:text/html,<script>planted=1</script>",
    "vbscript:planted=1",
    "//planted.example/",
)


def plant(field: str, text: str) -> str:
    if text and field in STRUCTURE:
        return text
    scheme = SCHEMES[len(text) % len(SCHEMES)]  # so that what has one name has one still
    if field == "SourceFile.text":
        return f"{text}\n{scheme}{EVIL}\n"
    return f"{scheme}{text}{EVIL}"


SHOWN = {
    **{name: (lambda name=name: pages.recording(name)) for name in ("gpt", "broken")},
    "every field": lambda: filled(Recording, lambda field, _: "torch" if field in STRUCTURE else field),
}


@cache
def recording(name: str) -> Recording:
    return planted(SHOWN[name](), plant)


@cache
def drawing(name: str) -> str:
    return draw(recording(name), "forward" if name == "gpt" else "").svg


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages and pictures as files."""
    folder = tmp_path_factory.mktemp("planted")
    made = {f"{name}.html": report_page(recording(name), path=EVIL) for name in SHOWN}
    clean = pages.recording("gpt")
    both = compiler_lens.diff(planted(pages.recording("tuned"), plant), recording("gpt"))
    made |= {"both.html": diff_page(both), "clean.html": report_page(clean), "picture.svg": drawing("gpt")}
    made["clean-both.html"] = diff_page(compiler_lens.diff(pages.recording("tuned"), clean))
    for name, text in made.items():
        (folder / name.replace(" ", "_")).write_text(text, encoding="utf-8")
    return {name.partition(".")[0]: (folder / name.replace(" ", "_")).as_uri() for name in made}


# The names of elements and of their attributes; and what leads elsewhere.
_LOOKED = """(() => {
  const all = [...document.querySelectorAll("*")];
  const names = new Set(all.flatMap((one) => [one.localName, ...[...one.attributes].map((each) => `${one.localName}@${each.name}`)]));
  const links = all.flatMap((one) => [...one.attributes]).filter((each) => /href|src|action|xlink/.test(each.name)).map((each) => each.value);
  return [[...names], links, typeof planted, document.title];
})()"""


def looked(page: Any, seen: set[str]) -> None:
    names, links, ran, _ = page.run(_LOOKED)
    seen |= set(names)
    assert ran == "undefined"
    assert not [name for name in names if "planted" in name or "@on" in name]
    assert not [to for to in links if not to.startswith(("#", "https://meta-pytorch.github.io/"))]


@pytest.mark.parametrize("name", ["gpt", "broken", "every field", "both"])
def test_no_field_of_a_recording_is_more_than_text(name: str, open_page: Any, addresses: dict[str, str]) -> None:
    page, seen = open_page(name), set[str]()
    data = pages.data(Path(addresses[name].removeprefix("file://")).read_text("utf-8"))
    menu = page.run("[...document.querySelectorAll('.menu a')].map((a) => a.getAttribute('href'))")
    below = [f"#/kernel/{one['key']}" for one in data.get("kernel", ())[:6]]
    below += [f"#/change/{one['key']}" for one in data.get("change", ())[:3]]
    below += [f"#/graphs/{one['key']}/{stage['key']}" for one in data.get("graph", ())[:3] for stage in one["stages"]]
    below += [f"#/source/{one['name']}" for one in data.get("file", ())[:2]]
    assert menu
    for to in [*menu, *below]:
        page.go(to)
        assert "could not be shown" not in page.texts("main .view.on")[0], to
        page.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
        page.run("new Promise((done) => setTimeout(done, 60))")
        looked(page, seen)
    assert seen & {"section", "table", "pre"}
    assert not seen & FOREIGN
    assert page.run("[...document.querySelectorAll('script:not([type]), style')].length") == 2  # ours


FOREIGN = {
    "img", "iframe", "frame", "object", "embed", "link", "base", "form", "video", "audio", "template", "math", "use", "image",
    "animate", "set", "foreignObject", "planted", "handler", "portal",
}  # fmt: skip


ODD = [
    "constructor", "__proto__", "__proto__/x", "toString", "hasOwnProperty", "valueOf/x", "__defineGetter__/a/b", "isPrototypeOf",
    "kernel/constructor", "kernel/__proto__", "kernel/%E0%A4%A", "kernel/%", "kernel/0_0%2Fx%0A", "graphs/constructor", "graphs/__proto__/x",
    "graphs/0_0/constructor", "graphs/0_0/forward/__proto__", "graphs/0_0/forward/%", "graphs/0_0/forward?find=%E0%A4%A",
    "graphs/0_0/forward?find=(((", "source/%0A", "source/constructor", "source/__proto__:1", "source/models.py:99999999999999999999",
    "source/models.py:0", "breaks/constructor", "breaks/__proto__", "change/constructor", "change/%", "drawn", "main", "%", "%00", "/", "//x",
    "javascript:planted=1", "<img src=x onerror=planted=1>", "overview/<img src=x onerror=planted=1>", "graphs/<svg onload=planted=1>",
    "kernel/'\"><img src=x onerror=planted=1>", "\u2028", "x" * 100_000,
]  # fmt: skip


@pytest.mark.parametrize("name", ["clean", "clean-both", "gpt"])
def test_no_address_does_anything(name: str, open_page: Any) -> None:
    page = open_page(name)
    for to in ODD:
        page.go("#/overview")
        page.go(f"#/{to}")
        assert page.run("document.querySelectorAll('main > .view.on').length") == 1, to
        shown = page.texts("main .view.on")[0]
        assert shown, to
        assert "could not be shown" not in shown, to
        assert page.run("typeof planted") == "undefined"
        assert page.run("document.querySelectorAll('img').length") == 0
        if re.match(r"[a-z_]+(/x)?$", to, re.IGNORECASE) and to != "overview":
            assert page.run("document.querySelector('main .view.on').id") == "view-overview", to


def test_a_picture_by_itself_runs_nothing(chromium: Any, addresses: dict[str, str]) -> None:
    chromium.requests.clear()
    chromium.errors.clear()
    chromium.ask("Page.navigate", url=addresses["picture"])
    chromium.wait("document.readyState === 'complete' && document.documentElement.localName === 'svg'")
    names, links, ran, _ = chromium.run(_LOOKED)
    assert ran == "undefined"
    assert {name for name in names if "@" not in name} <= {
        "svg",
        "style",
        "rect",
        "path",
        "text",
        "tspan",
        "title",
        "g",
        "a",
    }
    assert not links
    assert not [name for name in names if "@on" in name or "@style" in name]
    assert not chromium.errors
    assert [url for url in chromium.requests if url != "about:blank"] == [addresses["picture"]]


def test_dot_holds_text_and_no_other_attribute() -> None:
    import pydot

    drawn = draw(recording("gpt"), "forward")
    (read,) = pydot.graph_from_dot_data(drawn.dot)
    made = drawn.pydot()
    (usual,) = pydot.graph_from_dot_data(draw(pages.recording("gpt"), "forward").dot)

    def attributes(graph: pydot.Dot) -> set[str]:
        items = [*graph.get_nodes(), *graph.get_edges(), graph]
        return {name for item in items for name in item.get_attributes()}

    assert attributes(read) == attributes(usual)
    named = {node.get_name() for node in read.get_nodes()}
    assert {node.get_name() for node in made.get_nodes()} == named
    assert len(read.get_edges()) == len(made.get_edges())
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e\u2028]", drawn.dot)
