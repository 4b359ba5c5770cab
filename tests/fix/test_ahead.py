"""What a module looks at before it computes is asked ahead of the compiled call."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.ahead import is_check
from compiler_lens.facts.measured.bookkeeping import split

TEXT = """\
import torch
from torch import nn


class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.build(4)

    def build(self, length):
        self.register_buffer("rows", torch.arange(length).float().cos()[:, None], persistent=False)

    def forward(self, x, positions):
        longest = int(positions.max()) + 1
        if longest > self.rows.shape[0]:
            self.build(2 * longest)
        return x * self.rows[positions]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.linear = Table(), nn.Linear(3, 3)

    def forward(self, x, positions):
        return self.linear(self.table(x, positions))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(2))

    def forward(self, x, positions):
        for layer in self.layers:
            x = layer(x, positions)
        return x


model = torch.compile(Model())
"""
FUNCTION = "Model.forward"
CODE = "longest = int(positions.max()) + 1"


def ran(text: str, backend: str) -> tuple[list[torch.Tensor], list[int], int]:
    """What calls return, how long the tables are then, and graph breaks."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("tables")
    exec(compile(text, "tables.py", "exec"), module.__dict__)
    model: Any = module.__dict__["Model"]()
    called = torch.compile(model, backend=backend) if backend else model
    with Lens(strict=True) as lens:
        found = [called(torch.randn(n, 3), torch.arange(n)).detach() for n in (3, 6, 20)]
    return found, [len(layer.table.rows) for layer in model.layers], len(lens.recording.graph_breaks)


def test_tables_are_as_long_as_without_a_graph_break() -> None:
    better = split(TEXT, FUNCTION, (CODE,))
    assert better is not None
    wanted, lengths, _ = ran(TEXT, "")
    assert lengths == [40, 40], "no table grew: the test proves nothing"
    assert ran(TEXT, "eager")[2], "nothing broke: the test proves nothing"
    for backend in ("", "eager"):
        found, after, breaks = ran(better, backend)
        torch.testing.assert_close(found, wanted)
        assert (after, breaks) == (lengths, 0)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("self.table(x, positions)", "self.table(x, positions + 1)"),
        ("self.table(x, positions)", "self.table(x, x.argmax(-1))"),
        ("layer(x, positions)", "layer(x, positions + 1)"),
        ("        for layer", "        positions = positions + 1\n        for layer"),
        ("        for layer", "        positions.add_(1)\n        for layer"),
        ("        for layer", "        positions += 1\n        for layer"),
        (
            "def forward(self, x, positions):\n        for",
            "def forward(self, x, places):\n        positions = places\n        for",
        ),
        ("self.table(x, positions)", "self.table(x, positions) * len(self.table.rows)"),  # reads what is changed
        ("            self.build(2 * longest)", "            self.build(2 * longest)\n            self.grown += 1"),
        ("            self.build(2 * longest)", "            self.build(2 * longest)\n            x = x * 2"),
        ("            self.build(2 * longest)", "            return x"),
        ("if longest > self.rows.shape[0]:", "if longest > len(x):"),
        ("return x * self.rows[positions]", "return x * self.rows[positions] * longest"),
        ("class Table(nn.Module)", "class Wide(nn.Module):\n    pass\n\n\nclass Table(Wide)"),
    ],
)
def test_what_may_be_something_else_in_the_call_is_not_asked_ahead(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert split(TEXT, FUNCTION, (CODE,)) is not None
    assert split(text, FUNCTION, (CODE,)) is None


def test_each_line_of_what_is_looked_at_leads_to_it() -> None:
    numbers = [n for n, _ in enumerate(TEXT.split("\n"), 1) if is_check(TEXT, n)]
    first = TEXT[: TEXT.index(CODE)].count("\n") + 1
    assert numbers == [first, first + 1, first + 2]
