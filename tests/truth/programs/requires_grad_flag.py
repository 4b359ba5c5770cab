"""A gather of flat parameters switches gradients off by hand: the shape of deepspeedai/DeepSpeed#7158."""

import torch
from torch import nn


def gather_flat(shards):
    flat = torch.cat([shard.reshape(-1) for shard in shards])
    flat = flat.detach() * 1.0
    flat.requires_grad = False  # root
    return flat


class Partitioned(nn.Module):
    def __init__(self, width, ranks):
        super().__init__()
        self.width = width
        self.shards = nn.ParameterList(torch.randn(width * width // ranks) for _ in range(ranks))
        self.gain = nn.Parameter(torch.ones(()))

    def weight(self):
        return gather_flat(self.shards).view(self.width, self.width)

    def forward(self, x):
        return self.gain * (x @ self.weight())


class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.inner, self.out = Partitioned(width, 2), nn.Linear(width, width)

    def forward(self, x):
        return self.out(self.inner(x).relu())


def main():
    model = Model()
    step = torch.compile(model)
    found = [step(torch.randn(3, 4)) for _ in range(2)]
    sum(y.sum() for y in found).backward()
    return [*found, model.inner.gain.grad]


if __name__ == "__main__":
    main()
