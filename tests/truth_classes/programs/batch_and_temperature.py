"""A batch that varies, and a temperature that a schedule changes: the shape of meta-pytorch/gpt-fast#108."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.ls = nn.ModuleList(nn.Linear(4, 4) for _ in range(30))
        self.temperature = 1.0

    def forward(self, x):
        for layer in self.ls:
            x = layer(x).tanh()
        return x / self.temperature


def main():
    m = Model()
    step = torch.compile(m, backend="aot_eager")
    out = []
    for b, t in ((2, 1.0), (3, 1.0), (3, 0.9), (3, 0.8), (3, 0.7)):
        m.temperature = t
        y = step(torch.ones(b, 4))
        y.sum().backward()
        out.append(y)
    return out
