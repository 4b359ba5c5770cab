"""What a call of torch.compile gives is marked, where a function that was divided is what it gives."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.calls_moved import with_calls_moved
from tests.alike import loaded

TEXT = """
import os

import torch
from torch import nn

BACKEND = os.environ.get("OF_THIS_TEST", "eager")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps, self.log = 0, []

    def forward(self, x):
        self.steps += 1
        y = (torch.sin(x) * torch.cos(x)).mean()
        self.log.append(y.item())
        return y * 2


def main():
    model = Net().to("cpu")
    model = torch.compile(model, backend=BACKEND, dynamic=False)
    for n in range(4):
        model(torch.ones(3) * n)
    return model


model = main()
print(model.log, model.steps)
"""
CALL = "    model = torch.compile(model, backend=BACKEND, dynamic=False)\n"


def _moved(text: str, name: str = "Net.forward") -> str:
    two = split(text, name)
    assert two is not None
    new = with_calls_moved({"a.py": two}, [("a.py", name)])["a.py"]
    assert new == two or "_dynamo" not in new
    return "" if new == two else new


def test_the_part_is_marked_and_the_module_is_not_given() -> None:
    new = _moved(TEXT)
    assert "    @torch.compile(backend=BACKEND, dynamic=False)\n    def forward_computed(self, x):\n" in new
    assert CALL not in new
    assert '    model = Net().to("cpu")\n    for n in range(4):\n' in new
    torch._dynamo.reset()
    assert loaded(new).__dict__["model"].log == pytest.approx([0.0, 0.454649, -0.378401, -0.139708], abs=1e-5)


@pytest.mark.parametrize(
    ("call", "left"),
    [
        ("    model = torch.compile(Net(), backend=BACKEND)\n", "    model = Net()\n"),
        ("    model.run = torch.compile(model.forward, backend=BACKEND)\n", "    model.run = model.forward\n"),
        ("    model.forward = torch.compile(model.forward, backend=BACKEND)\n", ""),
    ],
)
def test_what_it_gives_stands_in_its_place(call: str, left: str) -> None:
    new = _moved(TEXT.replace(CALL, call))
    assert "    @torch.compile(backend=BACKEND)\n" in new
    assert f'    model = Net().to("cpu")\n{left}    for n' in new


def test_a_function_with_another_mark_stays_given() -> None:
    two = (split(TEXT, "Net.forward") or "").replace("    @torch._dyn", "    @torch.no_grad()\n    @torch._dyn")
    assert with_calls_moved({"a.py": two}, [("a.py", "Net.forward")]) == {"a.py": two}


def test_a_function_of_the_module() -> None:
    text = TEXT.replace("class Net(nn.Module):", "class Net:").replace("Net.", "")
    text = text.replace(CALL, "    run = torch.compile(loss)\n").replace(
        "\ndef main",
        "\ndef loss(x):\n    y = torch.sin(x) * torch.cos(x)\n    print(y.sum().item())\n    return y * 2\n\n\ndef main",
    )
    new = _moved(text, "loss")
    assert "@torch.compile\ndef loss_computed(" in new
    assert "    run = loss\n" in new


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (CALL, f"    if BACKEND:\n    {CALL}"),  # not always
        (CALL, CALL.replace("backend=BACKEND", "backend=str(len(model.log))")),  # not known where it is defined
        (CALL, f"{CALL}    other = torch.compile(Net(), backend='eager')\n"),  # given in two ways
        ("model.log, model.steps", "model._orig_mod.log, model.steps"),
        ("BACKEND = os", "BACKEND = ''\nBACKEND = os"),  # which of them?
    ],
)
def test_what_one_mark_cannot_say_stays_given(old: str, new: str) -> None:
    assert _moved(TEXT.replace(old, new)) == ""


def test_a_function_that_is_not_given_is_marked_with_those_that_are() -> None:
    text = TEXT.replace(
        "\n\ndef main",
        "\n\nclass Outer(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.net, self.n, self.seen = Net(), 0, []\n\n"
        "    def forward(self, x):\n        self.n += 1\n        y = torch.exp(x) + torch.sin(x)\n        self.seen.append(y.sum().item())\n        return y * 2\n\n\ndef main",
        1,
    ).replace("    model = Net()", "    model = Outer()")
    two = split(split(text, "Net.forward") or "", "Outer.forward") or ""
    assert two.count("_dynamo.decorators.skip") == 2
    new = with_calls_moved({"a.py": two}, [("a.py", "Net.forward"), ("a.py", "Outer.forward")])["a.py"]
    assert new.count("@torch.compile(backend=BACKEND, dynamic=False)") == 2
    assert "torch.compile(model" not in new


def test_in_two_files() -> None:
    model, rest = TEXT.split("\n\ndef main")
    two = split(model, "Net.forward") or ""
    texts = {"model.py": two, "train.py": f"import torch\nfrom model import BACKEND, Net\n\n\ndef main{rest}"}
    new = with_calls_moved(texts, [("model.py", "Net.forward")])
    assert "    @torch.compile(backend=BACKEND, dynamic=False)\n" in new["model.py"]
    assert CALL not in new["train.py"]


def test_the_patch_has_it_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TEXT)
    assert main(["fix", "--json", "--patch", "x.patch", "train.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    patch = Path("x.patch").read_text()
    assert "_dynamo" not in patch
    assert "+    @torch.compile(backend=BACKEND, dynamic=False)\n" in patch
    assert f"-{CALL}" in patch
    assert (best["after"]["graph_breaks"], best["results"]) == (0, "equal")
