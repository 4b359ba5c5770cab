"""What a newcomer writes first: `compiler-lens fix` tries the right change, and recommends none that changes results."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from compiler_lens.cli import main


@pytest.fixture
def fixed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    monkeypatch.chdir(tmp_path)

    def of(script: str, *options: str) -> Any:
        Path("train.py").write_text("import torch\n\n" + dedent(script).lstrip())
        assert main(["fix", "--json", *options, "train.py"]) == 0
        return json.loads(capsys.readouterr().out)

    return of


def test_a_loss_that_is_rooted_above_a_number_is_chosen_with_its_gradients(fixed: Any) -> None:
    found = fixed("""
        w = torch.zeros(3, requires_grad=True)

        @torch.compile
        def step(x):
            loss = (x * w).pow(2).sum()
            if loss > 1:
                loss = loss.sqrt()
            return loss

        for scale in (0.0, 1.0, 3.0):
            step(torch.ones(3) * scale).backward()
            with torch.no_grad():
                w += 1
    """)
    assert "loss.clamp(min=1).sqrt()" in found["best"]["patch"]
    assert (found["best"]["results"], found["best"]["after"]["graph_breaks"]) == ("equal", 0)


def test_a_quotient_whose_gradient_is_lost_is_tried_and_not_recommended(fixed: Any) -> None:
    found = fixed("""
        w = torch.ones(3, requires_grad=True)

        @torch.compile
        def step(x):
            x = x * w
            n = x.pow(2).sum()
            if n > 0:
                x = x / n
            return x.sum()

        for scale in (1.0, 0.0):
            step(torch.ones(3) * scale).backward()
    """)
    tried = next(one for one in found["tried"] if "torch.where" in one["offer"])
    assert (tried["results"], tried["helps"]) == ("differ", False)
    assert "gradient" in tried["difference"]
    assert not any(one["helps"] for one in found["tried"])
    assert (found["best"], found["not_tried"]) == (None, [])
