"""`compiler-lens graph` and `lens.graph`, with and without Graphviz, and what they say when something is not there."""

from __future__ import annotations

import os
import stat
import sys
import types
import xml.etree.ElementTree as ET
from dataclasses import replace

import made
import pytest

import compiler_lens
from compiler_lens import UsageError, draw
from compiler_lens.cli import main
from compiler_lens.render.picture import graphviz

TRIG = str(made.DATA / "trig.clens.gz")
GPT = str(made.GPU / "gpt-default-cold.clens.gz")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    (tmp_path / "bin").mkdir()


def program(tmp_path, text):
    """A `dot` of this text on the PATH."""
    path = tmp_path / "bin" / "dot"
    path.write_text(f"#!{sys.executable}\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def said(capsys, *args):
    status = main(["graph", *args])
    return (status, *capsys.readouterr())


def test_it_writes_a_file_and_says_so(tmp_path, capsys):
    assert said(capsys, TRIG) == (0, "dynamo-0_0.svg: Dynamo graph [0/0] · identity\n", "")
    ET.parse(tmp_path / "dynamo-0_0.svg")


@pytest.mark.parametrize(
    "stage", ["dynamo", "joint", "forward", "backward", "post_grad", "post-grad", "Kernels", "training", "frame"]
)
def test_every_stage(tmp_path, capsys, stage):
    assert said(capsys, TRIG, "0/0", "--stage", stage, "-o", "x.svg")[0] == 0
    ET.parse(tmp_path / "x.svg")


def test_dot(tmp_path, capsys):
    assert said(capsys, GPT, "--stage", "forward", "--module", "qkv", "-o", "q.dot")[0] == 0
    assert (tmp_path / "q.dot").read_text().startswith("digraph")


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((TRIG, "7/0"), "no compilation '7/0' in this recording: it has 0/0"),
        ((TRIG, "--stage", "inference"), "no 'inference' graph"),
        ((TRIG, "--stage", "kernls"), "Did you mean kernels?"),
        ((GPT, "--module", "qvk"), "Did you mean qkv?"),
        ((TRIG, "--module", "a"), "no module 'a' in this graph: its nodes tell of none"),
        ((TRIG, "--stage", "training", "--module", "a"), "--module goes with one graph"),
        ((TRIG, "--stage", "training", "-o", "x.dot"), "no DOT of forward and backward"),
        ((TRIG, "--depth", "-1"), "depth -1"),
        ((TRIG, "-o", "x.jpg"), "-o x.jpg: the name of a picture ends in .svg, .dot, .png"),
        ((TRIG, "-o", "no/such/folder/x.svg"), "cannot write no/such/folder/x.svg: No such file or directory"),
        (("nothing.clens",), "nothing.clens"),
    ],
)
def test_what_is_not_there_is_said_in_one_line(capsys, args, told):
    status, out, err = said(capsys, *args)
    assert (status != 0, out) == (True, "")
    assert told in err
    assert err.startswith("compiler-lens: ")
    assert err.count("\n") == 1


def test_a_recording_without_graphs():
    with pytest.raises(UsageError, match="no graph in this recording"):
        draw(compiler_lens.Recording())


