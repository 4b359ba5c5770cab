"""Blocks of one class are compiled one by one, objects of a plain class too: the shape of huggingface/accelerate#3528."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, w, tag):
        super().__init__()
        self.l = nn.Linear(4, w)
        self.tag = tag

    def forward(self, x):
        return self.l(x) + len(self.tag)


class Op:
    def __init__(self, k):
        self.k = k

    def run(self, x):
        return x * self.k


@torch.no_grad()
def main():
    x = torch.ones(2, 4)
    out = []
    for n in range(10):
        b = Block(n + 4, "t" * n)
        b.forward = torch.compile(b.forward)
        out.append(b(x))
    keep = []
    for n in range(5):
        o = Op(n + 2.5)
        keep.append(o)
        f = torch.compile(o.run)
        out.append(f(x))
    return out
