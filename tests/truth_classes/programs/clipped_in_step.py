"""A step clips gradients and asks that they be finite: the check of the norm of pytorch/pytorch#60691."""

import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x).relu()).sum()


class Trainer:
    def __init__(self):
        self.net = Net()

    def clip(self, scale):
        norm = nn.utils.clip_grad_norm_(self.net.parameters(), 1.0, error_if_nonfinite=True)  # root
        return norm * scale


def main():
    torch.manual_seed(0)
    trainer = Trainer()
    trainer.net(torch.ones(2, 4)).backward()
    clip = torch.compile(trainer.clip)
    return [clip(torch.ones(())).detach() for _ in range(2)]
