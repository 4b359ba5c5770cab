"""A float that a module counts on with at each call is kept in a tensor, and compiled code stays what it is."""

from __future__ import annotations

import linecache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.breaks.seen import seen_tensors
from compiler_lens.facts.measured.edits import edited
from compiler_lens.facts.measured.floats import in_tensor
from compiler_lens.facts.measured.open_floats import opened
from compiler_lens.facts.overview.explanation import explain
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.source_text import Sources

TEXT = """\
import torch


class Mean(torch.nn.Module):
    def __init__(self, start=1e-4):
        super().__init__()
        self.register_buffer("mean", torch.zeros(3))
        self.count = start

    def forward(self, x):
        total = self.count + x.shape[0]
        self.mean += (x.mean(0) - self.mean) * x.shape[0] / total
        self.count = total
        return x - self.mean


model = torch.compile(Mean(), backend="aot_eager")


def said():
    return float(model.count)
"""


def changed(text: str, folder: Path) -> str | None:
    """The text with what is offered for the recompiles that it has."""
    file = folder / "means.py"
    file.write_text(text)
    linecache.checkcache(str(file))
    torch._dynamo.reset()
    module = ModuleType("means")
    exec(compile(text, str(file), "exec"), module.__dict__)
    with Lens(strict=True) as lens:
        for _ in range(4):
            module.__dict__["model"](torch.randn(5, 3))
    known, own = Sources({str(file): text}), Ownership((str(folder),))
    causes = [cause for report in explain(lens.recording).recompiles for cause in report.causes]
    assert causes, "nothing was compiled again: the test proves nothing"
    found = [lines for cause in causes for lines, _ in in_tensor(cause, known, own)]
    texts = edited(found[0], {str(file): text}, str(file)) if found else None
    return texts[str(file)] if texts else None


def ran(text: str) -> tuple[list[torch.Tensor], float, int]:
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("means")
    exec(compile(text, "counted_means.py", "exec"), module.__dict__)
    model: Any = module.__dict__["model"]
    with Lens(strict=True) as lens:
        found = [model(torch.randn(5, 3)) for _ in range(4)]
    return found, module.__dict__["said"](), len(lens.recording.recompiles)


def test_a_tensor_counts_as_the_number_does_without_torch_compile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    better = changed(TEXT, tmp_path)
    assert better is not None
    assert "self.count = torch.tensor(start, dtype=torch.float64)" in better
    found, count, recompiles = ran(better)
    assert recompiles == 0
    monkeypatch.setattr(torch, "compile", lambda model, **_: model)
    wanted, said, _ = ran(TEXT)
    torch.testing.assert_close(found, wanted)
    assert count == pytest.approx(said)


def test_it_may_be_made_beside_another(tmp_path: Path) -> None:
    text = TEXT.replace("self.count = start", "self.first, self.count = 1.0, start")
    better = changed(text, tmp_path)
    assert better is not None
    assert "self.first, self.count = 1.0, torch.tensor(start, dtype=torch.float64)" in better
    assert ran(better)[2] == 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.count = start", "self.first, self.count = self.pair = 1.0, start"),
        (
            "        return x",
            "        if self.count > 1e9:\n            x = x + 1\n        return x",
        ),  # it asks for a number
        ("self.count = total", "self.count += x.shape[0]"),  # in place: `before = self.count` would change, too
        ("self.count = start", "self.count = float(start)"),
        ("self.count = start", "self.count = self.first = start"),
        ("        return x", "        x = x[: int(1 + 5 * (self.count < 0))]\n        return x"),
    ],
)
def test_what_wants_a_number_keeps_it(old: str, new: str, tmp_path: Path) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert changed(text, tmp_path) is None


FILLED = """\
import torch


def step(y, t):
    at = torch.full_like(y[..., :1], t)
    return torch.cat([y, at], dim=-1)


model = torch.compile(step, backend="aot_eager")
"""


def filled(text: str, folder: Path, *, is_changed: bool = False) -> tuple[list[torch.Tensor], int, list[str]]:
    """What a text's function gives for several times, how often it was compiled again, and what is offered for that."""
    file = folder / f"filled_{is_changed}.py"
    file.write_text(text)
    linecache.checkcache(str(file))
    torch._dynamo.reset()
    module = ModuleType("filled")
    exec(compile(text, str(file), "exec"), module.__dict__)
    with Lens(strict=True) as lens:
        found = [module.__dict__["model"](torch.ones(2, 3), 0.25 * number) for number in range(1, 7)]
    known, own = Sources({str(file): text}), Ownership((str(folder),))
    causes = [cause for report in explain(lens.recording).recompiles for cause in report.causes]
    offers = [lines for cause in causes for lines in opened(cause, known, seen_tensors(lens.recording), own)]
    texts = [new[str(file)] for one in offers if (new := edited(one, {str(file): text}, str(file)))]
    return found, len(lens.recording.recompiles), texts


