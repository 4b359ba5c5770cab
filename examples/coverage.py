"""A model of which parts never compile, and nothing says so: which, and why. See docs/coverage.md.

Leaves the recording in coverage.clens; read on with `compiler-lens source coverage.clens`.
"""

import contextlib

import torch
from torch import nn

import compiler_lens


class Classifier(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x).relu()
        h = h * (h > threshold_of(h))
        log_norm(h)
        return self.second(calibrate(h))


def threshold_of(h: torch.Tensor) -> torch.Tensor:
    """Halves a threshold until enough is above it."""
    threshold = h.amax()
    for _ in range(4):
        if (h > threshold).float().mean() > 0.1:
            break
        threshold = threshold / 2
    return threshold


def calibrate(h: torch.Tensor) -> torch.Tensor:
    """Brings the values to a scale of one."""
    h = h - h.mean()
    with contextlib.suppress(ValueError):
        h = h / h.std().item()
    return h.tanh()


@torch.compiler.disable
def log_norm(h: torch.Tensor) -> None:
    """Kept out of the compiler on purpose."""
    print(f"norm {h.norm():.1f}")


if __name__ == "__main__":
    model = torch.compile(Classifier(), backend="eager")  # Dynamo decides what is compiled: nothing need be generated
    with compiler_lens.Lens("coverage.clens") as lens:
        model(torch.randn(16, 32))
    print(lens.report())
    for function in lens.explain().coverage.functions:
        print(f"{function.name.name:<20} {function.treatment.value}")
