"""Reversible attention seeds its dropout so that the backward repeats it: the shape of pytorch/pytorch#101154."""

import torch
import torch.nn.functional as F
from torch import nn


class SeededAttention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, seed):
        torch.manual_seed(seed)  # root
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = F.dropout((q @ k.transpose(-1, -2) / self.width).softmax(-1), 0.2)
        return weights @ v


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.attention, self.linear = SeededAttention(width), nn.Linear(width, width)

    def forward(self, x, seed):
        x = x + self.attention(x, seed)
        return x + self.linear(x).relu()


class Reformer(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.embed, self.block = nn.Embedding(20, width), Block(width)

    def forward(self, ids, seed):
        return self.block(self.embed(ids), seed)


def main():
    model = Reformer()
    step, found = torch.compile(model), []
    for _ in range(3):
        found.append(step(torch.randint(0, 20, (2, 5)), 7))
        found[-1].square().mean().backward()
    return [*found, model.embed.weight.grad]


if __name__ == "__main__":
    main()
