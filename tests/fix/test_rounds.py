"""Rounds of a loop that stays Python are compiled, and compute what they did."""

from __future__ import annotations

import ast
from textwrap import dedent

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.live import needed
from compiler_lens.facts.measured.parts import in_parts, stays, with_parts
from tests.alike import loaded

TEXT = dedent("""
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.cell, self.head, self.rates = nn.Linear(3, 3), nn.Linear(3, 2), []

        def forward(self, x, lengths):
            h = torch.zeros(x.shape[0], 3)
            outs, best, n = [], 0.0, 0
            buf = torch.zeros(x.shape[1], x.shape[0], 3)
            for t in range(x.shape[1]):
                z = torch.tanh(self.cell(x[:, t]) + h * 2)
                m = (t < lengths).float()[:, None]
                h = m * z + (1 - m) * h
                outs.append(self.head(h))
                if h.norm().item() > best:
                    best = h.norm().item()
                    h = torch.sin(h) / (best + 1) * 2 - h
                buf[t] = h * 3
                n += 1
                if n > 4:
                    break
            while best > 1:
                h = torch.tanh(self.cell(h)) * 0.5
                best = h.norm().item()
            return torch.stack(outs).sum() + h.mean() * buf.sum()
""")
BREAKING = ("if h.norm().item() > best:", "best = h.norm().item()")


def test_rounds_are_parts_that_are_given_their_element() -> None:
    new = with_parts(TEXT, "Net.forward", BREAKING)
    assert new is not None
    assert "        h = torch.zeros(x.shape[0], 3)\n        outs, best, n = [], 0.0, 0\n" in new  # no graph's worth
    assert "            x_t = x[:, t]\n            h, outs_next = self.forward_computed(lengths, x_t, h, t)\n" in new
    assert "            outs.append(outs_next)\n            if h.norm().item() > best:\n" in new
    assert (
        "                h = self.forward_computed_2(h, best)\n            buf_next = self.forward_computed_3(h)"
        not in new
    )
    assert "        outs_all = torch.stack(outs)\n        return self.forward_computed_4(outs_all, h, buf)\n" in new
    before, after = loaded(TEXT).__dict__["Net"](), loaded(new).__dict__["Net"]()
    lengths = torch.tensor([2, 5])
    for rounds in (1, 3, 7):
        x = torch.linspace(-2, 2, 6 * rounds).reshape(2, rounds, 3)
        torch.testing.assert_close(after(x, lengths), before(x, lengths), rtol=0, atol=0)

    torch._dynamo.reset()
    compiled = torch.compile(after, backend="eager")
    with Lens(strict=True) as lens:
        for rounds in (3, 6, 4, 8):
            x = torch.linspace(-2, 2, 6 * rounds).reshape(2, rounds, 3)
            torch.testing.assert_close(compiled(x, lengths), before(x, lengths))
    assert not lens.recording.graph_breaks
    names = [one.function for one in lens.recording.compilations]
    assert names.count("forward_computed") <= 4  # t: 0, 1, any; gradients


def test_lines_of_a_loop_that_stay_are_those_of_the_text() -> None:
    found = in_parts(TEXT, "Net.forward", BREAKING)
    assert found is not None
    kept = stays(found, TEXT)
    assert {"if h.norm().item() > best:", "n += 1", "while best > 1:"} <= kept
    assert "z = torch.tanh(self.cell(x[:, t]) + h * 2)" not in kept
    assert not any("outs_next" in line for line in kept)


def test_a_loop_without_a_line_that_stays_is_compiled_whole() -> None:
    new = with_parts(TEXT, "Net.forward", ("outs, best, n = [], 0.0, 0",))
    assert new is not None
    assert "x_t" not in new
    assert "outs.append(self.head(h))" in new


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ("y = x + 1\nz = y * x", {"x"}),
        ("for t in range(n):\n    y = t + y", {"range", "n", "y"}),
        ("for t in range(n):\n    y = t\n    z = y", {"range", "n"}),
        ("while x > 0:\n    y = x\n    x = y - 1", {"x"}),
        ("if a:\n    y = 1\nelse:\n    y = 2\nz = y", {"a"}),
        ("if a:\n    y = 1\nz = y", {"a", "y"}),
        ("with f() as g:\n    y = g + 1", {"f"}),
    ],
)
def test_what_statements_need_is_read_before_it_has_another_value(body: str, names: set[str]) -> None:
    assert needed(ast.parse(body).body) == names


