"""Modules of one file call each other's `forward`, three deep: the shape of NVIDIA/Megatron-LM#1204."""

import torch
from torch import nn


class Activation(nn.Module):
    def forward(self, hidden):
        print("activation")  # root
        return hidden.tanh()


class Stage(nn.Module):
    def __init__(self):
        super().__init__()
        self.activation = Activation()

    def forward(self, hidden):
        return self.activation(hidden + 1)


class Tower(nn.Module):
    def __init__(self):
        super().__init__()
        self.stage = Stage()

    def forward(self, hidden):
        return self.stage(hidden * 2)


@torch.no_grad()
def main():
    return [torch.compile(Tower())(torch.ones(3))]