def test_a_tensor_that_is_filled_with_a_changing_number_adds_it(tmp_path: Path) -> None:
    wanted, before, texts = filled(FILLED, tmp_path)
    assert "at = torch.zeros_like(y[..., :1]) + t" in texts[0]
    found, after, _ = filled(texts[0], tmp_path, is_changed=True)
    torch.testing.assert_close(found, wanted)
    assert (before, after) == (5, 1)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("mean=0.0, std=t, size=y[:, :1].shape", "torch.randn(y[:, :1].shape) * t"),
        ("0.5, t, (2, 1)", "torch.randn((2, 1)) * t + 0.5"),
        ("t, std=1.0, size=(2, 1), dtype=y.dtype", "torch.randn((2, 1), dtype=y.dtype) * 1.0 + t"),
    ],
)
def test_what_is_drawn_with_a_changing_number_is_multiplied_by_it(given: str, wanted: str, tmp_path: Path) -> None:
    text = FILLED.replace("torch.full_like(y[..., :1], t)", f"torch.normal({given})")
    torch.manual_seed(0)
    drawn, before, texts = filled(text, tmp_path)
    assert f"at = {wanted}\n" in texts[0]
    torch.manual_seed(0)
    found, after, _ = filled(texts[0], tmp_path, is_changed=True)
    torch.testing.assert_close(found, drawn)
    assert (before, after) == (5, 1)


OF_COMPUTED = pytest.mark.skipif(torch.__version__ < "2.13", reason="a number that Python computes of it is a constant")


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("torch.full_like(y[:, :1], t) * 2", "(torch.zeros_like(y[:, :1]) + t) * 2"),
        ("torch.full((2, 1), t, dtype=y.dtype)", "torch.ones((2, 1), dtype=y.dtype) * t"),
        ("y[:, :1] * torch.tensor(t)", "y[:, :1] * (torch.ones(()) * t)"),
        pytest.param("y[:, :1] + y.new_tensor(t + 1)", "y[:, :1] + (y.new_ones(()) * (t + 1))", marks=OF_COMPUTED),
        ("(1 + y[:, :1]) ** t", "(1 + y[:, :1]) ** (y.new_ones(()) * t)"),
        ("2 * t**y[:, :1]", "2 * ((y.new_ones(()) * t) ** y[:, :1])"),
        ("t - y[:, :1]", "-(y[:, :1] - t)"),
        ("(2 * y[:, :1]).clamp(max=t)", "(2 * y[:, :1]).clamp(max=y.new_ones(()) * t)"),
        ("torch.clamp(y[:, :1], -t, t)", "torch.clamp(y[:, :1], y.new_ones(()) * (-t), y.new_ones(()) * t)"),
        ("torch.where(y[:, :1] > 2, y[:, :1], t)", "torch.where(y[:, :1] > 2, y[:, :1], y.new_ones(()) * t)"),
        ("y[:, :1].masked_fill(y[:, :1] > t, t)", "y[:, :1].masked_fill(y[:, :1] > t, y.new_ones(()) * t)"),
        ("torch.lerp(y, 2 * y, t)[:, :1]", "torch.lerp(y, 2 * y, y.new_ones(()) * t)[:, :1]"),
        ("torch.add(y, y, alpha=t)[:, :1]", "torch.add(y, y * t)[:, :1]"),
        ("y.mul(t).sub_(y + 1, alpha=1 - t)[:, :1]", "y.mul(t).sub_((y + 1) * (1 - t))[:, :1]"),
        ("y.addcmul(y, y, value=t)[:, :1]", "y.addcmul(y * t, y)[:, :1]"),
    ],
)
def test_what_torch_needs_as_a_number_is_a_factor_of_a_tensor(line: str, wanted: str, tmp_path: Path) -> None:
    text = FILLED.replace("torch.full_like(y[..., :1], t)", line)
    plain, before, texts = filled(text, tmp_path)
    assert f"at = {wanted}\n" in texts[0]
    found, after, _ = filled(texts[0], tmp_path, is_changed=True)
    torch.testing.assert_close(found, plain)
    assert (before, after) == (5, 1)


SMOOTHED = """\
import torch
import torch.nn.functional as F


def step(y, t):
    share = t / 4
    label = torch.tensor([0, 2])
    return F.cross_entropy(y.cumsum(1), label, reduction="none", label_smoothing=share)


model = torch.compile(step, backend="aot_eager")
"""


@OF_COMPUTED
@pytest.mark.parametrize("rest", ["", ', weight=torch.tensor([1.0, 2.0, 4.0]), reduction="mean"', ", ignore_index=2"])
def test_a_smoothing_that_changes_is_a_share_of_two_losses(rest: str, tmp_path: Path) -> None:
    text = SMOOTHED.replace(', reduction="none"', rest) if rest else SMOOTHED
    plain, before, texts = filled(text, tmp_path)
    assert "return (1 - share) * F.cross_entropy(y.cumsum(1), label" in texts[0]
    found, after, _ = filled(texts[0], tmp_path, is_changed=True)
    torch.testing.assert_close(found, plain)
    assert (before, after) == (5, 1)


@pytest.mark.parametrize(
    "new",
    [
        "torch.normal(0.0, 1.0, size=(2, 1))",
        "torch.normal(y, t)",
        "torch.full_like(y[..., :1], t, dtype=torch.long)",
        "torch.full((2, 1), t, dtype=torch.long)",
        "torch.tensor([t, t])[:, None]",
        "y[:, :1].clamp(0.5, t)",
        "torch.where(y[:, :1] > t, 1.0, t)",
        "torch.nn.functional.cross_entropy(y, torch.tensor([0, 1]), *(None, True, -100), label_smoothing=t / 2).expand(2, 1)",
    ],
)
def test_what_has_another_dtype_or_a_bound_that_is_a_number_is_left(new: str, tmp_path: Path) -> None:
    assert not filled(FILLED.replace("torch.full_like(y[..., :1], t)", new), tmp_path)[2]
