"""The text of a Dynamo graph, and of guards, that we print ourselves is torch's own, or torch prints it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 -- as everybody calls it

from compiler_lens import Lens
from compiler_lens.capture.torch_api import printed

X = torch.ones(4, 6)


def in_place(x: Tensor) -> Tensor:
    y = x.clone()
    y += 1
    y[0] = 2
    y[:, 1:3] *= x[:, 1:3]
    return y


def operators(x: Tensor) -> Tensor:
    return -x + (x @ x.T)[:, :1] // 2 - ~(x > 0) * (x**2 % 3) + (1 / x == 1)


def arguments(x: Tensor) -> tuple[Any, ...]:
    y = x.to(torch.float64).reshape((2, 12)).sum(dim=[0, 1], keepdim=True)
    z = F.pad(x, (1, 1), mode="constant", value=math.inf)
    return y, z[..., None, 1:], torch.arange(3, dtype=torch.int8), x.new_zeros(2, 3)


def several_results(x: Tensor) -> Any:
    first, *others = x.split(2, dim=1)
    values, indices = torch.topk(x, 2)
    return {"a": first, "b": [values, indices]}, others


def unused(x: Tensor) -> Tensor:
    torch.manual_seed(1)
    x.sin()
    return x.cos()


def attributes(x: Tensor) -> Tensor:
    return x.mT.real.T


def scalars(x: Tensor) -> Tensor:
    return x.add(1, alpha=2).clamp(min=-1e-7, max=True).masked_fill(x > 1, float("-inf"))


def with_no_grad(x: Tensor) -> Tensor:
    with torch.no_grad():
        y = x * 2
    return y.detach() + x


def nothing(x: Tensor) -> int:
    return x.shape[0]


def names_of_python(x: Tensor) -> Tensor:
    all = x.all()  # noqa: A001 -- FX may not call it so
    device = x + all
    return device.max() + device.sum()


USUAL: list[Callable[..., Any]] = [
    in_place,
    operators,
    arguments,
    several_results,
    attributes,
    scalars,
    with_no_grad,
    nn.Sequential(nn.Linear(6, 4), nn.ReLU(), nn.LayerNorm(4), nn.Dropout()),
    nn.TransformerEncoderLayer(6, 2, 8, batch_first=True),
    lambda x: F.conv1d(x[None], x[None, :, :2].expand(4, 4, 2)),
    lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], is_causal=True),
    lambda x: F.embedding(torch.tensor([1, 2]), x),
    lambda x: (x.to(torch.complex64), x.bool(), x.half(), x.t()),
]
UNUSUAL: list[Callable[..., Any]] = [
    nothing,
    unused,
    names_of_python,
    lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)),
    lambda x: torch.utils.checkpoint.checkpoint(torch.sin, x, use_reentrant=False),
    lambda x: torch.zeros(2, device="cpu") + x.sum(),
    torch.vmap(torch.sin),
]


def compared(function: Callable[..., Any], x: Tensor = X, **settings: Any) -> list[bool]:
    """Of each graph, whether it is printed here; and it is torch's."""
    seen: list[bool] = []

    def backend(graph_module: Any, _inputs: Any) -> Any:
        wanted = graph_module.print_readable(print_output=False, include_stride=True, include_device=True)
        try:
            text = printed.readable(graph_module)
        except Exception:  # noqa: BLE001 -- torch prints it
            seen.append(False)
        else:
            assert text == wanted
            seen.append(True)
        return graph_module.forward

    torch._dynamo.reset()
    torch.compile(function, backend=backend, **settings)(x)
    return seen


@pytest.mark.parametrize("function", USUAL)
@pytest.mark.parametrize("x", [X, torch.ones(4, 6, requires_grad=True)], ids=["inference", "training"])
def test_a_usual_graph_is_printed_as_torch_prints_it(function: Callable[..., Any], x: Tensor) -> None:
    x = x.requires_grad_(x.requires_grad and function is not in_place)
    seen = compared(function, x)
    assert seen
    assert all(seen)


@pytest.mark.parametrize("function", UNUSUAL)
@pytest.mark.parametrize("dynamic", [None, True])
def test_any_other_graph_is_printed_as_torch_prints_it_or_by_torch(
    function: Callable[..., Any], dynamic: bool | None
) -> None:
    compared(function, dynamic=dynamic)


