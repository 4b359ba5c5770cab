"""The end of a training step stays Python, from the backward pass on; the loss before it is compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.endings import training_begins, with_ending

METHOD = """
import torch


class Trainer:
    def step(self, x, y):
        \"\"\"Train.\"\"\"
        self.n += 1
        self.opt.zero_grad(set_to_none=True)
        pred = self.model(x)
        loss = (pred - y).pow(2).mean()
        self.scaler.scale(loss).backward()
        self.scaler.unscale_(self.opt)
        norm = torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.scaler.step(self.opt)
        self.scaler.update()
        self.sched.step()
        acc = (pred.argmax(-1) == y).float().mean().item()
        return loss.item(), acc, norm
"""
PROGRAM = """
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 1))
opt = torch.optim.SGD(model.parameters(), lr=1e-3)
history = []


def train_step(x, y, step):
    loss = (model(x).squeeze(-1) - y).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    history.append(loss.item())
    return loss


step_fn = torch.compile(train_step, backend="eager")
for step in range(6):
    x = torch.randn(8, 16)
    step_fn(x, x.sum(1), step)
print(sum(history))
"""


def test_what_comes_before_the_backward_pass_is_compiled() -> None:
    begins = training_begins(METHOD, "Trainer.step")
    new = with_ending(METHOD, "Trainer.step", begins) or ""
    outer, _, inner = new.partition("    def step_computed(self, x, y):\n")
    assert inner == (
        "        pred = self.model(x)\n        loss = (pred - y).pow(2).mean()\n        return pred, loss\n"
    )
    assert (
        "        self.opt.zero_grad(set_to_none=True)\n        pred, loss = self.step_computed(x, y)\n"
        "        self.scaler.scale(loss).backward()\n"
    ) in outer
    assert outer.index("self.n += 1") < outer.index("zero_grad")
    assert "        acc = (pred.argmax(-1) == y).float().mean().item()\n        return loss.item(), acc, norm" in outer


def test_gradients_set_to_zero_right_before_it_are_a_part_of_it() -> None:
    assert training_begins(PROGRAM, "train_step") == "opt.zero_grad()"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        return loss.item(), acc, norm\n", "        again = self.model(x)\n        return again\n"),
        ("        pred = self.model(x)\n", "        if self.n > 9:\n            return None\n        pred = self.model(x)\n"),
        ("        self.sched.step()\n", "        self.sched.step()\n        self.ema(loss)\n"),
    ],
)  # fmt: skip
def test_no_end_that_runs_a_network_or_may_not_be_come_to(old: str, new: str) -> None:
    text = METHOD.replace(old, new)
    assert training_begins(text, "Trainer.step") == "self.scaler.scale(loss).backward()"
    assert with_ending(text, "Trainer.step", "self.scaler.scale(loss).backward()") is None


def test_without_a_backward_pass_of_its_own_there_is_none() -> None:
    text = METHOD.replace(
        "        self.scaler.scale(loss).backward()\n", "        with self.sync():\n            loss.backward()\n"
    )
    assert training_begins(text, "Trainer.step") == ""


def test_the_optimizer_is_left_out_of_what_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(PROGRAM)
    assert main(["fix", "--json", "--patch", "x.patch", "train.py"]) == 0
    found = json.loads(capsys.readouterr().out)
    patch = Path("x.patch").read_text()
    assert '+@torch.compile(backend="eager")\n+def train_step_computed(x, y):\n' in patch
    assert "_dynamo" not in patch
    assert (found["best"]["after"]["graph_breaks"], found["best"]["results"]) == (0, "equal")
    assert found["best"]["after"]["eager_functions"] == 0
    assert not found["not_tried"]
