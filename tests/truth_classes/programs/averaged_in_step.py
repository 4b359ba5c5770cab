"""Weights are averaged in the compiled step, and the count of updates is asked for there."""

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.body(x).relu())


class Trainer:
    def __init__(self):
        self.net = Net()
        self.average = AveragedModel(self.net)

    def step(self, x):
        y = self.net(x)
        self.average.update_parameters(self.net)  # root
        return y * 2


@torch.no_grad()
def main():
    torch.manual_seed(0)
    trainer = Trainer()
    step = torch.compile(trainer.step)
    return [step(torch.ones(2, 4)) for _ in range(2)]
