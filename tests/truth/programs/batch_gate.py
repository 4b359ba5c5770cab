"""An augmentation gates the batch before it draws for elements: the shape of kornia/kornia#3793."""

import torch
from torch import nn


def batch_probability(batch_gate, chances):
    if batch_gate.sum() == 1:  # root
        chosen = chances < 0.7
    else:
        chosen = torch.zeros_like(chances, dtype=torch.bool)
    return chosen


class RandomInvert(nn.Module):
    def forward(self, image, chosen):
        return torch.where(chosen[:, None, None, None], 1 - image, image)


class Pipeline(nn.Module):
    def __init__(self, channels=3):
        super().__init__()
        self.invert = RandomInvert()
        self.stem = nn.Conv2d(channels, 4, 3)

    def forward(self, image, batch_gate, chances):
        chosen = batch_probability(batch_gate, chances)
        return self.stem(self.invert(image, chosen))


def main():
    pipeline = Pipeline()
    step, found = torch.compile(pipeline), []
    for gate in (torch.ones(1), torch.zeros(1), torch.ones(1)):
        found.append(step(torch.rand(4, 3, 6, 6), gate, torch.rand(4)))
        found[-1].square().mean().backward()
    return [*found, pipeline.stem.weight.grad]


if __name__ == "__main__":
    main()
