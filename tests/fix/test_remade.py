"""What an object makes for the sizes that it saw last is made in each compiled call, where nobody else writes it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.remade import remade
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

GRID = """
import torch


class Detect(torch.nn.Module):
    shape = None

    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(2))

    def forward(self, x):
        if self.shape != x.shape:  # another size
            self.shape = x.shape
            y, z = torch.meshgrid(torch.arange(x.shape[0]) + 0.5, torch.arange(x.shape[1]) + 0.5, indexing="ij")
            self.grid = torch.stack((y, z))
        return x + (self.grid * self.scale[:, None, None]).sum(0)
"""
ROTARY = """
import torch


class Rotary(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inverse, self.longest = torch.ones(4), 0

    def forward(self, x):
        n = x.shape[0]
        if n > self.longest:
            self._extend(n, x.device, x.dtype)
        return x * self.cos[:n]

    def _extend(self, n, device, dtype):
        self.longest = n
        angles = torch.outer(torch.arange(self.longest, device=device, dtype=self.inverse.dtype), self.inverse)
        self.register_buffer("cos", angles.cos().to(dtype), persistent=False)
"""
MASK = """
import torch


class Attention(torch.nn.Module):
    def forward(self, x):
        if self.mask is None or self.mask.size(0) < x.size(0):
            self.mask = torch.triu(torch.full((x.size(0), x.size(0)), float("-inf")), 1).to(x.device)
        return x + self.mask[: x.size(0), : x.size(0)]
"""


def offered(text: str, beside: str = "") -> tuple[str, str] | None:
    number, line = next((n, one.strip()) for n, one in enumerate(text.split("\n"), 1) if " if " in one)
    known = Sources({"/app/model.py": text, "/app/other.py": beside})
    found = remade(SourceLine("/app/model.py", number, "forward", line), known)
    return (found[0].after[0], found[1]) if found else None


@pytest.mark.parametrize(
    ("text", "line", "made"),
    [
        (GRID, "if torch.compiler.is_compiling() or self.shape != x.shape:  # another size", "shape, grid"),
        (ROTARY, "if torch.compiler.is_compiling() or n > self.longest:", "longest, cos"),
        (MASK, "if torch.compiler.is_compiling() or self.mask is None or self.mask.size(0) < x.size(0):", "mask"),
    ],
)
def test_compiled_code_makes_it_in_each_call(text: str, line: str, made: str) -> None:
    assert offered(text) == (line, made)


@pytest.mark.parametrize(
    ("text", "was", "then"),
    [
        (GRID, "torch.arange(x.shape[0])", "x[:, 0]"),  # of numbers, not of a size
        (GRID, "            self.shape = x.shape", "            print(x.shape)\n            self.shape = x.shape"),
        (GRID, "x.shape:  #", "None:  #"),  # begins once, and then goes on from what it was
        (GRID, "torch.stack((y, z))", "torch.stack((y, z)) + torch.rand(1)"),
        (GRID, "torch.stack((y, z))", "self.grid + torch.stack((y, z))"),
        (GRID, "        return x", "        self.grid[0] = 1\n        return x"),
        (GRID, "        return x", "        else:\n            x = x + 1\n        return x"),
        (GRID, "        return x", "        self.grid = self.grid + x\n        return x"),
        (ROTARY, "self.longest = n\n", "self.longest = n\n        self.calls.append(n)\n"),
        (ROTARY, "    def _extend", "    @once\n    def _extend"),
        (MASK, "self.mask.size(0) < x.size(0)", "x.size(0) > 4"),
    ],
)
def test_what_is_kept_for_another_reason_stays(text: str, was: str, then: str) -> None:
    assert was in text
    assert offered(text.replace(was, then)) is None


def test_what_another_file_writes_stays() -> None:
    assert offered(MASK, "def reset(layer):\n    layer.mask = None\n") is None
    assert offered(MASK, "def shown(layer):\n    print(layer.mask)\n") is not None


def test_fix_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    calls = """

model = torch.compile(Detect(), backend="eager")
with torch.no_grad():
    for n in (2, 3, 4, 3, 5, 4):
        model(torch.ones(n, n + 1))
"""
    Path("grid.py").write_text(GRID + calls)
    assert main(["fix", "--json", "--patch", "x.patch", "grid.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert (best["before"]["recompiles"], best["after"]["recompiles"], best["results"]) == (4, 0, "equal")
    assert "+        if torch.compiler.is_compiling() or self.shape" in Path("x.patch").read_text()
