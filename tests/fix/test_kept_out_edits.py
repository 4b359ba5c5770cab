"""A line that is mended in a function which the same changes keep out of the compiler needs no mending."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest

from compiler_lens.cli import main
from compiler_lens.facts.measured.edits import Apart, Lines, Split
from compiler_lens.facts.measured.fix import Offer, Target
from compiler_lens.measure.fix.choices import doubtful, is_kept_out, kept_as_written, loses, without_offer
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


def apart(name: str, *lines: str) -> Offer:
    at = SourceLine("/app/a.py", 9, name, "if x.sum() > 0:")
    return Offer(Target(at, "break"), Apart("/app/a.py", name, ("if x.sum() > 0:", *lines)), is_final=True)


def test_a_line_that_would_lose_its_number_is_left_to_the_function_in_parts_that_has_it() -> None:
    offer = mended("/app/a.py", "Loss.forward")
    assert loses(offer)
    (kept,) = kept_as_written((offer, apart("Loss.forward")), (offer,))
    assert kept.edit == apart("Loss.forward", "y = x.item()").edit
    assert kept.may_lose == {("/app/a.py", "y = x.item()"), ("/app/a.py", "y = x.detach()")}
    assert kept_as_written((offer, apart("Loss.step")), (offer,)) == ()
    assert not loses(MARK)


TWO = """\
class Loss:
    def forward(self, x):
        begun = clock()
        result, kept = self.forward_computed(x)
        self.taken.append(kept.item())
        return result
"""


def test_a_function_in_two_of_which_one_is_in_parts_is_in_parts_once_with_all_that_is_python() -> None:
    at = SourceLine("/app/a.py", 7, "Loss.forward", "self.taken.append(x.sum().item())")
    split = Offer(Target(at, "break"), Split("/app/a.py", "Loss.forward"))
    (whole,) = without_offer((split, apart("Loss.forward_computed")), split, {"/app/a.py": TWO})
    lines = ("begun = clock()", "self.taken.append(kept.item())", "self.taken.append(x.sum().item())")
    assert whole.edit == apart("Loss.forward", *lines).edit
    assert {("/app/a.py", line) for line in lines} <= whole.may_lose


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
