"""A clamp is asked as a chain of comparisons: the shape of kornia/kornia#2905."""

import torch
from torch import nn


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.low, self.high = 0.0, 1.0

    def inside(self, level):
        return self.low < level < self.high  # root

    def forward(self, image, level):
        return image * 2 if self.inside(level) else image


class Pipeline(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, image, level):
        return self.gate(image + 1, level)


@torch.no_grad()
def main():
    run = torch.compile(Pipeline())
    return [run(torch.ones(2, 3), torch.tensor(level)) for level in (0.5, 2.0)]
