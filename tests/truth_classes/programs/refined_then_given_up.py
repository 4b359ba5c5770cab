"""Rounds of a refinement are graphs, and its end is given up for a branch in a loop: the shape of pytorch/pytorch#112824."""

import torch
from torch import nn


class Round(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix = nn.Linear(width, width)

    def forward(self, x):
        return x + self.mix(x).tanh()


class Refiner(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.rounds = nn.ModuleList(Round(width) for _ in range(3))

    def finish(self, x):
        kept = x[:1]
        for row in x:
            if row.sum() > 0:  # root
                kept = torch.cat([kept, row[None]])
        return kept

    def forward(self, x):
        for one in self.rounds:
            x = one(x)
        return self.finish(x)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    step = torch.compile(Refiner())
    return [step(torch.randn(5, 4)) for _ in range(2)]
