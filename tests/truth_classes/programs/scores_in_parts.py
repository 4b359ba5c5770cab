"""Two functions are cut at the same helper, each several times: the shape of pytorch/pytorch#97884."""

import torch
from torch import nn


def log(name, value):
    print(name, value.shape)  # root
    return value


class Encoder(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x):
        x = log("first", self.first(x).relu())
        return log("second", self.second(x).relu()) + 1


class Scores(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.out = nn.Linear(width, 2)

    def forward(self, x):
        return log("scores", self.out(x)).softmax(-1)


@torch.no_grad()
def main():
    torch.manual_seed(0)
    encode, score = torch.compile(Encoder(4)), torch.compile(Scores(4))
    return [score(encode(torch.ones(rows, 4))) for rows in (3, 4, 5)]