def test_no_png_without_a_program(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    status, out, err = said(capsys, TRIG, "-o", "x.png")
    assert (status != 0, out) == (True, "")
    assert "no PNG: that needs pip install cairosvg, or Graphviz" in err
    assert not (tmp_path / "x.png").exists()


def test_a_png_is_no_larger_than_cairo_can_hold(tmp_path, monkeypatch):
    """Its limit is 32,767 pixels on a side; beyond that it raises an error of its own."""
    from compiler_lens.views.picture.drawing import Drawing

    asked = []
    fake = types.SimpleNamespace(svg2png=lambda bytestring, scale: asked.append(scale) or b"png")
    monkeypatch.setitem(sys.modules, "cairosvg", fake)
    for width, height in ((300, 400), (300, 40_000), (30_000, 30_000)):
        Drawing("t", f'<svg width="{width}" height="{height}">', "x").save(tmp_path / "x.png")
        assert max(width, height) * asked[-1] < 32_767
        assert width * height * asked[-1] ** 2 < 1.1e8
    assert asked[0] == 2


def test_more_depth_than_there_is_room_for_is_said(tmp_path, capsys):
    recording = compiler_lens.Recording(graphs=(made.graph_of(made.wild(6_000)),))
    assert "; nothing opened, with more it could not be read<" in draw(recording, "dynamo", depth=99).svg
    assert "opened" not in draw(recording, "dynamo").svg
    ops = [
        replace(node, target=f"t{k}", module=f"{node.module}.s{k // 6}")
        for k, node in enumerate(made.blocks(4, width=200))
    ]
    deep = compiler_lens.Recording(graphs=(made.graph_of(ops),))
    assert "; opened 1 level deep, with more" in draw(deep, "dynamo", depth=99).svg
    assert "opened" not in draw(compiler_lens.load(GPT), "dynamo", depth=99).svg


PLAIN = """
import sys
text = sys.stdin.read()
names = [line.split()[0] for line in text.splitlines() if line.startswith("n") and "[shape" in line]
arrows = [line.split() for line in text.splitlines() if "->" in line]
print("graph 1 4", len(names))
for k, name in enumerate(names):
    print("node", name, 2, len(names) - k - 0.5, 1, 0.5, '""', "solid box black lightgrey")
for tail, _, head, *_ in arrows:
    print("edge", tail, head, 4, 2, 3, 2, 2.9, 2, 2.5, 2, 2, "solid black")
print("stop")
"""


def test_graphviz_places_the_boxes_where_it_is_there(tmp_path):
    recording = compiler_lens.load(TRIG)
    own = draw(recording, "dynamo").svg
    theirs = draw(recording, "dynamo", graphviz=program(tmp_path, PLAIN)).svg
    ET.fromstring(theirs)
    assert theirs != own
    assert theirs.count("<rect") == own.count("<rect")


@pytest.mark.parametrize(
    "text",
    [
        "raise SystemExit(1)",
        "print('graph 1 2')",
        "print('nonsense')",
        "print('graph 1 x y')",
        "import sys; sys.stdout.buffer.write(b'\\xff\\xfe')",
        "",
        'print("unclosed \\"quote")',
        "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    ],
)
def test_a_failing_graphviz_costs_nothing(tmp_path, text):
    recording = compiler_lens.load(TRIG)
    assert draw(recording, "dynamo", graphviz=program(tmp_path, text)).svg == draw(recording, "dynamo").svg


def test_graphviz_is_not_asked_for_what_would_not_fit_a_screen(tmp_path):
    recording = compiler_lens.load(GPT)
    tall = program(tmp_path, PLAIN.replace("1 4", "1 9"))
    assert draw(recording, "backward", depth=0, graphviz=tall).svg == draw(recording, "backward", depth=0).svg


def test_a_hanging_graphviz_is_given_up(tmp_path):
    dot = program(tmp_path, "import time; time.sleep(600)")
    assert graphviz.place_with(dot, [(10, 10)], [], seconds=0.3) is None


def test_a_graphviz_that_leaves_a_child_behind_is_given_up(tmp_path):
    text = "import subprocess, sys, time; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(30)']); time.sleep(600)"
    assert graphviz.place_with(program(tmp_path, text), [(10, 10)], [], seconds=1.0) is None


def test_no_graphviz_at_all():
    assert graphviz.place_with("/no/such/dot", [(10, 10)], []) is None


def test_a_loaded_recording_is_drawn_without_torch():
    import subprocess

    code = f"import compiler_lens, sys; compiler_lens.draw(compiler_lens.load({TRIG!r})).dot; assert 'torch' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
