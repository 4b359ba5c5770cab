"""The last batch of an epoch is smaller than the others: the shape of pytorch/pytorch#131893."""

import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Classifier(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.blocks, self.head = nn.Sequential(Block(width), Block(width)), nn.Linear(width, 3)

    def forward(self, x, target):
        return F.cross_entropy(self.head(self.blocks(x)), target)


def batches(count, size):
    x, target = torch.randn(count, 6), torch.randint(0, 3, (count,))
    return zip(x.split(size), target.split(size))


def main():
    model = Classifier()
    step, losses = torch.compile(model), []  # root
    for _ in range(2):
        for x, target in batches(14, 4):
            losses.append(step(x, target))
            losses[-1].backward()
    return [*losses, model.head.weight.grad]


if __name__ == "__main__":
    main()
