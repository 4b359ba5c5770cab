"""A line that is mended in a function which the same changes keep out of the compiler needs no mending."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.fix import Offer, Target
from compiler_lens.measure.fix.choices import doubtful, is_kept_out
from compiler_lens.recording.model import SourceLine

MARK = Offer(
    Target(SourceLine("/app/a.py", 9, "Loss.forward", "if x.sum() > 0:"), "break"),
    Lines("/app/a.py", 8, ("def forward(self, x):",), ("@torch.compiler.disable", "def forward(self, x):")),
    is_final=True,
    is_last_resort=True,
)


def mended(file: str, function: str) -> Offer:
    at = SourceLine(file, 12, function, "y = x.item()")
    return Offer(Target(at, "break"), Lines(file, 12, ("y = x.item()",), ("y = x.detach()",)))


@pytest.mark.parametrize(
    ("file", "function", "expected"),
    [
        ("/app/a.py", "Loss.forward", True),
        ("/app/a.py", "forward", True),
        ("/app/a.py", "Loss.other", False),
        ("/app/b.py", "Loss.forward", False),
    ],
)
def test_what_stands_in_a_marked_function_is_doubtful(file: str, function: str, *, expected: bool) -> None:
    offer = mended(file, function)
    assert is_kept_out(offer, [MARK]) is expected
    assert (offer in doubtful((offer, MARK))) is expected
    assert not is_kept_out(MARK, [MARK])
    assert not is_kept_out(offer, [offer])


def test_a_message_that_compiled_code_leaves_out_is_doubtful_where_functions_are_python() -> None:
    """The line that says it may be one that Python runs by then."""
    at = SourceLine("/app/b.py", 12, "Loss.forward", "if bad.any():")
    guarded = "if not torch.compiler.is_compiling() and (bad.any()):"
    offer = Offer(Target(at, "break"), Lines("/app/b.py", 12, ("if bad.any():",), (guarded,)))
    assert offer.drops
    assert offer in doubtful((offer, MARK))


PROGRAM = """\
    import torch

    def loss(y, lengths):
        losses = []
        for i in range(y.size(0)):
            part = y[i, : lengths[i].item()]
            best = max([part, -part], key=lambda one: one.sum().item())
            losses.append(best.square().mean())
        return torch.stack(losses).mean()

    net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))

    @torch.compile(backend="eager")
    def step(x, lengths):
        y = net(x)
        return loss(y, lengths) + 0.1 * y.abs().mean()

    torch.manual_seed(0)
    for n in range(5):
        step(torch.randn(4, 8), torch.tensor([3, 5, 8, 2 + n])).backward()
    """


def test_it_is_left_out_of_the_patch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(dedent(PROGRAM))
    assert main(["fix", "--own-inputs", "--json", "train.py"]) == 0
    patch = json.loads(capsys.readouterr().out)["best"]["patch"]
    assert "@torch.compiler.disable" in patch
    assert ".detach()" not in patch
