"""Each epoch ends in a smaller batch, of another size each time: the shape of Lightning-AI/litgpt#794."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.mix, self.norm = nn.Linear(width, width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.mix(x).relu())


class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(2))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


@torch.no_grad()
def main():
    torch.manual_seed(0)
    step = torch.compile(Model())
    return [step(torch.ones(rows, 4)) for rows in (8, 8, 3, 8, 5)]
