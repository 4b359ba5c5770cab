"""Wrappers around a layer are all called by `forward`, and the innermost breaks: the shape of pytorch/ao#2019."""

import time

import torch
from torch import nn


class Noise(nn.Module):
    def forward(self, hidden):
        began = time.time()  # root
        return hidden + (began < 0)


class Scale(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, hidden):
        return self.inner(hidden * 2).sin()


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, hidden):
        return hidden + self.inner(hidden + 1)


@torch.no_grad()
def main():
    return [torch.compile(Residual(Scale(Noise())))(torch.ones(3))]
