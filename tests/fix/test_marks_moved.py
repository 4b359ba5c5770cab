"""A function that was divided gives its parts to torch.compile, and has no mark, once it is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.marks_moved import is_moved, price_as_moved, with_marks_moved, with_marks_on_parts
from compiler_lens.facts.measured.offers import _SPLIT
from compiler_lens.facts.measured.parts import with_parts
from tests.alike import loaded

TEXT = """
import torch


class Trainer:
    def __init__(self):
        self.step, self.losses = 0, []

    @torch.compile(
        backend="eager", fullgraph=True
    )
    def loss(self, x):
        self.step += 1
        loss = (torch.sin(x) * torch.cos(x)).sum()
        self.losses.append(loss.item())
        return loss


trainer = Trainer()
for n in range(4):
    trainer.loss(torch.ones(3) * n)
print(trainer.losses, trainer.step)
"""


def test_the_mark_stands_on_the_part_with_all_its_words() -> None:
    two = split(TEXT, "Trainer.loss")
    assert two is not None
    new = with_marks_moved(two, "Trainer.loss")
    assert (
        '    @torch.compile(\n        backend="eager", fullgraph=True\n    )\n    def loss_computed(self, x):\n' in new
    )
    assert "_dynamo" not in new
    assert "\n\n    def loss(self, x):\n" in new
    assert is_moved(new, "Trainer.loss")
    assert not is_moved(two, "Trainer.loss")
    torch._dynamo.reset()
    assert loaded(new).__dict__["trainer"].losses == pytest.approx([0.0, 1.36394, -1.13520, -0.41912], abs=1e-4)


def test_each_part_gets_the_mark() -> None:
    text = TEXT.replace("return loss\n", "y = torch.exp(loss) + torch.sin(loss)\n        return y * 2\n")
    parts = with_parts(text, "Trainer.loss", ("self.losses.append(loss.item())",))
    assert parts is not None
    assert with_marks_moved(parts, "Trainer.loss").count("@torch.compile(") == 2


CALLED = """
import torch


class Net(torch.nn.Module):
    def forward(self, x):
        y = torch.sin(x) * torch.cos(x)
        print(y.sum().item())
        return torch.exp(y) * 2


@torch.compile(backend="eager", dynamic=True)
def step(net, x):
    loss = net(x)
    print("loss", loss.sum().item())
    return torch.tanh(loss) + 1


print("is", float(step(Net(), torch.ones(3)).sum()))
"""


def test_what_a_function_in_parts_calls_is_in_parts_with_its_mark() -> None:
    parts = with_parts(CALLED, "Net.forward", ("print(y.sum().item())",))
    parts = with_parts(parts or "", "step", ("loss = net(x)", 'print("loss", loss.sum().item())'))
    assert parts is not None
    divided = [("a.py", "Net.forward"), ("a.py", "step")]
    new = with_marks_on_parts({"a.py": parts}, divided)["a.py"]
    assert "_dynamo" not in new
    assert new.count('    @torch.compile(backend="eager", dynamic=True)\n    def forward_computed') == 2
    assert new.count('\n@torch.compile(backend="eager", dynamic=True)\ndef step_computed') == 1
    assert new.count("@torch.compile") == 3
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    loaded(new)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 3


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("dynamic=True)", "dynamic=DYNAMIC)"),  # which may be given a value only later
        ('@torch.compile(backend="eager", dynamic=True)\n', ""),
        ("    @torch._dynamo.decorators.skip\n    def", "    @torch._dynamo.decorators.skip\n    @other\n    def"),
    ],
)
def test_marks_stay_where_they_cannot_all_be_moved(old: str, new: str) -> None:
    parts = with_parts(CALLED, "Net.forward", ("print(y.sum().item())",))
    parts = with_parts(parts or "", "step", ("loss = net(x)", 'print("loss", loss.sum().item())'))
    assert parts is not None
    texts = {"a.py": parts.replace(old, new)}
    assert texts["a.py"] != parts
    assert with_marks_on_parts(texts, [("a.py", "Net.forward"), ("a.py", "step")]) == texts


@pytest.mark.parametrize(
    ("old", "new"),
    [("    @torch.compile(\n", "    @torch.no_grad()\n    @torch.compile(\n"), ('    @torch.compile(\n        backend="eager", fullgraph=True\n    )\n', "")],
)  # fmt: skip
def test_a_function_with_other_marks_and_one_that_is_not_given_stay(old: str, new: str) -> None:
    two = split(TEXT, "Trainer.loss")
    assert two is not None
    assert with_marks_moved(two.replace(old, new), "Trainer.loss") == two.replace(old, new)


def test_what_is_said_is_of_a_function_without_a_mark() -> None:
    said = price_as_moved(_SPLIT.format(name="Trainer.loss", inner="loss_computed"), "Trainer.loss")
    assert "fullgraph" not in said
    assert "exported" not in said
    assert "it calls `loss_computed`, which is compiled" in said


def test_the_patch_has_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TEXT.replace(", fullgraph=True", ""))
    assert main(["fix", "--json", "--patch", "x.patch", "train.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    patch = Path("x.patch").read_text()
    assert "_dynamo" not in patch
    assert "+    def loss_computed(self, x):" in patch
    assert best["after"]["graph_breaks"] == 0
