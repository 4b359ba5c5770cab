"""What the first call computes and keeps: in a package compiled code computes it each time, and compiles once."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._dynamo.testing

from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Lines, edited
from compiler_lens.facts.measured.properties import unkept
from compiler_lens.recording.model import SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/app/user_model.py"
LIBRARY = """\
import torch


class Book(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.total = torch.nn.Buffer(torch.arange(12.0).reshape(4, 3))
        self.usage = torch.nn.Buffer(torch.ones(4))
        self._kept = None

    @property
    def kept(self):
        if self._kept is None:
            self._kept = self.total / self.usage.clamp(min=1e-5)[:, None]
        return self._kept

    def forward(self, x):
        return torch.cdist(x, self.kept).argmin(-1)
"""
TRAIN = """\
import torch
from keeping import Book

if __name__ == "__main__":
    torch.manual_seed(0)
    step = torch.compile(torch.nn.Sequential(torch.nn.Identity(), Book()))
    for n in (1, 2):
        step(torch.randn(2, 3) * n)
"""


def offered(text: str) -> Lines | None:
    number = next(n for n, line in enumerate(text.split("\n"), 1) if line.strip().startswith("if self._kept"))
    return unkept(SourceLine(FILE, number, "kept", text.split("\n")[number - 1].strip()), Sources({FILE: text}))


def book(text: str) -> Any:
    space: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), space)
    return space["Book"]()


def test_it_is_compiled_once_and_without_compile_kept() -> None:
    lines = offered(LIBRARY)
    assert lines is not None
    made = edited(lines, {FILE: LIBRARY}, FILE)
    assert made is not None
    torch.compiler.reset()
    counter = torch._dynamo.testing.CompileCounter()
    before, after, x = book(LIBRARY), book(made[FILE]), torch.randn(2, 3)
    compiled = torch.compile(after, backend=counter, fullgraph=True)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), before(x))
    assert counter.frame_count == 1
    assert after._kept is None
    torch.testing.assert_close(after(x), before(x))
    assert after._kept is not None


OTHERS = {
    "read elsewhere": LIBRARY + "\n    def other(self):\n        return self._kept\n",
    "of a call": LIBRARY.replace("self.total /", "self.made() /"),
    "of a global": LIBRARY.replace("self.total /", "TOTAL /"),
    "another is returned": LIBRARY.replace("return self._kept", "return self.total"),
    "more than that": LIBRARY.replace("        return self._kept", "        self.n = 1\n        return self._kept"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_nothing_else_is_computed_each_time(name: str) -> None:
    assert offered(OTHERS[name]) is None


@pytest.mark.long
def test_fix_offers_it_in_a_package_and_nowhere_else(
    install: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    install("keeping", LIBRARY, train=TRAIN, own=LIBRARY + "\n\n" + TRAIN.split("\n\n", 1)[1])
    assert main(["fix", "--own-inputs", "--json", "own.py"]) == 0
    assert not json.loads(capsys.readouterr().out)["tried"], "one recompile is as expected"
    assert main(["fix", "--own-inputs", "--json", "--include", "keeping", "train.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert (best["results"], best["after"]["recompiles"]) == ("equal", 0)
