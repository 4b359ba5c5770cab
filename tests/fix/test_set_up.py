"""State that a module sets up at its first call: that call runs eagerly, and compiled code takes it for done."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.set_up import sets_up

TEXT = """\
import torch
from torch import nn


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("ready", torch.tensor(False))
        self.scale = nn.Parameter(torch.ones(3))

    def set_up(self, x):
        if self.ready:
            return
        self.scale.data.copy_(1 / x.std(0))
        self.ready.fill_(True)

    def forward(self, x):
        self.set_up(x.detach())
        return x * self.scale


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList(Norm() for _ in range(2))
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        for norm in self.norms:
            x = self.layer(norm(x))
        total = x.sum()
        return x, total


model = torch.compile(Model())
"""
WITHIN = TEXT.replace("        self.set_up(x.detach())\n", "").replace(
    """    def set_up(self, x):
        if self.ready:
            return
        self.scale.data.copy_(1 / x.std(0))
        self.ready.fill_(True)

    def forward(self, x):
""",
    """    def forward(self, x):
        if self.training and not self.ready.item():
            self.scale.data.copy_(1 / x.detach().std(0))
            self.ready.data.copy_(torch.tensor(True))
""",
)
PARAMETER = TEXT.replace(
    'self.register_buffer("ready", torch.tensor(False))',
    "self.ready = nn.Parameter(torch.tensor(False), requires_grad=False)",
)
DERIVED = TEXT.replace("Norm() for", "Own() for").replace(
    "class Model",
    """class Own(Norm):
    def __init__(self):
        super().__init__()
        self.shift = nn.Parameter(torch.ones(3))

    def forward(self, x):
        return super().forward(x) + self.shift


class Model""",
)
OWN_SET_UP = DERIVED.replace(
    "+ self.shift\n", "+ self.shift\n\n    def set_up(self, x):\n        self.ready.fill_(False)\n"
)
FUNCTION = "Model.forward"
OF_A_TRAINER = TEXT.replace(
    "model = torch.compile(Model())",
    """class Trainer:
    def __init__(self):
        self.model, self.steps = Model(), 3

    def step(self, x):
        x, total = self.model(x)
        return x * 2, total
""",
)


def code_of(text: str) -> str:
    return next(line.strip() for n, line in enumerate(text.split("\n"), 1) if sets_up(text, n))


def ran(text: str, backend: str) -> tuple[list[Any], tuple[int, int]]:
    """What calls return, with what the model holds then; graph breaks and compilations."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("norms")
    exec(compile(text, "norms.py", "exec"), module.__dict__)
    model: Any = module.__dict__["Model"]()
    called = torch.compile(model, backend=backend) if backend else model
    with Lens(strict=True) as lens:
        found = [tuple(one.detach() for one in called(torch.randn(5, 3))) for _ in range(3)]
    numbers = len(lens.recording.graph_breaks), len(lens.recording.compilations)
    return [found, {key: value.clone() for key, value in model.state_dict().items()}], numbers


@pytest.mark.parametrize(
    "text", [TEXT, WITHIN, TEXT.replace("if self.ready:", "if self.ready == 1:"), PARAMETER, DERIVED]
)
def test_the_first_call_sets_up_what_the_others_have(text: str) -> None:
    better = split(text, FUNCTION, (code_of(text),))
    assert better is not None
    wanted, _ = ran(text, "")
    assert ran(text, "eager")[1][0], "nothing broke: the test proves nothing"
    for backend, numbers in (("", (0, 0)), ("eager", (0, 1))):
        found, after = ran(better, backend)
        torch.testing.assert_close(found, wanted)
        assert after == numbers


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.tensor(False)", "torch.tensor(True)"),
        ("        self.ready.fill_(True)\n", ""),
        ("return x * self.scale", "return x * self.scale * self.ready"),  # others ask for it
        ("if self.ready:", "if self.ready or len(x) > 8:"),
        ("if self.ready:", "if not self.ready:"),
        ("            return\n", "            return x\n"),
        ("class Norm(nn.Module)", "class Norm"),
        ("        if self.ready:", "        x = x + 1\n        if self.ready:"),
    ],
)
def test_another_branch_is_no_set_up(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert code_of(TEXT) == "if self.ready:"
    assert not any(sets_up(text, n) for n, _ in enumerate(text.split("\n"), 1))


def test_a_parameter_that_says_yes_at_first_is_no_flag() -> None:
    assert code_of(PARAMETER) == "if self.ready:"
    text = PARAMETER.replace("torch.tensor(False)", "torch.tensor(True)")
    assert not any(sets_up(text, n) for n, _ in enumerate(text.split("\n"), 1))


def test_a_module_whose_heirs_have_their_own_method_is_none() -> None:
    assert code_of(DERIVED) == "if self.ready:"
    assert OWN_SET_UP != DERIVED
    assert not any(sets_up(OWN_SET_UP, n) for n, _ in enumerate(OWN_SET_UP.split("\n"), 1))


def test_what_runs_before_or_after_the_call_does_not_go_with_it() -> None:
    text = TEXT.replace("        return x, total", "        print(total.item())\n        return x, total")
    assert split(text, FUNCTION, ("if self.ready:",)) is None


def test_an_object_that_is_no_module_may_have_modules(tmp_path: Path) -> None:
    """A trainer whose step is compiled: its model is set up in its first call."""
    better = split(OF_A_TRAINER, "Trainer.step", ("if self.ready:",))
    assert better is not None
    wanted = of_trainer(OF_A_TRAINER, "", tmp_path)[0]
    assert of_trainer(OF_A_TRAINER, "eager", tmp_path)[1], "nothing broke: the test proves nothing"
    for backend in ("", "eager"):
        found, breaks = of_trainer(better, backend, tmp_path)
        torch.testing.assert_close(found, wanted)
        assert not breaks


def of_trainer(text: str, backend: str, folder: Path) -> tuple[list[Any], int]:
    """What three steps return; graph breaks. Torch wraps a bound method that is of no file."""
    file = folder / f"norms{len(list(folder.iterdir()))}.py"
    file.write_text(text)
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("norms")
    exec(compile(text, str(file), "exec"), module.__dict__)
    step: Any = module.__dict__["Trainer"]().step
    called = torch.compile(step, backend=backend) if backend else step
    with Lens(strict=True) as lens:
        found = [tuple(one.detach() for one in called(torch.randn(5, 3))) for _ in range(3)]
    return found, len(lens.recording.graph_breaks)
