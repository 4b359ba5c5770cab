"""Recompiles that AOTAutograd asks for are counted where Inductor compiles the program, and nowhere else."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import compiler_lens
from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Setting
from compiler_lens.facts.measured.fix import Offer, Target
from compiler_lens.measure.fix import trials
from compiler_lens.measure.fix.plan import Program
from compiler_lens.measure.fix.process import Limits, Processes

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


@pytest.mark.parametrize(
    ("options", "eager"),
    [
        pytest.param("", 1, marks=pytest.mark.long),
        pytest.param(', backend="eager"', 0, marks=pytest.mark.long),
        pytest.param(', backend="aot_eager"', 0, marks=pytest.mark.long),
    ],
)
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


@pytest.mark.long
def test_what_a_change_brings_into_a_graph_is_counted_as_inductor_has_it(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(dedent(PROGRAM).replace("{options}", ""))
    code = "torch._dynamo.config.capture_scalar_outputs = True"
    texts = {str(script): script.read_text().replace("import torch\n", f"import torch\n{code}\n", 1)}
    offers = (Offer(Target(None, "break"), Setting(code)),)
    home = str(Path(compiler_lens.__file__).parent.parent)
    with Processes([sys.executable], home, {**os.environ, "PYTHONHASHSEED": "0"}, Limits(120)) as opened:
        runs = trials._Runs(trials.Asked(Program(str(script))), opened, tmp_path, lambda _: None)
        runs._longest = 120
        runs._run()
        runs._reference = runs._results()
        seen = runs._attempt(texts, offers)
        assert runs._as_aot_counts(seen, texts, offers) is seen, "for another backend nothing more is counted"
        runs._is_for_inductor = True
        counted = runs._as_aot_counts(seen, texts, offers)
    assert seen.figures is not None
    assert counted.figures is not None
    assert (seen.figures.eager_functions, counted.figures.eager_functions) == (0, 1)
    assert counted.figures.recompiles > seen.figures.recompiles
    assert counted.results is seen.results


CONVOLVED = """\
    import torch
    from torch import nn

    torch.manual_seed(0)
    net = nn.Conv2d(2, 2, 3, padding=1)

    def step(x):
        y = net(x).relu()
        print(round(y.sum().item(), 3))
        return y * 2

    compiled = torch.compile(step)
    for size in (16, 20, 24, 28):
        compiled(torch.randn(1, 2, size, 8)).sum().backward()
    """


@pytest.mark.long
def test_what_inductor_compiles_for_each_size_by_itself_is_counted_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    # A kernel that an earlier run left in the cache may be for a larger size, and do for all.
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "cache"))
    Path("train.py").write_text(dedent(CONVOLVED))
    assert main(["fix", "--own-inputs", "train.py"]) == 0
    shown = " ".join(capsys.readouterr()[0].split())
    assert "recompiles 5 → 0" in shown
    assert re.search(r"With its own backend it is [1-4] recompiles, not 0: Inductor compiles some convolutions", shown)


ONE_TENSOR = """\
    import torch
    from torch import nn

    torch.manual_seed(0)
    left, right = nn.Linear(4, 3), nn.Linear(4, 2)

    @torch.compile
    def step(x):
        loss = left(x).pow(2).mean()
        return loss + right(x).sum() * 0, {"loss": loss.item()}

    for n in range(3):
        total, log = step(torch.randn(3, 4))
        total.backward()
        print(f"{log['loss']:.4f}")
    """


@pytest.mark.long
def test_a_tensor_that_inductor_makes_one_with_the_loss_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Inductor 2.13 takes `loss + 0 * x` and `loss.detach()` for one tensor, which has no gradient then."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(ONE_TENSOR))
    assert main(["fix", "--json", "--own-inputs", "--apply", "train.py"]) == 0
    said, _ = capsys.readouterr()
    found = json.loads(said)
    best: dict[str, Any] = found["best"]
    assert best["after"]["graph_breaks"] == 0 < best["before"]["graph_breaks"]
    assert 3 in {tried["kept_tensors"] for tried in found["tried"] if tried["results"] == "equal"}
    subprocess.run([sys.executable, "train.py"], check=True)
    (one,) = (tried for tried in found["tried"] if tried["offer"].endswith('{"loss": loss.detach()}'))
    assert (one["results"] == "differ") == ("grad_fn" in one["difference"])
