"""Messages of what a tensor holds wait until compiled code is left, and say what they said."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.said import says

TEXT = """\
import logging
import warnings

import torch

log = logging.getLogger("said")


def checked(y, name="y"):
    if torch.min(y) < -1.0:
        print("low", name, round(torch.min(y).item(), 3), float(y.sum()))
    if not torch.all(y < 9.0):
        print(f"{name} is {y.max():.3f} of {tuple(y.shape)}", flush=True)
        log.warning("%s is high", name)
    y = y * 2
    y.add_(1)
    return y


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.calls = 0

    def forward(self, x):
        y = self.layer(checked(x, "x"))
        if self.training and (y > 5.0).any():
            print("large", self.calls, y[0].tolist())
        y.mul_(2)
        return checked(y)


model = torch.compile(Model())
"""
FUNCTION = "Model.forward"
LOW, HIGH, LARGE = "if torch.min(y) < -1.0:", "if not torch.all(y < 9.0):", "if self.training and (y > 5.0).any():"
INNER = 'print("large", self.calls, y[0].tolist())'


def ran(text: str, backend: str) -> tuple[list[torch.Tensor], tuple[int, int]]:
    """What calls of the model return, with graph breaks and compilations."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    module = ModuleType("said")
    exec(compile(text, "said.py", "exec"), module.__dict__)
    model = module.__dict__["Model"]()
    called = torch.compile(model, backend=backend) if backend else model
    with Lens(strict=True) as lens:
        found = [called(torch.randn(4, 3) * 2 * n).detach() for n in range(5)]
    return found, (len(lens.recording.graph_breaks), len(lens.recording.compilations))


@pytest.mark.parametrize("codes", [(LOW, HIGH, LARGE), (LOW, HIGH, LARGE, INNER), (INNER, LOW, HIGH)])
def test_messages_wait_and_say_what_they_said(codes: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    better = split(TEXT, FUNCTION, codes)
    assert better is not None
    wanted, _ = ran(TEXT, "")
    words = capsys.readouterr().out
    assert {"low", "large", "y"} <= set(words.split()), "nothing was said: the test proves nothing"
    assert ran(TEXT, "eager")[1][0], "nothing broke: the test proves nothing"
    capsys.readouterr()
    for how, numbers in (("", (0, 0)), ("eager", (0, 1))):
        found, after = ran(better, how)
        torch.testing.assert_close(found, wanted)
        assert after == numbers
        assert capsys.readouterr().out == words


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (LARGE, "if self.training and self.calls:"),  # of no tensor
        (LARGE, "if (y > 5.0).any() and self.training:"),  # of which Python asks the tensor
        (LARGE, "if not y.sum():"),
        (LARGE, "if (top := y.max()) > 5.0:"),
        (LARGE, "if y.sum().mul_(2) > 5.0:"),  # which changes something
        (INNER, "print(y.sum()); self.calls += 1"),
        (INNER, "self.calls += 1"),
        (INNER, "print(y.mul_(2))"),
        (INNER, "self.log.info(y.sum())\n            self.log = None"),
        (INNER, "print('''large\n            ''', y.sum())"),
        (INNER, "print('large')\n        else:\n            print('small')"),
    ],
)
def test_what_is_no_message_alone_does_not_wait(old: str, new: str) -> None:
    text = TEXT.replace(old, new)
    assert text != TEXT
    assert not says(text, text[: text.index("y = self.layer(")].count("\n") + 2)
    assert says(TEXT, TEXT[: TEXT.index(LARGE)].count("\n") + 1)
