"""Elements that a tensor's number says; a branch on an element that a loop counts; rows whose gradient breaks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from compiler_lens.facts.breaks.rewrites import rewrite
from compiler_lens.recording.model import BreakCause, SourceLine
from compiler_lens.recording.source_text import Sources

FILE = "/app/picked.py"
ITEM = BreakCause("Data dependent operator", context="aten._local_scalar_dense.default")
BRANCH = BreakCause("Data-dependent branching")
ROWS = BreakCause("Backend compiler exception", context="Backend: aot_eager\nException:aten.nonzero.default")


def suggested(text: str, cause: BreakCause, containing: str) -> str:
    """The text with what is written in place of a line, or nothing."""
    number = next(n for n, line in enumerate(text.split("\n"), 1) if containing in line)
    at = SourceLine(FILE, number, "f", text.split("\n")[number - 1].strip())
    found = rewrite(cause, Sources({FILE: text}), at)
    if found is None:
        return ""
    pad = " " * (len(text.split("\n")[number - 1]) - len(at.code))
    before, after = ("\n".join(pad + line for line in lines) for lines in (found.before, found.after))
    assert before in text
    return text.replace(before, after)


def compiled(text: str, *given: Any) -> Any:
    """What a function returns as one graph."""
    torch._dynamo.reset()
    space: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), space)
    return torch.compile(space["f"], backend="eager", fullgraph=True)(*given)


TOPK = """\
import torch


def f(x, many):
    index = torch.topk(x.mean(0), many)[1]
    picked = torch.stack([x[:, index[i]] for i in range(many)], dim=-1)
    return picked.softmax(-1)
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("", ""),
        ("x[:, index[i]]", "x[..., index[i]]"),
        ("torch.topk(x.mean(0), many)[1]", "torch.sort(x.mean(0)).indices"),
        ("torch.topk(x.mean(0), many)[1]", "torch.argsort(x.mean(0))"),
    ],
)
def test_elements_that_a_number_says_are_taken_in_the_graph(old: str, new: str) -> None:
    text, x = TOPK.replace(old, new), torch.randn(4, 5)
    better = suggested(text, ITEM, "picked = ")
    assert "index_select(" in better
    space: dict[str, Any] = {}
    exec(compile(text, FILE, "exec"), space)
    torch.testing.assert_close(compiled(better, x, 3), space["f"](x, 3))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("torch.topk(x.mean(0), many)[1]", "[0, 1, 2]"),  # Python's numbers
        ("x[:, index[i]]", "x[1:, index[i]]"),
        ("x[:, index[i]]", "x[:, index[i:]]"),
    ],
)
def test_other_elements_are_left_as_they_are(old: str, new: str) -> None:
    assert "index_select" not in suggested(TOPK.replace(old, new), ITEM, "picked = ")


LOOP = """\
import torch


def f(x, hidden, done):
    out = []
    for t in range(x.shape[0]):
        if done[t].any():
            hidden = hidden * (1.0 - done[t])
        hidden = torch.tanh(x[t] + hidden)
        out.append(hidden)
    return torch.stack(out)
"""


def test_what_a_loop_counts_with_guards_nothing() -> None:
    better = suggested(LOOP, BRANCH, "if done")
    given = torch.randn(4, 3), torch.ones(3), torch.tensor([[0.0, 0, 0], [1, 0, 0], [0, 0, 0], [1, 1, 1]])
    space: dict[str, Any] = {}
    exec(compile(LOOP, FILE, "exec"), space)
    torch.testing.assert_close(compiled(better, *given), space["f"](*given))


def test_a_test_of_the_count_itself_may_guard() -> None:
    text = LOOP.replace("if done[t].any():", "if (done[t].any() & (t > 0)):").replace("1.0 - done[t]", "x[t - 1]")
    assert suggested(text, BRANCH, "if (done") == ""


MASK = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fill = torch.nn.Parameter(torch.empty(3).uniform_())

    def forward(self, x, mask):
        x = x.clone()
        x[mask] = self.fill.to(x.dtype)
        return x
"""


def test_a_row_whose_gradient_breaks_the_graph_is_chosen_for_the_whole() -> None:
    better = suggested(MASK, ROWS, "x[mask]")
    assert "torch.where(mask[..., None], self.fill.to(x.dtype), x)" in better
    found = []
    for text in (MASK, better):
        torch.manual_seed(0)
        space: dict[str, Any] = {}
        exec(compile(text, FILE, "exec"), space)
        model = space["Model"]()
        x = torch.ones(2, 4, 3)
        made = model(x, torch.arange(8).reshape(2, 4) % 3 == 0)
        made.sin().sum().backward()
        found.append((made.detach(), model.fill.grad))
    torch.testing.assert_close(found[0], found[1])


def test_rows_of_their_own_are_not_one_row() -> None:
    assert suggested(MASK.replace("self.fill.to(x.dtype)", "x[:, 0]"), ROWS, "x[mask]") == ""
