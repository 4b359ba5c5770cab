"""A sampler shows a progress bar: the shape of huggingface/diffusers#10098."""

import torch
from torch import nn
from tqdm import tqdm


class Energy(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 12), nn.SiLU(), nn.Linear(12, width))

    def gradient(self, x):
        return x - self.net(x)


class Langevin(nn.Module):
    def __init__(self, width=4, steps=3):
        super().__init__()
        self.energy, self.steps = Energy(width), steps

    def advance(self, x):
        for _ in tqdm(range(self.steps), disable=False):  # root
            x = x - 0.1 * self.energy.gradient(x)
        return x

    def forward(self, x):
        return self.advance(x).clamp(-3, 3)


@torch.no_grad()
def main():
    step = torch.compile(Langevin())
    return [step(torch.randn(2, 4)) for _ in range(2)]


if __name__ == "__main__":
    main()
