"""Numbers that a tensor is made of go along with it, to where they are taken out again."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.along import along, with_numbers

TEXT = """\
import torch
from torch import nn
from torch.nn import functional as F


def sampled(value, sizes, points):
    \"\"\"Sample.\"\"\"
    parts = value.split([int(h * w) for h, w in sizes], dim=1)
    found = []
    for level, (h, w) in enumerate(sizes):
        image = parts[level].transpose(1, 2).reshape(len(value), -1, h.item(), int(w))
        found.append(F.grid_sample(image, points, align_corners=False).mean((2, 3)))
    return torch.stack(found).sum(0) * sizes[0, 1].item()


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x, sizes, points):
        scale = torch.stack([sizes[:, 1], sizes[:, 0]], -1).sum()
        return sampled(
            self.linear(x) / scale,
            sizes,
            points,
        )


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x):
        shapes = []
        rows = []
        for stride in (1, 2):
            level = x[:, :, ::stride, ::stride]
            shapes.append(level.shape[-2:])
            rows.append(level.flatten(2).transpose(1, 2))
        sizes = torch.as_tensor(shapes, dtype=torch.long)
        points = torch.zeros(len(x), 3, 3, 2)
        out = 0
        for layer in self.layers:
            out = out + layer(torch.cat(rows, 1), sizes, points)
        return out


model = torch.compile(Model())
"""
LINE = TEXT[: TEXT.index("parts = value.split")].count("\n") + 1


def changed(text: str) -> str | None:
    found = along(text, LINE, "model.py")
    return with_numbers(text, found) if found else None


def ran(text: str, backend: str) -> tuple[list[torch.Tensor], int]:
    """What calls return, with their graph breaks."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("levels")
    exec(compile(text, "levels.py", "exec"), module.__dict__)
    model: Any = module.__dict__["Model"]()
    called = torch.compile(model, backend=backend) if backend else model
    with Lens(strict=True) as lens:
        found = [called(torch.randn(2, 4, n, 6)).detach() for n in (8, 6)]
        found.append(module.__dict__["sampled"](torch.ones(1, 12, 4), torch.tensor([[2, 6]]), torch.zeros(1, 3, 3, 2)))
    return found, len(lens.recording.graph_breaks)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("sizes[0, 1].item()", "int(sizes[0][1])"),
        ("for h, w in sizes]", "for h, w in sizes.tolist()]"),
        ("torch.as_tensor(shapes, dtype=torch.long)", "torch.tensor([list(shape) for shape in shapes])"),
        ("            points,\n        )", "            points=points)"),
        ("layer(torch.cat(rows, 1), sizes, points)", "layer(torch.cat(rows, 1), points=points, sizes=sizes)"),
    ],
)
def test_functions_are_given_the_numbers_as_well(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    better = changed(text)
    assert better is not None
    wanted, _ = ran(text, "")
    assert ran(text, "eager")[1], "nothing broke: the test proves nothing"
    for backend in ("", "eager"):
        found, breaks = ran(better, backend)
        torch.testing.assert_close(found, wanted)
        assert breaks == 0
    assert with_numbers(better, along(text, LINE, "") or pytest.fail("it is not known")) is None  # it is done


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dtype=torch.long", "dtype=torch.float"),
        ("torch.as_tensor(shapes, dtype=torch.long)", "x.new_tensor(shapes)"),
        ("torch.as_tensor(shapes, dtype=torch.long)", "(torch.as_tensor(shapes) - 1)"),
        ("        points = torch.zeros", "        shapes.append((1, 1))\n        points = torch.zeros"),
        ("        points = torch.zeros", "        sizes = sizes + 1\n        points = torch.zeros"),
        ("def sampled(value, sizes, points)", "def sampled(value, sizes, points, **more)"),
        ("def sampled(value, sizes, points)", "def sampled(value, sizes, points, sizes_list=None)"),
        ("shapes = []", "shapes = self.shapes"),
    ],
)
def test_what_may_hold_other_numbers_stays_as_it_is(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert changed(TEXT) is not None
    assert changed(text) is None
