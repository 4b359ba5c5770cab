"""A table is looked up by a number that stands in a tensor: the shape of isayevlab/aimnetcentral#109."""

import torch
from torch import nn


class Guidance:
    def __init__(self, scales):
        self.scales = scales

    def at(self, timestep):
        return self.scales.get(f"t{timestep.item()}", 1.0)  # root


class UNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.time, self.net = nn.Linear(1, width), nn.Linear(width, width)

    def forward(self, sample, timestep):
        return self.net(sample + self.time(timestep.reshape(1, 1) / 10.0))


class Denoise(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.unet, self.guidance = UNet(width), Guidance({"t1": 2.0, "t2": 3.0})

    def forward(self, sample, timestep):
        noise = self.unet(sample, timestep)
        return sample - self.guidance.at(timestep) * noise


@torch.no_grad()
def main():
    model = Denoise()
    step, sample, found = torch.compile(model), torch.randn(2, 6), []
    for timestep in (3, 2, 1):
        sample = step(sample, torch.tensor(timestep))
        found.append(sample)
    return found


if __name__ == "__main__":
    main()
