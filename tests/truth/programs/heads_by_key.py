"""Ten heads of one class are compiled one by one, each with a key of its own: the shape of pytorch/pytorch#171593."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, key, width):
        super().__init__()
        self.key = key
        self.linear = nn.Linear(width, 2)

    def forward(self, batch):
        return self.linear(batch[self.key]).tanh()  # root


class Body(nn.Module):
    def __init__(self, keys, width):
        super().__init__()
        self.embed = nn.ModuleDict({key: nn.Linear(3, width) for key in keys})

    def forward(self, batch):
        return {key: embed(batch[key]) for key, embed in self.embed.items()}


class Model(nn.Module):
    def __init__(self, keys, width=4):
        super().__init__()
        self.body = Body(keys, width)
        self.heads = nn.ModuleList(Head(key, width) for key in keys)

    def forward(self, batch):
        features = self.body(batch)
        return [head(features) for head in self.heads]


def compiled(model):
    for head in model.heads:
        head.compile()
    return model


def main():
    keys = [f"camera_{n}" for n in range(10)]
    model = Model(keys)
    step = compiled(model)
    found = [y for _ in range(2) for y in step({key: torch.randn(2, 3) for key in keys})]
    sum(y.sum() for y in found).backward()
    return [*found, model.heads[9].linear.weight.grad]


if __name__ == "__main__":
    main()
