"""A helper is kept out of the compiler, and every layer calls it: the shape of hao-ai-lab/FastVideo#1365."""

import torch
from torch import nn


@torch.compiler.disable
def rotate(x):
    return torch.cat([-x[..., 2:], x[..., :2]], -1)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.query = nn.Linear(width, width)

    def forward(self, x):
        return x + rotate(self.query(x))  # root


class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(2))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


@torch.no_grad()
def main():
    torch.manual_seed(0)
    return [torch.compile(Model())(torch.ones(2, 4))]
