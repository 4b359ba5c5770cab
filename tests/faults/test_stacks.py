"""The stacks in torch's trace, which others may read too, are those of a program without a lens."""

import logging
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx

from compiler_lens import Lens
from compiler_lens.capture.torch_api import structured_trace

Stacks = list[tuple[str, Any]]


def doubled(x: Tensor) -> Tensor:
    y = x.sin() + 1 if x.shape[0] > 3 else x.sin()
    torch._dynamo.graph_break()
    return y * 2


def summed(x: Tensor) -> Tensor:
    return (x @ x).sum()


def as_many_as(x: Tensor) -> Tensor:
    size = x.sum().item()
    torch._check(size >= 0)
    return torch.zeros(size)


def sizes_that_vary() -> None:
    for size in (3, 6, 7):
        torch.compile(doubled, backend="aot_eager")(torch.ones(size))


def training() -> None:
    for size in (3, 6):
        torch.compile(summed, backend="aot_eager")(torch.ones(size, size, requires_grad=True)).backward()


def sizes_from_data() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        torch.compile(as_many_as, backend="aot_eager")(torch.ones(5, dtype=torch.int64))


def traced_without_a_frame() -> None:
    make_fx(lambda x: x.sin() @ x, tracing_mode="symbolic")(torch.ones(3, 4)[:, :3])


def exported() -> None:
    shapes = {"input": {0: torch.export.Dim("batch")}}
    torch.export.export(nn.Linear(3, 3), (torch.ones(2, 3),), dynamic_shapes=shapes)


class Stacker(logging.Handler):
    """Listens to the trace, and keeps the stacks in it."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.stacks: Stacks = []

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        self.stacks += _stacks(metadata, "")
        if metadata.get("artifact", {}).get("name") == "dynamo_graph_break_reason":  # the user's, as text
            self.stacks.append(("dynamo_graph_break_reason", getattr(record, "payload", None)))


def _stacks(value: Any, at: str) -> Iterator[tuple[str, Any]]:
    for key, inner in value.items() if isinstance(value, dict) else ():
        if key.endswith("stack"):
            yield f"{at}.{key}", inner
        yield from _stacks(inner, f"{at}.{key}")


@pytest.fixture
def stacker() -> Iterator[Stacker]:
    handler = Stacker()
    structured_trace.trace_logger().addHandler(handler)
    yield handler
    structured_trace.trace_logger().removeHandler(handler)


@pytest.mark.parametrize(
    ("program", "records"),
    [
        (sizes_that_vary, {".dynamo_start.stack", ".guard_added_fast.stack", "dynamo_graph_break_reason"}),
        (training, {".dynamo_start.stack", ".create_symbol.stack"}),
        (sizes_from_data, {".dynamo_start.stack", ".create_unbacked_symbol.stack"}),
        (traced_without_a_frame, {".create_symbol.stack"}),
        (exported, {".create_symbol.stack"}),
    ],
)
def test_every_stack_of_the_trace_is_as_without_a_lens(
    program: Callable[[], None], records: set[str], stacker: Stacker
) -> None:
    seen: list[Stacks] = []
    for context in (nullcontext, nullcontext, lambda: Lens(strict=True)):  # the first imports what the others need not
        torch._dynamo.reset()
        stacker.stacks = []
        with context():
            program()
        seen.append(stacker.stacks)

    assert records <= {name for name, _ in seen[1]}
    assert seen[2] == seen[1]
