"""One cause is one card, at the user's own line, however many records torch makes of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from compiler_lens import Lens, explain
from compiler_lens.facts.overview.source_view import source_view
from compiler_lens.render.console import page_for, view

MASK = torch.tensor([True] * 4 + [False] * 4)


class Merging(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 4)

    def merge(self, h: Tensor, rows: Tensor) -> Tensor:
        h = h.clone()
        h[MASK] = rows
        return h

    def forward(self, x: Tensor) -> Tensor:
        h = self.embed(x)
        return self.merge(h, self.embed(x[:4])).sum()


def line_of(function: Callable[..., object], words: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if words in line)


def shown(lens: Lens, name: str) -> str:
    return view(lens.recording, name, page_for(lens.recording, width=120, color=False))


@pytest.fixture
def merged() -> Lens:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(Merging(), backend="aot_eager")(torch.ones(8, 4)).backward()
    return lens


def test_what_a_backend_cannot_compile_is_one_card_at_the_line_with_that_op(merged: Lens) -> None:
    """torch tells of it at the end of the graph, twice, for each try and for each function that it then tries."""
    assert len(merged.recording.graph_breaks) > 4
    (card,) = explain(merged.recording).cards
    assert card.place is not None
    assert (card.place.line, card.place.code) == (line_of(Merging.merge, "h[MASK]"), "h[MASK] = rows")
    assert card.gb_type == "Backend compiler exception"
    assert card.remedy is not None
    assert card.remedy.name == "mask_write"
    assert card.unseen is None  # Dynamo had come to the end
    (finding, *others) = [one for one in explain(merged.recording).findings if not one.benign]
    assert finding.place == card.place
    assert not others


def test_nobody_is_asked_to_report_what_they_can_change(merged: Lens) -> None:
    screen = merged.report(color=False, width=120)
    for told in (screen, shown(merged, "breaks"), shown(merged, "findings")):
        assert "masked_scatter" in told
        assert "Report an issue" not in told


def test_lines_of_graphs_that_were_given_up_are_not_compiled(merged: Lens) -> None:
    assert "Nothing was compiled" in merged.report(color=False, width=120)
    (file,) = [file for file in source_view(merged.recording) if file.file == __file__]
    assert (file.breaks, file.compiled_lines) == (len(merged.recording.graph_breaks), 0)
    marked = [number for number, facts in file.facts.items() if facts.cards or facts.follows or facts.calls_break]
    assert marked == [line_of(Merging.merge, "h[MASK]")]


def test_of_several_lines_a_backward_fails_at_the_last_that_has_a_gradient() -> None:
    def written(h: Tensor, rows: Tensor) -> Tensor:
        h = h * 2
        h[MASK] = rows
        h[~MASK] = rows * 3
        h[MASK] = 0.0
        return h

    torch._dynamo.reset()
    with Lens(strict=True) as lens, pytest.warns(UserWarning, match=r"IndexPutBackward0[\s\S]*h\[~MASK\] = rows \* 3"):
        torch.compile(written, backend="aot_eager")(torch.ones(8, 4), torch.ones(4, 4, requires_grad=True))
    (card,) = explain(lens.recording).cards
    assert card.place is not None
    assert card.place.code == "h[~MASK] = rows * 3"  # as torch warns


def test_a_function_of_which_a_part_is_compiled_is_nowhere_entirely_eager() -> None:
    def in_a_loop(x: Tensor) -> Tensor:
        x = x + 1
        print("before")
        for _ in range(2):
            x = x * 2
            print("within")  # torch skips what resumes the function
        return x

    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(in_a_loop, backend="eager")(torch.ones(3))
    screen = " ".join(lens.report(color=False, width=120).split())
    assert "1 runs partly in eager: " in screen
    assert "the rest of 1 function runs eagerly: Failed to trace builtin operator" in screen
    first = line_of(in_a_loop, "before")
    assert f"partly eager: lines {first}-{first + 4}" in shown(lens, "frames")
    assert f"lines {first}-{first + 4}\n" in shown(lens, "eager")
    for told in (screen, shown(lens, "breaks"), shown(lens, "findings"), shown(lens, "frames")):
        assert "entirely in eager" not in told


def test_a_break_that_skips_a_frame_is_no_error_that_a_setting_hides() -> None:
    """The frame would be skipped without the setting, too."""

    def picked(x: Tensor) -> Tensor:
        total = x.sum()
        for mask in (MASK, ~MASK):
            total = total + x[mask].mean()
        return total

    found = []
    for suppressed in (False, True):
        torch._dynamo.reset()
        with torch._dynamo.config.patch(suppress_errors=suppressed), Lens(strict=True) as lens:
            torch.compile(picked, backend="eager")(torch.ones(8))
        found.append([one.rule for one in explain(lens.recording).findings])
        assert "suppress_errors" not in lens.report(color=False, width=120)
    assert found == [["GB0036"], ["GB0036"]]


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 has shorter hints")
def test_a_hint_of_torchs_stands_in_full_once() -> None:
    def branches(x: Tensor) -> Tensor:
        if x.sum() > 0:
            x = x + 1
        if x.mean() > 1:
            x = x * 2
        print("one")
        print("two")
        return x

    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(branches, backend="eager")(torch.ones(3))
    whole = "For the common pattern `if tensor_cond: x = transform(x)`"
    setting, price = "reorderable_logging_functions = {print}", "What is printed appears after the graph has run"
    told = " ".join(shown(lens, "breaks").split())
    assert told.count(whole) == told.count(price) == 1
    assert "hint As for break 1. change" in told
    assert told.count(f"hint Set torch._dynamo.config.{setting}, as for break 3 change") == 1
    for name in ("report", "findings"):
        told = " ".join((lens.report(color=False, width=120) if name == "report" else shown(lens, name)).split())
        assert told.count(whole) == 1
        assert "torch's hint: as above." in told


def _numbered(x: torch.Tensor, step: Any) -> torch.Tensor:
    y = x + torch.full((4,), int(step))
    return y.cos()


def test_what_a_backend_cannot_compile_is_at_the_line_that_torch_names() -> None:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(_numbered, backend="aot_eager")(torch.ones(8, 4), np.arange(4)[2])
    (card,) = explain(lens.recording).cards
    assert card.place is not None
    assert (card.place.line, card.gb_type) == (line_of(_numbered, "int(step)"), "Backend compiler exception")
    assert card.remedy is not None
    assert card.remedy.name == "number_of_numpy"
