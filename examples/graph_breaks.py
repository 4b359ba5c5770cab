"""Two models with graph breaks: what the lens says about them, then the same models without. See docs/graph_breaks.md.

Leaves the recording in graph_breaks.clens; read on with `compiler-lens show graph_breaks.clens breaks`.
"""

import torch
from torch import nn

import compiler_lens


class Experts(nn.Module):
    """A mixture of experts as people first write it: each expert computes the rows that chose it."""

    def __init__(self, width: int = 32, experts: int = 4) -> None:
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.experts = nn.ModuleList(nn.Linear(width, width) for _ in range(experts))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice, y = self.router(x).argmax(-1), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.where(choice == i)[0]
            y[rows] = expert(x[rows])
        return y


class Scaled(nn.Module):
    """Scales its input by a number, and prints two calls further down."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(self.normalize(x)).relu()

    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        scale = x.abs().max().item()
        self.tell(x)
        return x / scale

    def tell(self, x: torch.Tensor) -> None:
        print("normalizing", x.shape[0], "rows")


class MendedExperts(Experts):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        choice, y = self.router(x).argmax(-1), torch.zeros_like(x)
        for i, expert in enumerate(self.experts):  # every expert computes every row, so that all sizes are known
            y = torch.where((choice == i).unsqueeze(-1), expert(x), y)
        return y


class MendedScaled(Scaled):
    def normalize(self, x: torch.Tensor) -> torch.Tensor:
        return x / x.abs().max()  # the scale stays a tensor; whoever wants to print does so outside


if __name__ == "__main__":
    x = torch.randn(16, 32)
    for name, models in ("graph_breaks", (Experts(), Scaled())), ("mended", (MendedExperts(), MendedScaled())):
        torch.compiler.reset()  # as in a new process
        with compiler_lens.Lens(f"{name}.clens") as lens:
            for model in models:
                torch.compile(model, backend="eager")(x)  # breaks are Dynamo's: nothing need be generated, no g++
        print(lens.report())
        print(f"{name}: {len(lens.recording.graph_breaks)} graph breaks")
    print(compiler_lens.what_if(Scaled(), x))
