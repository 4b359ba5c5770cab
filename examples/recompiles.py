"""A training loop that compiles again and again: what changed each time, then the loop mended. See docs/recompiles.md.

Leaves the recording in recompiles.clens; read on with `compiler-lens show recompiles.clens recompiles`.
"""

import torch
from torch import nn
from torch._dynamo import mark_dynamic

import compiler_lens


class Net(nn.Module):
    """Counts its own calls, as for a warm-up or a log."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 1)
        self.steps = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return self.linear(x) / self.steps


class MendedNet(nn.Module):
    """The same; the counter is a tensor, so it is data and no part of the compiled code."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 1)
        self.register_buffer("steps", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        return self.linear(x) / self.steps


def descend(weight: torch.Tensor, grad: torch.Tensor, lr: float | torch.Tensor) -> None:
    """One step of gradient descent."""
    weight -= lr * grad


def train(net: nn.Module, *, mended: bool) -> None:
    # backend="eager": Dynamo decides to compile again before a backend is asked; nothing need be generated, no g++.
    forward, update = torch.compile(net, backend="eager"), torch.compile(descend, backend="eager")
    for step in range(12):
        x = torch.randn(20 if step % 4 == 3 else 32, 8)  # the last batch of an epoch is smaller
        lr = 0.1 / (step + 1)
        if mended:
            mark_dynamic(x, 0)
            lr = torch.tensor(lr)
        forward(x).square().mean().backward()
        with torch.no_grad():
            update(net.linear.weight, net.linear.weight.grad, lr)
        net.zero_grad()


if __name__ == "__main__":
    for name, net in ("recompiles", Net()), ("mended", MendedNet()):
        torch.compiler.reset()  # as in a new process: no compiled code is there yet
        with compiler_lens.Lens(f"{name}.clens") as lens:
            train(net, mended=name == "mended")
        print(lens.report())
        print(f"{name}: {len(lens.recording.recompiles)} recompiles")
