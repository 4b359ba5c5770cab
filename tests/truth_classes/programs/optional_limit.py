"""A limit is a number or None, and a mode a string: the shape of huggingface/transformers#42950."""

import torch
from torch import nn


class Config:
    mode = "fast"
    scale = None


class Model(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.limit = 3

    def forward(self, x):
        if self.limit is not None:
            x = x.clamp(max=self.limit)
        return x.sin() if self.c.mode == "fast" else x.cos()


@torch.no_grad()
def main():
    c = Config()
    m = Model(c)
    step = torch.compile(m)
    out = []
    for mode in ("fast", "slow", "odd"):
        c.mode = mode
        out.append(step(torch.ones(4)))
    for limit in (None, 3.5, None, 7):
        m.limit = limit
        out.append(step(torch.ones(4)))
    return out
