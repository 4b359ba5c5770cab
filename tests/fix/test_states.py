"""State that a function keeps of a number: what waits until the call is over, does the same, and breaks nothing."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.kept import keeps as is_kept

TEXT = """
import math

import torch

STEP = 2


class Part(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 4)
        self.best, self.last = float("-inf"), None
        self.limit = 0.5
        self.seen = 0
        self.average = 0.0

    def forward(self, x):
        y = self.layer(x)
        total = y.detach().sum()
        KEEPS
        return y.relu()

    def report(self):
        return self.best, self.last, self.seen, self.average


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = torch.nn.ModuleList(Part() for _ in range(2))
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        for part in (*self.parts, self.parts[0]):
            x = part(x)
        return x.sum()
"""
KEEPS = {
    "the largest so far": """
        top = y.max().item()
        # is it more?
        if top > self.best:
            self.best = top
            print("best", top)
""",
    "an average": """
        self.average = 0.9 * self.average + 0.1 * y.mean().item()
""",
    "a count and what is read on a condition": """
        size = float(y.abs().mean())
        self.seen += STEP
        if size > self.limit and self.seen > 1:
            self.last = round(total.item(), 3) + math.sqrt(self.seen)
        else:
            self.last = -total.item()
""",
    "where it trains": """
        if self.training:
            self.seen += 1
            self.best = max(self.best, y.max().item())
            print("best", self.best)
""",
    "in a loop": """
        for row in y:
            low = row.min().item()
            if low < self.average:
                self.average = low
""",
}


def program(keeps: str) -> str:
    return TEXT.replace("\n        KEEPS\n", keeps)


def line_of(keeps: str) -> str:
    """The first line in which a number is taken of a tensor."""
    return next(line.strip() for line in keeps.split("\n") if ".item()" in line or "float(" in line)


def made_two(keeps: str, line: str = "", text: str = "") -> str | None:
    return split(text or program(keeps), "Model.forward", (line or line_of(keeps),))


def trained(text: str, backend: str) -> tuple[Any, list[int]]:
    """What four calls return and leave in the parts, with their gradients; breaks, recompiles and compilations."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("states")
    exec(compile(text, "states.py", "exec"), module.__dict__)
    model = module.__dict__["Model"]()
    compiled = torch.compile(model, backend=backend) if backend else model
    losses = []
    with Lens(strict=True) as lens:
        for n in range(4):
            loss = compiled(torch.linspace(-1, 2 + n, 8).view(2, 4))
            loss.backward()
            losses.append(loss.item())
    found = lens.recording
    numbers = [len(one) for one in (found.graph_breaks, found.recompiles, found.compilations)]
    return (losses, [one.grad for one in model.parameters()], [one.report() for one in model.parts]), numbers


@pytest.mark.parametrize("backend", ["eager", pytest.param("aot_eager", marks=pytest.mark.long)])
@pytest.mark.parametrize("keeps", KEEPS.values(), ids=KEEPS)
def test_what_is_kept_of_a_number_is_kept_after_the_call(
    keeps: str, backend: str, capfd: pytest.CaptureFixture[str]
) -> None:
    text, new = program(keeps), made_two(keeps)
    assert new is not None
    runs = []
    for one, by in ((text, ""), (new, ""), (new, backend)):
        runs.append((*trained(one, by), capfd.readouterr().out))
    for found, _, said in runs[1:]:
        torch.testing.assert_close(found[:2], runs[0][0][:2])
        assert found[2] == runs[0][0][2]
        assert said == runs[0][2]
    assert runs[2][1] == [0, 0, 1]
    _, (breaks, recompiles, _) = trained(text, backend)
    assert breaks + recompiles, "nothing broke: the test proves nothing"
    assert new.count("#") == text.count("#") + 1
    begin = next(number for number, line in enumerate(new.split("\n"), 1) if "def forward_kept(" in line)
    assert not any(is_kept(new, number) for number in range(begin + 1, begin + 4))  # once


def test_what_is_read_on_a_condition_is_asked_for_its_number_there_alone() -> None:
    """It may have several elements elsewhere, and `.item()` raises then."""
    keeps = """
        if self.seen > 9:
            self.last = y.item()
"""
    assert made_two(keeps) is not None
    new = made_two(keeps)
    assert new is not None
    assert trained(new, "")[0][2] == trained(program(keeps), "")[0][2]
    assert trained(new, "eager")[0][2] == trained(program(keeps), "")[0][2]


