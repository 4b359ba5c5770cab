"""A scheduler draws its noise from a generator of its own: the shape of pytorch/pytorch#88576."""

import torch
from torch import nn


def randn_like(sample, generator):
    return torch.randn(sample.shape, generator=generator)  # root


class Scheduler:
    def __init__(self, steps):
        self.sigmas = torch.linspace(0.5, 0.0, steps + 1)

    def step(self, noise, index, sample, generator):
        sample = sample - 0.3 * noise
        return sample + self.sigmas[index + 1] * randn_like(sample, generator)


class Pipeline(nn.Module):
    def __init__(self, width=6, steps=3):
        super().__init__()
        self.steps, self.scheduler = steps, Scheduler(steps)
        self.unet = nn.Sequential(nn.Linear(width, 12), nn.SiLU(), nn.Linear(12, width))

    def forward(self, sample, index, generator):
        return self.scheduler.step(self.unet(sample), index, sample, generator)


@torch.no_grad()
def main():
    pipeline, generator = Pipeline(), torch.Generator().manual_seed(3)
    step, sample, found = torch.compile(pipeline), torch.randn(2, 6), []
    for index in range(pipeline.steps):
        sample = step(sample, torch.tensor([index]), generator)
        found.append(sample)
    return found


if __name__ == "__main__":
    main()