def test_what_is_read_after_statements_is_needed_unless_they_give_it_a_value() -> None:
    assert needed(ast.parse("y = 1").body, {"y", "z"}) == {"z"}


NESTED = dedent("""
    import torch


    class Net:
        def forward(self, x, y):
            if x.sum().item() > 0:
                text = str('''a
                b''')
                x = torch.sin(x) + len(text)
            elif y is None:
                x = torch.cos(x) + torch.sin(x)
            else:
                with torch.no_grad():
                    z = torch.exp(-y) + torch.sin(y)
                x = x + z * torch.cos(x)
            return x
""")


def test_branches_have_parts_and_texts_of_several_lines_stay_where_they_are() -> None:
    new = with_parts(NESTED, "Net.forward", ("if x.sum().item() > 0:",))
    assert new is not None
    assert "            x = torch.sin(x) + len(text)\n        elif y is None:\n" in new
    before, after = loaded(NESTED).__dict__["Net"]().forward, loaded(new).__dict__["Net"]().forward
    for x, y in ((torch.ones(2), None), (-torch.ones(2), None), (-torch.ones(2), torch.ones(2))):
        torch.testing.assert_close(after(x, y), before(x, y), rtol=0, atol=0)


LEFT = dedent("""
    import torch
    from torch import nn


    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.step, self.seen = nn.Linear(3, 3), 0

        def forward(self, x, rounds, targets=None):
            self.seen += 1
            kept, last = x, x
            for t in range(rounds):
                x = torch.tanh(self.step(x)) + x * 0.5
                kept = kept + torch.relu(x) * 2 + 1
                if x.sum().item() > 1 and self.seen > 2:
                    LEAVES
                kept = torch.sigmoid(x) + 1
                if targets is not None:
                    x = x + targets[:, t] * 2
                last = torch.cos(kept) + torch.sin(x)
            else:
                kept = kept * 2 + torch.sin(last)
            return kept.sum() + last.sum()
""")


@pytest.mark.parametrize("leaves", ["break", "continue"])
@pytest.mark.parametrize("given", [True, False])
def test_what_is_read_where_a_round_is_left_early_is_given_back(leaves: str, given: bool) -> None:
    text = LEFT.replace("LEAVES", leaves)
    new = with_parts(text, "Net.forward", ("if x.sum().item() > 1 and self.seen > 2:",))
    assert new is not None
    assert "x, kept = self.forward_computed(x, kept)" in new
    before, after = loaded(text).__dict__["Net"](), loaded(new).__dict__["Net"]()
    for rounds in (0, 1, 3, 4, 2):
        x = torch.linspace(0, 2, 6).reshape(2, 3)
        targets = torch.arange(24.0).reshape(2, 3, 4)[:, :, :].transpose(1, 2) if given else None
        wanted = before(x, rounds, targets)
        torch.testing.assert_close(after(x, rounds, targets), wanted, rtol=0, atol=0)


@pytest.mark.parametrize(
    ("line", "is_taken"),
    [
        ("y = x[t] * 2 + torch.sin(y) * torch.cos(y)", True),
        ("y = (x[t] if t else y) * 2", False),
        ("x[t] = torch.sin(x[t]) * y + 1", False),
        ("y = y + x[t]; x.add_(1)", False),
        ("y = torch.sin(x[t + 1]) + x[t:].sum() * 2", False),
        ("y = torch.sin(x[:, t]) + x[0, t].sum() * 2", True),
        ("if y is x: y = x[t] * 2", False),
    ],
)
def test_an_element_is_taken_only_where_each_round_takes_it_as_it_was(line: str, is_taken: bool) -> None:
    body = (
        "    for t in range(3):\n        "
        + line.replace("; ", "\n        ")
        + "\n        y = torch.cos(y.item() + x)\n"
    )
    text = f"import torch\n\n\ndef f(x, y):\n{body}    return y\n"
    new = with_parts(text, "f", ("y = torch.cos(y.item() + x)",))
    assert new is not None
    assert ("x_t = x[" in new) is is_taken
