"""What a break hands on needs a gradient in training, and none in the first call: the shape of pytorch/pytorch#136580."""

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        queries = self.linear(x)
        print("mean")  # root
        return queries.tanh() * 2


def main():
    layer = Layer()
    step, found = torch.compile(layer), []
    for needs in (False, True, False, True):
        layer.linear.requires_grad_(needs)
        out = step(torch.ones(2, 4))
        if needs:
            out.sum().backward()
        found.append(out.detach())
    return [*found, layer.linear.weight.grad]
