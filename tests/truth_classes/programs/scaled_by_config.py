"""Settings of an optimizer that are no learning rate change between steps: the shape of pytorch/pytorch#141361."""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        return self.linear(x).square().mean()


def main():
    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=torch.tensor(0.1), momentum=0.5)
    step = torch.compile(optimizer.step)
    found = []
    for momentum in (0.5, 0.6, 0.7, 0.8):
        optimizer.param_groups[0]["momentum"] = momentum  # root
        model(torch.ones(2, 3)).backward()
        step()
        optimizer.zero_grad()
        found.append(model.linear.weight.detach().clone())
    return found
