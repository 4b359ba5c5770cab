"""Lists that a function is given, and adds numbers to: Python adds them after the call, and nothing is compiled again."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.bookkeeping import split
from compiler_lens.facts.measured.collected import added_to, collects

TEXT = """\
import torch


def share(ratio):
    return (ratio > 1.0).float().mean().item()


def loss_of(x, w, stats):
    ratio = (x * w).exp()
    with torch.no_grad():
        stats["kl"].append((ratio - 1).mean().item())
        stats["share"].append(share(ratio))
    return ratio.mean()
"""
KL = 'stats["kl"].append((ratio - 1).mean().item())'
SHARE = 'stats["share"].append(share(ratio))'


def ran(text: str, backend: str = "") -> tuple[Any, tuple[int, int]]:
    """What five calls leave, and return; graph breaks and recompiles."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    module = ModuleType("losses")
    exec(compile(text, "losses.py", "exec"), module.__dict__)
    function = module.__dict__["loss_of"]
    called = torch.compile(function, backend=backend) if backend else function
    stats, w = dict[str, list[float]](kl=[], share=[]), torch.ones(3, requires_grad=True)
    with Lens(strict=True) as lens:
        losses = [called(torch.randn(4, 3), w, stats) for _ in range(5)]
    sum(losses).backward()
    found = ([one.detach() for one in losses], stats, w.grad)
    return found, (len(lens.recording.graph_breaks), len(lens.recording.recompiles))


def test_they_are_there_after_the_call() -> None:
    better = split(TEXT, "loss_of", (KL, SHARE))
    assert better is not None
    wanted, _ = ran(TEXT)
    _, before = ran(TEXT, "eager")
    assert all(before), "nothing broke: the test proves nothing"
    for backend in ("", "eager"):
        found, after = ran(better.replace("return (ratio > 1.0).float().mean().item()", "return 0.5"), backend)
        assert found[1]["kl"] == pytest.approx(wanted[1]["kl"])
        assert found[1]["share"] == [0.5] * 5
        torch.testing.assert_close((found[0], found[2]), (wanted[0], wanted[2]))
        assert after == (0, 0)


def line_of(text: str, code: str) -> int:
    return next(number for number, one in enumerate(text.split("\n"), 1) if one.strip() == code)


def test_nobody_else_is_asked_for_what_a_function_is_given() -> None:
    assert collects(TEXT, line_of(TEXT, KL))
    assert added_to(TEXT, line_of(TEXT, KL)) == frozenset()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return ratio.mean()", "return ratio.mean() * len(stats)"),
        ("return ratio.mean()", "return ratio.mean() + stats['kl'][-1]"),
        ("    ratio =", "    stats = dict(stats)\n    ratio ="),
        ("w, stats)", "w, other)\n    stats = other\n"),
        ('stats["kl"]', "stats[str(x.dim())]"),
    ],
)
def test_a_list_that_is_used_otherwise_stays(old: str, new: str) -> None:
    text, code = TEXT.replace(old, new, 1), KL.replace(old, new)
    assert split(text, "loss_of", (code,)) is None


def test_what_another_function_is_given_is_not_at_hand_after_the_call() -> None:
    text = TEXT + "\n\ndef step(x, w, stats):\n    return loss_of(x, w, stats) * 2\n"
    assert split(text, "step", (KL,)) is None


ROUNDS = """
def loss_of(x, w, stats):
    total = 0.0
    for column in range(3):
        part = (x[:, column] * w[column]).exp().mean()
        stats["kl share".split()[column % 2]].append(1.0)
        stats[column].append(part.item())
        total = total + part
    return total
"""
PART = "stats[column].append(part.item())"


def test_what_a_round_adds_goes_to_the_list_of_its_number() -> None:
    text = "import torch\n\n" + ROUNDS.replace('        stats["kl share".split()[column % 2]].append(1.0)\n', "")
    better = split(text, "loss_of", (PART,))
    assert better is not None
    left: list[object] = []
    for one in (text, better):
        for backend in ("", "eager"):
            torch._dynamo.reset()
            module = ModuleType("rounds")
            exec(compile(one, "rounds.py", "exec"), module.__dict__)
            function = module.__dict__["loss_of"]
            called = torch.compile(function, backend=backend) if backend else function
            torch.manual_seed(0)
            stats: dict[int, list[float]] = {column: [] for column in range(3)}
            with Lens(strict=True) as lens:
                losses = [called(torch.randn(4, 3), torch.ones(3), stats) for _ in range(3)]
            left.append((torch.stack(losses), {column: torch.tensor(found) for column, found in stats.items()}))
    assert not lens.recording.graph_breaks
    for found in left[1:]:
        torch.testing.assert_close(found, left[0])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("for column in range(3)", "for column in x"),
        ("total = total + part", "column = 0"),
        (PART, "stats[column][total].append(part.item())"),
        ("append(1.0)", "clear()"),
    ],
)
def test_what_a_round_has_otherwise_stays(old: str, new: str) -> None:
    text = "import torch\n\n" + ROUNDS.replace(old, new)
    assert split(text, "loss_of", (PART.replace(old, new),)) is None
