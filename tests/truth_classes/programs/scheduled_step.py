"""A whole training step with optimizer and scheduler is compiled: the shape of pytorch/pytorch#120934."""

import torch
from torch import nn


def main():
    torch.manual_seed(0)
    model = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def update():
        optimizer.step()
        return 0

    step = torch.compile(update)
    for _ in range(2):
        model(torch.ones(2, 3)).square().mean().backward()
        step()
        optimizer.zero_grad()
    return [model.weight.detach()]