BEST = KEEPS["the largest so far"]
NOT_KEPT: dict[str, tuple[str, str, str]] = {
    "compiled code reads it": (BEST, "return y.relu()", "return y.relu() * self.best"),
    "a method that it calls reads it": (BEST, "return y.relu()", "return y.relu() + len(self.report())"),
    "the caller reads it": (BEST, "return x.sum()", "return x.sum() * self.parts[0].best"),
    "something reads attributes that it does not name": (BEST, "return x.sum()", "return x.sum() + len(vars(self))"),
    "the object is handed to what it was given": (BEST, "return y.relu()", "return y.relu() * self.by(self)"),
    "it is a property": (BEST, "    def report(self)", "    best = 1\n\n    def best(self): ...\n\n    def report(self)"),
    "a number is read later": (BEST, "return y.relu()", "return y.relu() * top"),
    "a tensor is kept": ("\n        self.last = y\n        self.best = y.max().item()\n", "self.last = y\n", "self.last = y\n"),
    "what it compares with is set on the way": (
        BEST.replace("self.best:", "self.limit:"), "x = part(x)", "x = part(x)\n            part.limit = 3",
    ),
    "what it compares with may be a tensor": (
        BEST.replace("self.best:", "self.limit:").replace("top = ", "y.add_(self.limit)\n        top = "),
        "self.limit = 0.5", "self.limit = torch.ones(())",
    ),
    "a name of the function": (BEST.replace("> self.best", "> self.best + y.dim()"), "y.relu()", "y.relu()"),
    "a global that changes": (
        BEST.replace("> self.best", "> STEP"), "    def report(self):", "    def report(self):\n        global STEP\n        STEP = 4",
    ),
    "a tensor that is computed on a condition": (
        "\n        self.last = y.max().item() if self.seen > 9 else 0.0\n", "y.relu()", "y.relu()",
    ),
    "a number of the row before": (
        """
        for row in y:
            if self.seen:
                self.best = low
            low = row.min().item()
            self.seen = 1
""", "y.relu()", "y.relu()",
    ),
    "it is an elif": (
        "\n        if y.dim() > 2:\n            y = y * 2\n        elif y.max().item() > self.best:\n            self.best = 1\n",
        "y.relu()", "y.relu()",
    ),
    "it stands beside its branch": ("\n        if y.dim() > 1: self.best = y.max().item()\n", "y.relu()", "y.relu()"),
    "it stands beside another": ("\n        self.best = y.max().item(); z = y.relu()\n", "y.relu()", "y.relu()"),
    "a message of what may change": (
        BEST.replace('"best", top', "top, STEP"), "STEP = 2", "STEP = [2]",
    ),
    "attributes are set in another way": (BEST, "    def report(self)", "    def __setattr__(self, name, value): ...\n\n    def report(self)"),
    "an error is heard": (
        "\n        try:\n            self.best = y.max().item()\n        except ValueError:\n            pass\n", "y.relu()", "y.relu()",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("keeps", "old", "new"), NOT_KEPT.values(), ids=NOT_KEPT)
def test_what_may_do_something_else_later_is_done_there(keeps: str, old: str, new: str) -> None:
    text = program(keeps)
    assert old in text
    assert made_two(keeps, text=text.replace(old, new)) is None


def test_what_raised_is_not_done_again_at_the_next_call() -> None:
    new = made_two("\n        self.seen = int(y.max().item())\n")
    assert new is not None
    module = ModuleType("states")
    exec(compile(new, "states.py", "exec"), module.__dict__)
    model = module.__dict__["Model"]()
    compiled = torch.compile(model, backend="eager")
    for _ in range(2):
        with pytest.raises(ValueError, match="NaN"):
            compiled(torch.full((2, 4), torch.nan))
        compiled(torch.ones(2, 4))
    assert model.parts[1].seen == int(model.parts[1].layer(model.parts[0](torch.ones(2, 4))).max())


def test_what_is_kept_on_a_condition_that_compiled_code_asks_for_waits_there() -> None:
    new = made_two("\n        if y.dim() > 1:\n            self.last = y.max().item()\n")
    assert new is not None
    assert "        if y.dim() > 1:\n            if torch.compiler.is_compiling():\n" in new
    assert "            else:\n                self.forward_kept(y.max())\n        return" in new


def test_a_number_that_compiled_code_does_not_change_may_be_read_by_both() -> None:
    keeps = BEST.replace("> self.best", "> self.limit")
    text = program(keeps).replace("return y.relu()", "return y.relu() * self.limit")
    assert made_two(keeps, text=text) is not None
