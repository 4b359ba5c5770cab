"""Hooks of accelerate's move weights around each module, and the model prints."""

import torch
from accelerate import cpu_offload
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        return self.linear(x).relu()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = Block()
        self.second = Block()

    def forward(self, x):
        return self.second(self.first(x))


net = torch.compile(cpu_offload(Net(), execution_device=torch.device("cpu")), backend="eager")
with torch.no_grad():
    for _ in range(2):
        net(torch.randn(4, 16))
