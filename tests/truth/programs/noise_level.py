"""Sampling hands in its noise level as a Python float: the shape of pytorch/pytorch#149405."""

import math

import torch
from torch import nn


def time_features(level, width):
    frequencies = torch.exp(torch.arange(width // 2) * (-math.log(1e4) / (width // 2)))
    angle = math.exp(-level) * frequencies  # root
    return torch.cat([angle.sin(), angle.cos()])


class Denoiser(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width, self.net = width, nn.Linear(width, width)

    def forward(self, sample, level):
        return self.net(sample + time_features(level, self.width))


class Sampler(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.denoiser = Denoiser(width)

    def forward(self, sample, level):
        return sample - 0.2 * self.denoiser(sample, level)


@torch.no_grad()
def main():
    step, sample, found = torch.compile(Sampler()), torch.randn(2, 6), []
    for level in (0.9, 0.7, 0.5, 0.3, 0.1):
        sample = step(sample, level)
        found.append(sample)
    return found


if __name__ == "__main__":
    main()
