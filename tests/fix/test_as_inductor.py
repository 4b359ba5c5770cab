"""Recompiles that AOTAutograd asks for are counted where Inductor compiles the program, and nowhere else."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compiler_lens.cli import main

# The float that lies on the stack at the break is one number to AOTAutograd, and another one in each call.
PROGRAM = """\
    import torch
    from torch import nn

    torch.manual_seed(0)
    net, stats = nn.Linear(4, 1), {"loss": 0.0}

    def step(x, y):
        loss = ((net(x) - y) ** 2).mean()
        stats["loss"] += loss.item()
        return loss * 2

    compiled = torch.compile(step{options})
    for n in range(12):
        compiled(torch.randn(3, 4), torch.randn(3, 1)).backward()
    """


@pytest.mark.parametrize(("options", "eager"), [("", 1), (', backend="eager"', 0), (', backend="aot_eager"', 0)])
def test_a_float_that_is_open_to_dynamo_alone_is_counted_as_inductor_has_it(
    options: str, eager: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(PROGRAM).replace("{options}", options))
    assert main(["fix", "--json", "--own-inputs", "train.py"]) == 0
    said, told = capsys.readouterr()
    best: dict[str, Any] = json.loads(said)["best"]
    assert best["before"]["eager_functions"] == eager
    assert (best["before"]["recompiles"] > 5) is bool(eager)
    assert (best["after"]["eager_functions"], best["after"]["graph_breaks"], best["results"]) == (0, 0, "equal")
    assert ("the program as it is, with AOTAutograd" in told) is bool(eager)
