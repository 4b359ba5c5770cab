"""`compiler-lens graph` and `lens.graph`, and what they say when something is not there."""

from __future__ import annotations

import os
import sys
import types
import xml.etree.ElementTree as ET

import made
import pytest
from msgspec.structs import replace

import compiler_lens
from compiler_lens import UsageError, draw
from compiler_lens.cli import main

TRIG = str(made.DATA / "trig.clens.gz")
GPT = str(made.GPU / "gpt-default-cold.clens.gz")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


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


def test_no_png_without_cairosvg(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cairosvg", None)
    status, out, err = said(capsys, TRIG, "-o", "x.png")
    assert (status != 0, out) == (True, "")
    assert "no PNG: that needs pip install compiler_lens[png]; an .svg opens in any browser" in err
    assert not (tmp_path / "x.png").exists()


def test_a_png_is_no_larger_than_cairo_can_hold(tmp_path, monkeypatch):
    """Its limit is 32,767 pixels on a side; beyond that it raises an error of its own."""
    from compiler_lens.render.picture.drawing import Drawing

    asked = []
    fake = types.SimpleNamespace(svg2png=lambda bytestring, scale: asked.append(scale) or b"\x89PNG" + bytes(29))
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


def test_a_loaded_recording_is_drawn_without_torch():
    import subprocess

    code = f"import compiler_lens, sys; compiler_lens.draw(compiler_lens.load({TRIG!r})).dot; assert 'torch' not in sys.modules"
    subprocess.run(
        [sys.executable, "-c", code], check=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    )
