"""What the end of a function computes of tensors is computed with what is compiled, if it is the same there."""

from __future__ import annotations

import ast
from textwrap import dedent
from typing import Any

import pytest
import torch

from compiler_lens import Lens
from compiler_lens.facts.measured.beforehand import beforehand
from compiler_lens.facts.measured.endings import ending, with_ending
from tests.alike import loaded

HEAD = "import time\nimport torch\nfrom torch.distributions import Categorical\n\n\n"
LOSS = HEAD + dedent("""
    def loss(logits, action, old, clip):
        dist = Categorical(logits=logits)
        new = dist.log_prob(action)
        policy = -torch.min((new - old).exp(), (new - old).exp().clamp(1 - clip, 1 + clip)).mean()
        far = (old - new).mean().item()  # how far it is
        stats = {"far": far, "entropy": dist.entropy().mean().item(), "time": time.time()}
        if far > 0.5:
            print("far", far)
            policy = policy * 0.0
        return policy + 0.5 * (new - 1).pow(
            2
        ).mean() - 0.01 * dist.entropy().mean(), stats  # the loss
""").lstrip("\n")
LINE = 'stats = {"far": far, "entropy": dist.entropy().mean().item(), "time": time.time()}'


def run(text: str, *, compiled: bool) -> tuple[list[Any], list[str]]:
    """What it returns, with gradients, and how graphs break."""
    torch._dynamo.reset()
    module = loaded(text)
    loss = torch.compile(module.__dict__["loss"], backend="eager") if compiled else module.__dict__["loss"]
    out: list[Any] = []
    with Lens(strict=True) as lens:
        for scale in (0.1, 3.0):
            logits = (torch.arange(6.0).reshape(2, 3) * scale).requires_grad_()
            found, stats = loss(logits, torch.tensor([0, 2]), torch.full((2,), -1.1), 0.2)
            found.backward()
            out += [found, stats["far"], stats["entropy"], len(stats), logits.grad]
    return out, [event.root.gb_type for event in lens.recording.graph_breaks]


def test_parts_of_a_loss_are_computed_with_what_is_compiled(capfd: pytest.CaptureFixture[str]) -> None:
    new = with_ending(LOSS, "loss", LINE)
    assert new is not None
    end = new[new.index("def loss(") : new.index("def loss_computed")]
    assert "far = kept.item()  # how far it is" in end
    assert "return policy + kept_3 - kept_4, stats  # the loss" in end
    assert "dist" not in end.replace("dist.log_prob", "")
    wanted, _ = run(LOSS, compiled=False)
    said = capfd.readouterr()
    for compiled in (False, True):
        found, breaks = run(new, compiled=compiled)
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)
        assert (breaks, capfd.readouterr()) == ([], said)
    assert said.out.count("far") == 1, "one branch alone is tested"
    assert run(LOSS, compiled=True)[1], "nothing broke: the test proves nothing"


def moved(end: str, known: str = "x y dist") -> list[str]:
    text = f"{HEAD}def loss(self, x, y, dist):\n    z = x.sin()\n{end}"
    body = ast.parse(text).body[-1]
    assert isinstance(body, ast.FunctionDef)
    found = ending(text, "loss", end.partition("\n")[0].strip())
    assert found is not None, "the end is none"
    return [found.site.source(one) for one in beforehand(found.site, found.end, {*known.split(), "z"})]


MOVED = {
    "a number": ("    n = (x - y).mean().item()\n    return n, z\n", ["(x - y).mean()"]),
    "what a function of torch's gives": ("    n = torch.where(x > 0, x, y).sum().item()\n    return n\n", None),
    "the first of several": ("    n = x.any() and y.any()\n    return z, n\n", ["x.any()"]),
    "what is asked for one of two": ("    n = 1 if x.any() else y.sum()\n    return z, n\n", ["x.any()"]),
    "a message's": ("    print(x.sum().item())\n    return z\n", ["x.sum()"]),
    "what a list of the object's gets": ("    self.seen.append(x.mean().item())\n    return z\n", ["x.mean()"]),
    "of what the end does not change": (
        "    if x.sum().item() > 0:\n        y = y * 2\n    return (x * z).sum() + (y * z).sum()\n",
        ["(x * z).sum()"],
    ),
    "entropy": ("    return dist.entropy().mean().item(), z\n", ["dist.entropy().mean()"]),
}


@pytest.mark.parametrize(("end", "wanted"), MOVED.values(), ids=MOVED)
def test_what_is_computed_in_any_case_is_computed_before(end: str, wanted: list[str] | None) -> None:
    assert moved(end) == (wanted or ["torch.where(x > 0, x, y).sum()"])


STAYS = {
    "what an `if` asks": "    if not (x > 0).all():\n        z = z + 1\n    return z\n",
    "one branch's": "    if z.sum().item() > 0:\n        return x.mean()\n    return z\n",
    "after a way out": "    if z.sum().item() > 0:\n        return z\n    return x.mean()\n",
    "after a check": "    assert z.sum().item() > 0\n    return x.mean()\n",
    "one side's": "    return x.mean() if z.sum().item() > 0 else y.mean()\n",
    "a view": "    n = z.sum().item()\n    return x.reshape(-1), n\n",
    "what is drawn": "    n = z.sum().item()\n    return torch.rand_like(x).mean() + n\n",
    "what may be another's": "    n = z.sum().item()\n    return self.x.mean() + n\n",
    "what may be in a list": "    self.seen.append(z.sum().item())\n    return torch.stack(y).mean()\n",
    "what a name is then": "    x = y * z.sum().item()\n    return x.mean()\n",
}


@pytest.mark.parametrize("end", STAYS.values(), ids=STAYS)
def test_what_may_be_another_then_stays(end: str) -> None:
    assert set(moved(end)) <= {"z.sum()"}


CHANGES = {
    "by an operator": "    n = z.sum().item()\n    z += 1\n    return x.mean() + n\n",
    "an element": "    n = z.sum().item()\n    z[0] = 1\n    return x.mean() + n\n",
    "data": "    n = z.sum().item()\n    z.data = y\n    return x.mean() + n\n",
    "by a setting": "    n = z.sum().item()\n    torch.set_grad_enabled(False)\n    return x.mean() + n\n",
    "by a block": "    n = z.sum().item()\n    with torch.no_grad():\n        n = x.mean() + n\n    return n\n",
    "by out=": "    n = z.sum().item()\n    torch.sin(y, out=z)\n    return x.mean() + n\n",
    "a tensor that is called as a logger": "    n = z.sum().item()\n    log = x\n    log.clamp_(1)\n    return x.mean() + n\n",
    "a list": "    n = z.sum().item()\n    y.append(z)\n    return torch.stack(y).mean() + n\n",
}


@pytest.mark.parametrize("end", CHANGES.values(), ids=CHANGES)
def test_an_end_that_changes_something_computes_all_of_its_own(end: str) -> None:
    assert not moved(end)


def test_a_method_of_the_files_own_is_no_distributions() -> None:
    own = "\n\nclass Flow:\n    def log_prob(self, x):\n        return x\n"
    text = f"{HEAD}def loss(x, dist):\n    z = x.sin()\n    n = z.sum().item()\n    return dist.log_prob(z), n\n"
    assert with_ending(text, "loss", "n = z.sum().item()")
    assert with_ending(text + own, "loss", "n = z.sum().item()") is None
    without = text.replace("from torch.distributions import Categorical\n", "")
    assert with_ending(without, "loss", "n = z.sum().item()") is None
