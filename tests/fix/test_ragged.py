"""Rows of which each is read up to a number of its own: all at once, in one graph."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from compiler_lens.cli import main
from compiler_lens.facts.breaks.rewrites.site import Seen
from compiler_lens.recording.model import BreakCause
from tests.fix.rewritten import assert_alike, others, seen

NUMBER = BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")
ITEM = BreakCause("Unsupported Tensor.item() call with capture_scalar_outputs=False")
HEAD = """
import torch

torch.manual_seed(0)
head = torch.nn.Linear(4, 1)


def f(x, mask):
"""
LAST = """
    lengths = mask.sum(dim=1).tolist()
    assert len(lengths) == 3
    x = x * 2
    last = torch.stack([x[i, n - 1] for i, n in enumerate(lengths)])
    return head(last).squeeze(-1)
"""
APPENDED = """
    ends = mask.sum(-1) - 1
    rewards = []
    for row, end in enumerate(ends.tolist()):
        rewards.append(head(x[row, end]).squeeze(-1).tanh())
    return torch.stack(rewards)
"""
TIMES = """
    lengths = mask.sum(-1)
    y = x.unsqueeze(2).expand(-1, -1, 3, -1) * 1.5
    pooled = [y[i, : int(lengths[i])].mean(dim=(0, 1)) for i in range(x.shape[0])]
    return head(torch.stack(pooled))
"""
TWO = """
    lengths = mask.sum(-1)
    return torch.stack([head(h[:n].max(dim=0).values + h[:n].mean(0)) for h, n in zip(x, lengths.tolist())])
"""
PADDED = """
    lengths = mask.sum(-1).tolist()
    y = x * 2
    kept = torch.zeros(y.shape[:2], dtype=torch.bool)
    for i, n in enumerate(lengths):
        y[i, n:] = float("-inf")
        kept[i, :n] = True
    return head(torch.where(kept[..., None], y, 0)), torch.tensor(lengths)
"""
PADDED_ROWS = """
    y, lengths = x.detach() * 2, mask.sum(-1)
    for row, n in zip(y, lengths):
        row[n:] = 0
    return head(y)
"""
SPANS = """
    y, lengths = x.detach() * 2, mask.sum(-1)
    starts = lengths - 1
    for i in range(y.shape[0]):
        y[i, :, starts[i] : starts[i] + 2] = 0.0
        y[i, ..., int(lengths[i]) :].zero_()
        y[i, starts[i]] = 7
    return head(y)
"""
WITHIN = """
    lengths = mask.sum(-1)
    out = []
    for i in range(x.shape[0]):
        n = lengths[i].item()
        summed = x[i, :n].sum(0)
        out.append(head(summed))
    return torch.cat(out)
"""


def given() -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(1)
    return torch.randn(3, 5, 4, requires_grad=True), torch.arange(5)[None] < torch.tensor([2, 5, 1])[:, None]


@pytest.mark.parametrize(
    ("body", "cause", "at", "written"),
    [
        (LAST, NUMBER, "tolist", "last = x[torch.arange(lengths.shape[0], device=lengths.device), lengths - 1]"),
        (APPENDED, NUMBER, "tolist", "rewards = head(x[torch.arange("),
        (TIMES, ITEM, "int(", "pooled = torch.where(rows, y, 0).sum((1, 2)) / rows.expand_as(y).sum((1, 2))"),
        (PADDED, NUMBER, "tolist", 'y.masked_fill_(rows, float("-inf"))\n    kept.masked_fill_(rows_, True)\n'),
        (PADDED_ROWS, ITEM, "row[n:]", "    y.masked_fill_(rows, 0)\n    return"),
        (SPANS, ITEM, "starts[i] :", "    y[torch.arange(y.shape[0], device=y.device), starts] = 7\n    return"),
        (TWO, NUMBER, "tolist", 'head(torch.where(rows, x, float("-inf")).amax(1) + (torch.where(rows, x, 0).sum(1)'),
    ],
)
def test_all_rows_are_computed_at_once(body: str, cause: BreakCause, at: str, written: str) -> None:
    text = HEAD + body.lstrip("\n")
    (new,) = [one for one in others(text, cause, at) if "torch.arange(" in one]
    assert written in new
    assert "tolist" not in new
    assert "= []" not in new
    assert_alike(text, new, *given())


def test_a_number_that_is_taken_within_the_loop() -> None:
    text = HEAD + WITHIN.lstrip("\n")
    (new,) = [one for one in others(text, ITEM, "item()") if "torch.arange(" in one]
    assert "    out = head(torch.where(rows, x, 0).sum(1))\n    return out.flatten(0, 1)\n" in new
    assert_alike(text, new, *given())


def test_the_mask_has_as_many_dimensions_as_torch_saw() -> None:
    text = HEAD + TIMES.lstrip("\n").replace("y = x.unsqueeze(2).expand(-1, -1, 3, -1) * 1.5", "y = x").replace(
        "(0, 1)", "0"
    )
    (new,) = [one for one in others(text, ITEM, "int(", seen(text, y=Seen("float32", 3, 10))) if "arange" in one]
    assert "    rows = rows[..., None]\n" in new
    assert_alike(text, new, *given())


@pytest.mark.parametrize(
    ("body", "old", "new"),
    [
        (LAST, "x[i, n - 1] for", "x[i, n - 1] * n for"),  # the number is more than a place
        (LAST, "return head", "print(lengths[0])\n    return head"),
        (LAST, "torch.stack([x", "list([x"),
        (LAST, "enumerate(lengths)]", "enumerate(lengths) if n]"),
        (LAST, "[x[i, n - 1]", "[head.weight[0].view(x[i, n - 1].shape)"),  # by its own shape
        (TIMES, "dim=(0, 1)", "dim=1"),  # as many as the number says are left
        (TIMES, ".mean(dim=(0, 1))", ".std(0)"),
        (TIMES, "torch.stack(pooled)", "torch.stack(pooled[1:])"),
        (PADDED, 'float("-inf")', "n"),
        (PADDED, "y[i, n:]", "y[i, n::2]"),
        (PADDED, "return head", "print(n)\n    return head"),
        (SPANS, "= 7", "= i"),
        (SPANS, "[i, :, starts", "[i, :2, starts"),
        (SPANS, "starts[i] + 2", "starts[i] + y[i].argmax()"),
        (WITHIN, "n = lengths", "print(i)\n        n = lengths"),
        (WITHIN, "head(summed)", "head(summed) + x[0, i]"),
    ],
)
def test_what_is_done_otherwise_stays(body: str, old: str, new: str) -> None:
    assert old in body
    text = HEAD + body.replace(old, new).lstrip("\n")
    causes = (NUMBER, "tolist") if "tolist" in text else (ITEM, "lengths[i]")
    assert not [one for one in others(text, *causes) if "torch.arange(" in one]


def test_fix_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    calls = """

step = torch.compile(f, backend="eager")
for n in (1, 2, 3):
    step(torch.randn(3, 5, 4), torch.arange(5)[None] < torch.tensor([2, 5, n])[:, None])
"""
    Path("pooled.py").write_text(HEAD + LAST.lstrip("\n") + calls)
    assert main(["fix", "--json", "--patch", "x.patch", "pooled.py"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert (best["after"]["graph_breaks"], best["results"]) == (0, "equal")
    assert (
        "+    last = x[torch.arange(lengths.shape[0], device=lengths.device), lengths - 1]\n"
        in Path("x.patch").read_text()
    )
