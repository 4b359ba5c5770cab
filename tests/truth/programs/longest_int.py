"""The longest length of a batch comes as an int, and a loop goes up to it: the shape of Dao-AILab/quack#150."""

import torch
from torch import nn


def pooled(x, longest):
    total = torch.zeros_like(x[:, 0])
    for place in range(longest):  # root
        total = total + x[:, place]
    return total / longest


class Pool(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x, longest):
        return pooled(self.linear(x).relu(), longest)


class Classifier(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.embed, self.pool = nn.Embedding(10, width), Pool(width)
        self.head = nn.Linear(width, 3)

    def forward(self, ids, longest):
        return self.head(self.pool(self.embed(ids), longest))


def main():
    model = Classifier()
    step = torch.compile(model)
    found = [step(torch.randint(0, 10, (2, 8)), longest) for longest in (3, 5, 8, 4, 6)]
    sum(y.sum() for y in found).backward()
    return [*found, model.head.weight.grad]


if __name__ == "__main__":
    main()
