"""Seven heads are compiled one by one, as many as fit: the shape of ultralytics/ultralytics#18041."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(4, width)

    def forward(self, features):
        return self.linear(features).relu()


@torch.no_grad()
def main():
    torch.manual_seed(0)
    heads = [torch.compile(Head(width)) for width in range(3, 10)]
    return [head(torch.ones(2, 4)) for head in heads]
