"""What was compiled and then passed over is no compiled function: torch says why, and looks at its code no more."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager

import pytest
import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from compiler_lens import Lens, explain
from compiler_lens.facts.program.coverage import Treatment

MODE = "non-infra torch dispatch mode present"


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()  # what torch passed over it passes over for good


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


def counted() -> AbstractContextManager[object]:
    return FlopCounterMode(display=False)


def disabled() -> AbstractContextManager[object]:
    return torch._dynamo.config.patch(disable=True)


def compiled_then(model: nn.Module, within: AbstractContextManager[object]) -> Lens:
    with Lens(strict=True) as lens:
        compiled = torch.compile(model, backend="eager")
        compiled(torch.ones(2, 3))
        with within:
            for rows in (4, 5, 6):
                compiled(torch.ones(rows, 3))
        compiled(torch.ones(2, 3))
    return lens


@pytest.mark.parametrize("model", [Block(), nn.Sequential(nn.Linear(3, 3), nn.ReLU())], ids=["own", "torchs"])
@pytest.mark.parametrize(
    ("within", "reason", "change"),
    [(counted, MODE, "outside of the `with` block"), (disabled, "Dynamo tracing is disabled", "`torch._dynamo.config.disable`")],
)  # fmt: skip
def test_a_later_call_that_torch_passes_over_takes_the_all_clear(
    model: nn.Module, within: object, reason: str, change: str
) -> None:
    lens = compiled_then(model, within())  # type: ignore[operator]
    (function,) = explain(lens.recording).coverage.functions
    assert function.treatment is Treatment.PASSED_OVER
    (finding,) = explain(lens.recording).findings
    assert finding.rule == "function-passed-over"
    screen = " ".join(lens.report(color=False, width=200).split())
    assert "Nothing to fix" not in screen
    assert "0 of 1 function stays compiled; 1 was compiled, and runs eagerly since torch passed over it:" in screen
    assert reason in screen
    assert change in screen


def test_torch_passes_over_it_for_good() -> None:
    """As the words say: also what fits, and outside of the mode, until a reset."""
    ran: list[int] = []

    def backend(gm: torch.fx.GraphModule, _inputs: object) -> object:
        def run(*args: object) -> object:
            ran.append(1)
            return gm(*args)

        return run

    compiled = torch.compile(Block(), backend=backend)
    compiled(torch.ones(2, 3))
    with counted():
        compiled(torch.ones(2, 3))
    compiled(torch.ones(2, 3))
    assert len(ran) == 1
    torch._dynamo.reset()
    compiled(torch.ones(2, 3))
    assert len(ran) == 2
