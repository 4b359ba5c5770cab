"""Settings that put messages off, or leave them out, are offered where a file's messages stay what they say."""

from __future__ import annotations

import linecache
import logging
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.overview.explanation import explain

FILE = "/home/user/app/user_prints.py"
NET = """
import logging
import torch
logger = logging.getLogger("user_prints")

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(4)
        self.register_buffer("ema", torch.zeros(4))

    def update(self, h):
        OTHER

    def forward(self, x):
        h = x * 2
        view = h.view(-1)
        FIRST
        SECOND
        return h.sum()

net = Net()
"""


@pytest.fixture(autouse=True)
def _lines_of_the_test() -> Iterator[None]:
    yield
    linecache.cache.pop(FILE, None)
    sys.modules.pop("user_prints", None)


def offered(first: str, second: str, other: str = "return h") -> str:
    """The setting that the card of a real break offers."""
    text = NET.replace("FIRST", first).replace("SECOND", second).replace("OTHER", other)
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    module = ModuleType("user_prints")
    sys.modules["user_prints"] = module
    exec(compile(text, FILE, "exec"), module.__dict__)
    torch.compiler.reset()
    with Lens(strict=True) as lens, torch.no_grad():
        torch.compile(module.net, backend="eager")(torch.ones(2, 4))
    settings = [card.setting.code for card in explain(lens.recording).cards if card.setting]
    assert lens.recording.graph_breaks, "nothing broke: the test proves nothing"
    return settings[0] if settings else ""


@pytest.mark.parametrize(
    ("first", "second", "other"),
    [
        ('print("before", self.ema)', "self.ema.mul_(0.9).add_(h.mean(0))", ""),
        ('print("before", h)', "h += 1", ""),
        ('print("before", h)', "view.zero_()", ""),
        ('print("before", view)', "h[0] = 1", ""),
        ("for _ in range(2):\n            h.add_(1)\n            print(h)", "pass", ""),
        ("print(h)", "torch.add(h, 1, out=h)", ""),
        ("print(self.ema)", "self.update(h)", "self.ema.copy_(h[0])"),
        ("print(self.norm.running_mean)", "h = self.norm(h)", ""),
    ],
)
def test_a_print_of_what_is_changed_in_place_afterwards_is_not_put_off(
    first: str, second: str, other: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert offered(first, second, other or "return h") == ""


@pytest.mark.parametrize(
    ("first", "second"), [('print("before", self.ema)', "h = h + self.ema"), ("h.add_(1)", 'print("after", h)')]
)
def test_a_print_of_what_stays_as_it_is_is_put_off(first: str, second: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert offered(first, second) == "torch._dynamo.config.reorderable_logging_functions = {print}"


def test_what_a_handler_of_the_file_counts_is_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging.getLogger("user_prints"), "level", logging.CRITICAL)
    assert "ignore_logging_functions" in offered('logger.info("so far")', "pass")
    counting = "class Count(logging.Handler):\n    def emit(self, record):\n        self.n = 1\n\n"
    monkeypatch.setattr(sys.modules[__name__], "NET", NET.replace("class Net", f"{counting}class Net"))
    assert not offered('logger.info("so far")', "pass")
