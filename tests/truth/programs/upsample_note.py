"""A U-Net logs when it must interpolate to an odd size: the shape of pytorch/pytorch#108650."""

import logging

import torch
import torch.nn.functional as F
from torch import nn

logger = logging.getLogger("unet")


class Down(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.avg_pool2d(self.conv(x).relu(), 2, ceil_mode=True)


class Up(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, size):
        if size[0] != 2 * x.shape[-2]:
            logger.info("Interpolating to %s, which is not twice the size", size)  # root
        return self.conv(F.interpolate(x, size=size))


class UNet(nn.Module):
    def __init__(self, channels=4):
        super().__init__()
        self.down, self.up = Down(channels), Up(channels)

    def forward(self, x):
        return x + self.up(self.down(x), x.shape[-2:])


def main():
    unet = UNet()
    step = torch.compile(unet, dynamic=False)
    found = [step(torch.randn(1, 4, 7, 7)), step(torch.randn(1, 4, 7, 7))]
    found[0].sum().backward()
    return [*found, unet.up.conv.weight.grad]


if __name__ == "__main__":
    main()