@pytest.mark.parametrize("function", USUAL[:4])
def test_sizes_that_vary_are_printed_as_torch_prints_them_or_by_torch(function: Callable[..., Any]) -> None:
    compared(function, dynamic=True)


def test_notes_on_nodes_are_left_to_torch() -> None:
    def noted(x: Tensor) -> Tensor:
        with torch.fx.traceback.annotate({"stage": 1}):
            return x.sin()

    with torch.fx.traceback.preserve_node_meta():
        assert compared(noted) == [False]


def _payloads(texts: list[str], asked: list[str]) -> list[Callable[[], str]]:
    def payload(gm: str) -> Callable[[], str]:
        def ask() -> str:
            asked.append(gm)
            return f"text of {gm}"

        return ask

    return [payload(text) for text in texts]


@pytest.mark.parametrize("agrees", [True, False])
def test_torch_prints_the_first_graph_and_all_where_that_differs(monkeypatch: pytest.MonkeyPatch, agrees: bool) -> None:
    ours = "text of" if agrees else "another text of"
    monkeypatch.setattr(printed, "readable", lambda gm: f"{ours} {gm}" if gm != "odd" else 1 / 0)
    printer = printed.Printer(lambda cells, _known: printed.readable(cells["gm"]))
    asked: list[str] = []
    told = [printer.text(payload) for payload in _payloads(["odd", "a", "b", "odd", "c"], asked)]
    assert told == [f"text of {gm}" for gm in ("odd", "a", "b", "odd", "c")]
    assert asked == (["odd", "a", "odd"] if agrees else ["odd", "a", "b", "odd", "c"])


def test_a_recording_has_the_text_that_torch_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    texts: list[str] = []

    def backend(graph_module: Any, _inputs: Any) -> Any:
        texts.append(graph_module.print_readable(print_output=False, include_stride=True, include_device=True))
        return graph_module.forward

    with Lens(strict=True, progress=False) as lens:
        for function in (operators, arguments, several_results):
            torch._dynamo.reset()
            torch.compile(function, backend=backend)(X)
        monkeypatch.setenv("FX_GRAPH_SHOW_META", "1")
        torch._dynamo.reset()
        torch.compile(operators, backend=backend)(X)
        monkeypatch.delenv("FX_GRAPH_SHOW_META")
        torch._dynamo.reset()
        torch.compile(arguments, backend=backend)(X)
    assert [graph.code for graph in lens.recording.graphs if graph.stage.value == "dynamo"] == texts
    assert texts[4] == texts[1]
    assert printed.printers()["dynamo_output_graph"]._agrees


# -- guards


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scales, self.names = {"a": 2, 3: 4.0}, ["a", "b"]
        self.layer = nn.Linear(6, 6)

    def forward(self, x: Tensor, *more: Tensor, **named: Any) -> Tensor:
        scale = sum(self.scales.values()) + len(self.names) + len(named)
        return self.layer(x) * scale + sum(one.sum() for one in more)


def closed_over(x: Tensor) -> Tensor:
    return USUAL[0](x) + X.sum() if isinstance(x, Tensor) else x


def guarded(call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The texts of guards, ours and torch's, of what a call compiles."""
    seen: list[tuple[str, str]] = []
    own = printed.guards

    def both(manager: Any, latency: float, known: Any) -> str:
        assert known[0] is manager  # printed as they were built
        seen.append((own(manager, latency, known), f"{manager}\nGuard latency = {latency:.2f} us"))
        return seen[-1][0]

    monkeypatch.setattr(printed, "guards", both)
    torch._dynamo.reset()
    with Lens(strict=True, progress=False) as lens:
        call()
    assert not lens.recording.problems
    return seen


def test_guards_are_printed_as_torch_prints_them(monkeypatch: pytest.MonkeyPatch) -> None:
    model, function = (torch.compile(one, backend="eager") for one in (Scaled(), closed_over))
    several = torch.compile(lambda x, others: x.sin() + sum(others.values()), backend="eager")

    def call() -> None:
        model(X, torch.ones(2), torch.ones(3), flag=True)
        model(X.repeat(2, 1), torch.ones(5), torch.ones(5))
        function(X)
        several(X, {"b": X[:, 1:2], "c": X[:1], 4: 1.5})

    seen = guarded(call, monkeypatch)
    assert len(seen) >= 4
    for ours, torchs in seen:
        assert ours == torchs
    assert any("KeyValueManager" in ours for ours, _ in seen)
    assert printed.printers()["dynamo_cpp_guards_str"]._agrees
