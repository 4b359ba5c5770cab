"""Residual quantization draws how many stages to use: the shape of pytorch/pytorch#121350."""

import random

import torch
from torch import nn


class Stage(nn.Module):
    def __init__(self, width, codes):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(codes, width))

    def forward(self, x):
        return self.codebook[torch.cdist(x, self.codebook).argmin(-1)]


class ResidualQuantizer(nn.Module):
    def __init__(self, width, stages, seed):
        super().__init__()
        self.stages = nn.ModuleList(Stage(width, 6) for _ in range(stages))
        self.draws = random.Random(seed)

    def forward(self, x):
        used = self.draws.randrange(1, len(self.stages) + 1)
        total = torch.zeros_like(x)
        for number, stage in enumerate(self.stages):
            total = total + (stage(x - total) if number < used else 0.0)  # root
        return total


class Codec(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.encode, self.quantize = nn.Linear(width, width), ResidualQuantizer(width, 3, 1)

    def forward(self, x):
        return self.quantize(self.encode(x).tanh())


@torch.no_grad()
def main():
    codec = Codec()
    step = torch.compile(codec)
    return [step(torch.randn(5, 4)) for _ in range(6)]


if __name__ == "__main__":
    main()
