"""An attention warns of an argument that is going away: the shape of pytorch/pytorch#135688."""

import warnings

import torch
from torch import nn


def checked_scale(scale, width):
    if scale is None:
        return width**-0.5
    warnings.warn("`scale` is deprecated, set it when the module is made", FutureWarning)  # root
    return scale


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.width = width
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x, scale=None):
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2) * checked_scale(scale, self.width)).softmax(-1)
        return weights @ v


class Encoder(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.attention, self.norm = Attention(width), nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.attention(x, scale=0.5))


def main():
    encoder = Encoder()
    step = torch.compile(encoder)
    found = [step(torch.randn(2, 5, 8)) for _ in range(2)]
    sum(y.square().sum() for y in found).backward()
    return [*found, encoder.attention.qkv.weight.grad]


if __name__ == "__main__":
    main()
