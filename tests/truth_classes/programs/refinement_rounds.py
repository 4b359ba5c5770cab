"""How many rounds a block runs is an attribute that a schedule changes: the shape of huggingface/diffusers#10795."""

import torch
from torch import nn


class Loop(nn.Module):
    def __init__(self):
        super().__init__()
        self.rounds = 3

    def forward(self, x):
        for _ in range(self.rounds):
            x = (x * 1.5).tanh()
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.loop = Loop()

    def forward(self, x):
        return self.loop(x) + 1


@torch.no_grad()
def main():
    m = Model()
    step = torch.compile(m)
    out = []
    for n in (3, 4, 5, 6):
        m.loop.rounds = n
        out.append(step(torch.randn(2, 4)))
    return out
