"""What compiles as it is written and is probably not meant; each beside programs where it is meant, and nothing is said."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- as it is written everywhere

from compiler_lens import Lens, explain
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.overview.unintended import Doubt

RULES = {doubt.value for doubt in Doubt}


def doubts(lens: Lens) -> list[Finding]:
    return [finding for finding in explain(lens.recording).findings if finding.rule in RULES]


def told(lens: Lens) -> list[tuple[str, str]]:
    """Rule and line of code of each doubt."""
    return [(each.rule, each.place.code if each.place else "") for each in doubts(lens)]


def recorded(function: Callable[..., object], *inputs: Tensor, backend: str = "eager") -> Lens:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(function, backend=lens if backend == "inductor" else backend)(*inputs)
    return lens


# -- dropout


class Head(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.drop, self.out = nn.Dropout(0.1), nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.drop(x))


class Forgets(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x.relu(), 0.2) + 1


class Wanted(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.dropout(x.relu(), 0.2, training=True) + 1


class Attends(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1 if self.training else 0.0)


X = torch.ones(2, 3, 4, 4)


@pytest.mark.parametrize(
    ("model", "line"),
    [
        (Head(), "return self.out(self.drop(x))"),
        (Forgets().eval(), "return F.dropout(x.relu(), 0.2) + 1"),
        (Attends(), "return F.scaled_dot_product_attention(x, x, x, dropout_p=0.1 if self.training else 0.0)"),
    ],
)
def test_dropout_that_is_on_without_gradients_is_told_with_its_line(model: nn.Module, line: str) -> None:
    with torch.no_grad():
        lens = recorded(model, X)
    assert told(lens) == [("dropout-without-gradients", line)]
    assert doubts(lens)[0].benign  # to know: Monte Carlo dropout is meant


def test_dropout_within_a_block_without_gradients_is_told() -> None:
    model = Head()

    def evaluate(x: Tensor) -> Tensor:
        with torch.no_grad():
            return model(x)

    assert [rule for rule, _ in told(recorded(evaluate, X))] == ["dropout-without-gradients"]


@pytest.mark.parametrize("model", [Head().eval(), Wanted(), Wanted().eval(), nn.Dropout(0.0), Attends().eval()])
def test_dropout_that_is_off_or_written_on_is_not(model: nn.Module) -> None:
    with torch.no_grad():
        assert told(recorded(model, X)) == []


@pytest.mark.parametrize("model", [Head(), Forgets(), Attends()])
def test_nor_is_dropout_in_training_also_where_nothing_before_it_has_gradients(model: nn.Module) -> None:
    assert told(recorded(model, X)) == []


# -- float64

MEAN = np.array([0.1, 0.2, 0.3, 0.4])


class Normalized(nn.Module):
    def __init__(self, dtype: torch.dtype) -> None:
        super().__init__()
        self.register_buffer("mean", torch.from_numpy(MEAN).to(dtype))

    def forward(self, x: Tensor) -> Tensor:
        centred = x - self.mean
        return (centred * centred).mean() + centred.sum()


def by_constant(x: Tensor) -> Tensor:
    scaled = x * torch.from_numpy(MEAN)
    return scaled.relu().sum() + scaled.mean()


def by_table(x: Tensor) -> Tensor:
    steps = torch.linspace(0, 1, 4, dtype=torch.float64)
    moved = x + steps
    return moved.sin().sum() + moved.mean()


@pytest.mark.parametrize(
    ("program", "line", "what"),
    [
        (Normalized(torch.float64), "centred = x - self.mean", "self.mean"),
        (by_constant, "scaled = x * torch.from_numpy(MEAN)", "MEAN"),
        (by_table, "steps = torch.linspace(0, 1, 4, dtype=torch.float64)", "linspace"),
    ],
)
def test_a_float64_that_widens_what_follows_is_told_where_it_begins(
    program: Callable[..., object], line: str, what: str
) -> None:
    lens = recorded(program, X)
    assert told(lens) == [("widened-to-double", line)]
    shown = " ".join(lens.report(color=False, width=120).split())
    assert f"`{what}` is float64 and meets narrower numbers: " in shown
    assert "Nothing to fix" not in shown


def cast(x: Tensor) -> Tensor:
    wide = x.double()
    return ((wide - wide.mean()) * x).square().sum().float()


def by_argument(x: Tensor, weights: Tensor) -> Tensor:
    scaled = x * weights
    return scaled.relu().sum() + scaled.mean()


def briefly(x: Tensor) -> Tensor:
    return (x * torch.from_numpy(MEAN)).float().relu().sum() + x.mean() + x.sum()


@pytest.mark.parametrize(
    ("program", "inputs"),
    [
        (Normalized(torch.float32), (X,)),
        (Normalized(torch.float64).double(), (X.double(),)),
        (by_argument, (X, torch.ones(4, dtype=torch.float64))),
        (cast, (X,)),
        (briefly, (X,)),
    ],
)
def test_a_float64_that_is_asked_for_is_not(program: Callable[..., object], inputs: tuple[Tensor, ...]) -> None:
    assert told(recorded(program, *inputs)) == []


# -- attention


class ByHand(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.qkv = kind, nn.Linear(8, 24)

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        q, k, v = self.qkv(x).view(2, 16, 3, 2, 4).permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-2, -1)) * 0.5
        if self.kind == "capped":
            scores = torch.tanh(scores / 30) * 30
        weights = scores.softmax(-1)
        mixed = weights @ v
        return (mixed, weights) if self.kind == "returned" else mixed


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate, self.table = nn.Linear(8, 4), nn.Parameter(torch.ones(4, 8))

    def forward(self, x: Tensor) -> Tensor:
        return (self.gate(x)).softmax(-1) @ self.table


@pytest.mark.parametrize(("kind", "is_told"), [("capped", True), ("plain", False), ("returned", False)])
def test_attention_by_hand_is_told_where_torch_makes_no_fused_one_of_it(kind: str, is_told: bool) -> None:
    with torch.no_grad():
        lens = recorded(ByHand(kind), torch.ones(2, 16, 8), backend="inductor")
    is_old = torch.__version__ < "2.12"  # whose pattern does not find the plain one
    is_told = is_told or (kind == "plain" and is_old)
    fused = any("scaled_dot_product" in node.target for graph in lens.recording.graphs for node in graph.nodes)
    assert fused == (kind == "plain" and not is_old)
    assert told(lens) == ([("attention-by-hand", "weights = scores.softmax(-1)")] if is_told else [])
    if kind == "capped":
        assert doubts(lens)[0].evidence.bytes == 2 * 2 * 16 * 16 * 4  # type: ignore[union-attr]


def test_a_softmax_between_layers_is_not() -> None:
    with torch.no_grad():
        assert told(recorded(Gate(), torch.ones(2, 16, 8), backend="inductor")) == []


# -- devices: `meta` is another device than the CPU on any machine


def made_elsewhere(x: Tensor) -> Tensor:
    steps = torch.arange(4).to(x.device)
    return (x * steps).sum()


def made_there(x: Tensor) -> Tensor:
    return (x * torch.arange(4, device=x.device)).sum()


def moves_what_comes_and_goes(x: Tensor) -> Tensor:
    return (x.to("meta") * 2).sum()


@pytest.mark.parametrize(
    ("program", "given", "lines"),
    [
        (made_elsewhere, torch.ones(4, device="meta"), ["steps = torch.arange(4).to(x.device)"]),
        (made_elsewhere, torch.ones(4), []),
        (made_there, torch.ones(4, device="meta"), []),
        (moves_what_comes_and_goes, torch.ones(4), []),
    ],
)
def test_a_copy_between_devices_in_the_middle_of_a_graph_is_told(
    program: Callable[..., object], given: Tensor, lines: list[str]
) -> None:
    lens = recorded(program, given, backend="aot_eager")
    assert told(lens) == [("device-copy", line) for line in lines]
    if lines:
        assert "cpu → meta" in doubts(lens)[0].evidence.what  # type: ignore[union-attr]


def waits(x: Tensor) -> Tensor:
    total = x.sum().item()
    return x * total


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_value_that_the_cpu_waits_for_is_told_but_not_on_the_cpu(device: str) -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        lens = recorded(waits, torch.ones(4, device=device), backend="aot_eager")
    assert told(lens) == ([("device-wait", "total = x.sum().item()")] if device == "meta" else [])
