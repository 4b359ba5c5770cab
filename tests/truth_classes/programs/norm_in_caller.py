"""A helper computes what its caller branches on: the shape of Lightning-AI/pytorch-lightning#19751."""

import torch
from torch import nn


def gradient_scale(values, limit):
    largest = values.abs().max()
    return largest > limit


class Clip(nn.Module):
    def forward(self, values):
        too_large = gradient_scale(values, 1.0)
        doubled = values * 2
        return doubled / 4 if too_large else doubled  # root


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.clip = Clip()

    def forward(self, values):
        return self.clip(values.sin() * 3)


@torch.no_grad()
def main():
    step = torch.compile(Step())
    return [step(torch.full((3,), value)) for value in (0.1, 1.5)]
