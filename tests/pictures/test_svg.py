"""What a picture looks like as SVG and as DOT: gold files, well formed, whatever the names are."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import made
import pytest

from compiler_lens import draw
from compiler_lens.recording.model import Recording, SourceLine, TensorSpec
from compiler_lens.render.picture.style import TEXT, TITLE, text_width

GOLD = Path(__file__).parent / "gold"
SVG = "{http://www.w3.org/2000/svg}"
PICTURES = {
    "trig-dynamo": ("trig", "dynamo"),
    "trig-backward": ("trig", "backward"),
    "trig-training": ("trig", "training"),
    "trig-kernels": ("trig", "kernels"),
    "broken-frame": ("broken", "frame"),
    "gpt-kernels": ("gpt-default-cold", "kernels"),
    "gpt-profiled": ("gpt-default-profiled", "kernels"),
    "gpt-training": ("gpt-default-cold", "training"),
    "cond-dynamo": ("hops-kernels", "dynamo"),
    "resnet-dynamo": ("resnet-max-autotune-cold", "dynamo"),
}
HOSTILE = [
    "</script><script>alert(1)</script>",
    "\" onload='alert(1)' x=\"",
    "<img src=x onerror=alert(1)>",
    "a & b < c > d",
    "\u202egnp.exe\u2066",
    "\x1b[31mred\x1b[0m\x00\x07",
    "\ud800\ufffe\uffff",
    "]]><!--",
    "模型" * 40,
    "x" * 1_000_000,
    "",
    " \n\t ",
]


@pytest.mark.parametrize("name", PICTURES)
def test_svg_is_as_it_was(name):
    recording, stage = PICTURES[name]
    svg = draw(made.recorded(recording), stage).svg
    assert svg == (GOLD / f"{name}.svg").read_text(), "look at it; then python tests/pictures/renew.py"


@pytest.mark.parametrize("name", ["trig-dynamo", "trig-backward", "gpt-kernels", "cond-dynamo", "resnet-dynamo"])
def test_dot_is_as_it_was(name):
    recording, stage = PICTURES[name]
    assert draw(made.recorded(recording), stage).dot == (GOLD / f"{name}.dot").read_text()


@pytest.mark.parametrize("name", PICTURES)
def test_every_text_lies_in_its_box_and_on_the_page(name):
    recording, stage = PICTURES[name]
    root = ET.fromstring(draw(made.recorded(recording), stage).svg)
    page = (float(root.get("width")), float(root.get("height")))
    boxes, texts = [], []
    walk(root, 0.0, 0.0, boxes, texts)
    assert texts
    for x, y, width in texts:
        assert -0.1 <= x <= x + width <= page[0] + 0.1, (x, width)
        assert 0 <= y <= page[1]
    for number, one in enumerate(texts):
        for other in texts[:number]:
            beside = one[0] + one[2] <= other[0] + 0.1 or other[0] + other[2] <= one[0] + 0.1
            assert beside or abs(one[1] - other[1]) >= 10, (one, other)


def walk(element, x, y, boxes, texts):
    for child in element:
        moved = re.match(r"translate\(([-\d.]+) ([-\d.]+)\)", child.get("transform", ""))
        dx, dy = map(float, moved.groups()) if moved else (0.0, 0.0)
        if child.tag == f"{SVG}text" and (child.text or "").strip():
            size = TITLE if child.get("class") == "clg-t" else 15 if child.get("class") == "clg-h" else TEXT
            width = text_width(child.text, size)
            start = {"middle": width / 2, "end": width}.get(child.get("text-anchor"), 0)
            texts.append((x + float(child.get("x")) - start, y + float(child.get("y")), width))
        walk(child, x + dx, y + dy, boxes, texts)


def hostile_recording(text):
    line = (SourceLine(text, 3, text, text),)
    ops = [
        made.op(f"n{k}{text}", f"n{k - 1}{text}" if k else "x", target=f"torch.ops.{text}", module=text, source=line)
        for k in range(3)
    ]
    ops.append(made.op("end", f"n2{text}", module=f"{text}.0.y", specs=(TensorSpec(text, (text, 3)),)))
    return Recording(graphs=(made.graph_of(ops),))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_are_text(text):
    drawing = draw(hostile_recording(text), "dynamo")
    root = ET.fromstring(drawing.svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        *("svg", "title", "style", "rect", "text", "tspan", "g", "path")
    }
    assert not [name for element in root.iter() for name in element.attrib if name.startswith("on")]
    assert len(drawing.svg) < 100_000
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", drawing.svg + drawing.dot)
    drawing.svg.encode()


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_names_stay_in_their_quotes_in_dot(text):
    dot = draw(hostile_recording(text), "dynamo").dot
    assert len(dot) < 100_000
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', '""', dot)
    assert '"' not in outside.replace('""', "")
    assert "alert" not in outside


def test_the_same_bytes_every_time():
    assert (
        draw(made.recorded("gpt-default-cold"), "backward").svg
        == draw(made.recorded("gpt-default-cold"), "backward").svg
    )


def test_nothing_is_fetched():
    svg = draw(made.recorded("trig"), "training").svg.replace('xmlns="http://www.w3.org/2000/svg"', "")
    assert not re.search(r"https?:|url\(|@import|<script|<image|href", svg)


def test_boxes_link_to_where_one_says():
    from compiler_lens.facts.graphs.levels import BoxKind, levels
    from compiler_lens.render.picture.svg import to_svg
    from compiler_lens.views.picture.picture import picture
    from compiler_lens.views.picture.sheet import Panel, Sheet

    graph = made.graph_of(made.chain(2))
    known = levels(Recording(graphs=(graph,)), graph)

    def href(box):
        is_wanted = box.kind is BoxKind.OP and box.nodes[0].name == "n1"
        return f'#/node/{box.nodes[0].name}"\x00\u202e' if is_wanted else ""

    svg = to_svg(Sheet("t", parts=(Panel(picture(known)),)), href=href)
    assert re.findall(r'<a href="([^"]*)"', svg) == ["#/node/n1&quot;"]


def test_light_and_dark():
    assert "@media(prefers-color-scheme:dark)" in draw(made.recorded("trig")).svg


def test_a_break_shows_the_line_that_runs_in_python():
    root = ET.fromstring(draw(made.recorded("broken"), "frame").svg)
    told = [element.text for element in root.iter(f"{SVG}text")]
    assert [line for line in told if "broken.py:" in line] == [
        "broken.py:9 if y.sum().item() > 0:",
        'broken.py:11 print("scale", y.mean())',
        "broken.py:13 torch._dynamo.graph_break()",
    ]
    assert [line for line in told if line.startswith("graph [")] == [
        "graph [0/0]", "graph [1/0], from line 9", "graph [2/0], from line 11", "graph [3/0], from line 13",
    ]  # fmt: skip


def test_saved_tensors_go_from_the_forward_to_the_backward():
    svg = draw(made.recorded("trig"), "training").svg
    assert svg.count('<g class="clg-saved">') == 1
    assert "1 tensor · 16.0 KiB: primals_1 f32[64, 64]" in svg


def test_a_backward_that_reads_nothing_of_its_forward_has_its_title_above_it():
    svg = draw(made.recorded("broken"), "training", "1/0").svg
    assert "clg-saved" not in svg.partition("</style>")[2]
    places = {
        title: float(x)
        for x, title in re.findall(r'<text x="([\d.]+)"[^>]*class="clg-t">(forward|backward, upwards)<', svg)
    }
    assert places["forward"] == 0
    assert places["backward, upwards"] > 150


def test_opened_to_a_depth():
    recording = made.recorded("resnet-max-autotune-cold")
    closed, less, opened = (draw(recording, "inference", depth=depth).svg for depth in (0, 1, 2))
    assert closed.count("clg-frame") < less.count("clg-frame") < opened.count("clg-frame")
    assert "convolution" in opened


def test_the_manual_shows_pictures_as_they_are():
    manual = Path(__file__).parent.parent.parent / "docs"
    named = re.findall(r"\]\(pictures/(.*?)\)", (manual / "graphs.md").read_text())
    assert sorted(named) == sorted(picture.name for picture in (manual / "pictures").iterdir())
    for name in named:
        assert (manual / "pictures" / name).read_text() == (GOLD / name).read_text()


def test_boxes_without_lines_stand_below_each_other():
    alone = [made.op(f"m{k}", target="torch._C._set_grad_enabled", specs=()) for k in range(5)]
    graph = made.graph_of([*alone, *made.chain(6)])
    svg = draw(Recording(graphs=(graph,)), "dynamo").svg
    columns = {
        place for place, name in re.findall(r'x="([-\d.]+)" y="[-\d.]+" class="clg-t"[^>]*>(\w+)', svg) if "set" in name
    }
    assert len(columns) == 1
    assert svg.count('class="clg-l"') == 7  # x, five steps, the result: none between those
