"""Pictures of what a lens has just recorded. By itself: with torch loaded, every other test would take longer."""

from __future__ import annotations

import compiler_lens


def test_a_lens_draws_what_it_recorded(tmp_path, monkeypatch):
    import torch

    monkeypatch.chdir(tmp_path)
    with compiler_lens.Lens(strict=True, progress=False) as lens:
        torch.compile(lambda x: torch.sin(x) ** 2 + torch.cos(x) ** 2, backend="eager")(torch.randn(4))
    drawing = lens.graph("dynamo", "0/0")
    assert drawing._repr_svg_() == drawing.svg
    assert ">sin</text>" in drawing.svg
    assert drawing.dot.startswith("digraph")
    assert drawing.save("x.svg").read_text() == drawing.svg


def test_both_branches_of_a_cond_are_drawn():
    import torch

    def branches(x):
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))

    with compiler_lens.Lens(strict=True, progress=False) as lens:
        torch.compile(branches, backend="eager")(torch.randn(4))
    svg = lens.graph("dynamo", "0/0", depth=2).svg
    for words in (">cond · ", ">true · 1 op<", ">false · 1 op<", ">sin</text>", ">cos</text>"):
        assert words in svg
