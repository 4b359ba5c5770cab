"""A condition stands in the middle of an expression, in a word that is not ASCII: the shape of huggingface/peft#2434."""

import torch
from torch import nn


class Gate(nn.Module):
    def forward(self, x, level):
        doubled = x * 2
        return doubled + len("größer") if level.max() > 1 else doubled - 1  # root


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = Gate()

    def forward(self, x, level):
        return self.gate(x, level) * 3


@torch.no_grad()
def main():
    model = torch.compile(Model())
    return [model(torch.ones(2), torch.tensor([value])) for value in (0.5, 2.0)]
