"""A module whose own methods call it past what torch.compile made of it is compiled in place, and goes on from there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.fix import Offer, Target
from compiler_lens.measure.fix.trials import _made

MODEL = """import torch


class Captions(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = torch.nn.Embedding(8, 4), torch.nn.Linear(4, 8)

    def forward(self, tokens):
        return self.head(self.embed(tokens)).log_softmax(-1)

    @torch.no_grad()
    def generate(self, tokens):
        for _ in range(3):
            tokens = torch.cat([tokens, self(tokens)[:, -1:].argmax(-1)], 1)
        return tokens


torch.manual_seed(0)
model = Captions().eval()
model = torch.compile(model)
print(model.generate(torch.tensor([[1, 2], [3, 4]])).tolist())
"""


def fixed(text: str, capsys: pytest.CaptureFixture[str]) -> tuple[dict, str]:
    Path("captions.py").write_text(text)
    assert main(["fix", "--json", "--patch", "x.patch", "captions.py"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found, Path("x.patch").read_text() if Path("x.patch").exists() else ""


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("model = torch.compile(model)", ["model.compile()"]),
        (
            'model = torch.compile(Captions().eval(), backend="eager", dynamic=True)',
            ["model = Captions().eval()", 'model.compile(backend="eager", dynamic=True)'],
        ),
    ],
)
def test_it_is_compiled_wherever_it_is_called_from(
    given: str, written: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found, patch = fixed(MODEL.replace("model = torch.compile(model)", given), capsys)
    added = [line[1:] for line in patch.splitlines() if line.startswith("+") and not line.startswith("+++")]
    assert [line for line in added if "compile" in line or "Captions" in line][: len(written)] == written
    assert found["best"]["results"] == "equal"
    assert found["tried"][0]["operators"] > 0 == found["operators"]


@pytest.mark.parametrize("given", ["model = torch.compile(model)", "model.compile()"])
def test_a_forward_that_its_methods_call_is_compiled_itself(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = MODEL.replace("self(tokens)[", "self.forward(tokens)[").replace("model = torch.compile(model)", given)
    found, patch = fixed(text, capsys)
    assert "+model.forward = torch.compile(model.forward" in patch
    assert found["best"]["results"] == "equal"


def test_what_breaks_in_it_then_is_mended_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    text = MODEL.replace(
        "        return self.head(self.embed(tokens)).log_softmax(-1)",
        "        x = self.head(self.embed(tokens))\n        if x.sum() > 0:\n            x = x * 2\n"
        "        return x.log_softmax(-1)",
    )
    found, patch = fixed(text, capsys)
    assert "+model.compile(" in patch
    assert "torch.where(" in patch
    assert found["best"]["after"]["graph_breaks"] == 0
    assert found["best"]["results"] == "equal"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(model.gen", "print(model._orig_mod.gen"),  # it asks for what is round the module
        ("model = torch.compile(model)", "model = torch.compile(model) if True else model"),
    ],
)
def test_nothing_is_tried_where_that_would_not_do(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert old in MODEL
    found, patch = fixed(MODEL.replace(old, new), capsys)
    assert (found["best"], patch) == (None, "")


BESIDE = MODEL.replace("print(model.gen", "print(model(torch.tensor([[5, 6]])).sum().item())\nprint(model.gen").replace(
    "self(tokens)[", "(self.head(self.embed(tokens)) * 2)["
)


def test_a_method_that_goes_past_what_is_compiled_is_compiled_as_well(capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is wrong with what is compiled: that the method is not, no figure says."""
    found, patch = fixed(BESIDE, capsys)
    assert "+model.generate = torch.compile(model.generate)\n" in patch
    assert found["best"]["results"] == "equal"
    assert found["tried"][-1]["operators"] > found["operators"] > 0


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("print(model.generate(torch.tensor([[1, 2], [3, 4]])).tolist())\n", ""),  # nobody calls it
        ("for _ in range(3):", "for _ in tokens[:, 0].tolist():"),  # it would break a graph
    ],
)
def test_a_method_that_is_no_gain_stays(old: str, new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert old in BESIDE
    found, patch = fixed(BESIDE.replace(old, new), capsys)
    assert (found["best"], patch) == (None, "")


def test_of_what_the_best_writes_otherwise_nothing_is_said_to_be_made() -> None:
    """The best may have given the line of torch.compile another argument."""
    offer = Offer(Target(None, "a kind"), Lines("a.py", 1, ("x = 1",), ("x = 1", "y = 2")))
    gone = replace(offer, edit=Lines("a.py", 1, ("z = 1",), ("z = 1", "y = 2")))
    assert _made((gone, offer), {"a.py": "x = 1\n"}, "a.py") == ((offer,), {"a.py": "x = 1\ny = 2\n"})
