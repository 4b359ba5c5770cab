"""A debugging stance is left in place, and everything runs eagerly: the shape of pytorch/pytorch#132923."""

import torch
from torch import nn


class Filter(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gain, self.net = nn.Parameter(torch.ones(width)), nn.Linear(width, width)

    def forward(self, x):
        return self.net(x * self.gain).sin()


class Cascade(nn.Module):
    def __init__(self, width=4, stages=2):
        super().__init__()
        self.stages = nn.ModuleList(Filter(width) for _ in range(stages))

    def forward(self, x):
        for stage in self.stages:
            x = x + stage(x)
        return x


def configure(debug):
    torch.compiler.set_stance("force_eager" if debug else "default")  # root


def main():
    cascade = Cascade()
    step = torch.compile(cascade)
    configure(debug=True)
    found = [step(torch.randn(3, 4)) for _ in range(2)]
    sum(y.sum() for y in found).backward()
    configure(debug=False)
    return [*found, cascade.stages[0].gain.grad]


if __name__ == "__main__":
    main()
