"""A flow is compiled, and sampled by another method than forward: the shape of pytorch/pytorch#141616."""

import torch
from torch import nn


class Coupling(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width, 16), nn.ReLU(), nn.Linear(16, 2 * width))

    def parameters_of(self, kept):
        shift, scale = self.net(kept).chunk(2, -1)
        return shift, scale.tanh()

    def forward(self, x):
        kept, moved = x.chunk(2, -1)
        shift, scale = self.parameters_of(kept)
        return torch.cat([kept, moved * scale.exp() + shift], -1)

    def inverse(self, y):
        kept, moved = y.chunk(2, -1)
        shift, scale = self.parameters_of(kept)
        return torch.cat([kept, (moved - shift) * (-scale).exp()], -1)


class Flow(nn.Module):
    def __init__(self, width=4, steps=2):
        super().__init__()
        self.steps = nn.ModuleList(Coupling(width // 2) for _ in range(steps))

    def forward(self, x):
        for step in self.steps:
            x = step(x).flip(-1)
        return x

    def inverse(self, y):
        for step in reversed(self.steps):
            y = step.inverse(y.flip(-1))
        return y


def sample(flow, noise):
    return [flow.inverse(part) for part in noise.split(3)]


@torch.no_grad()
def main():
    flow = torch.compile(Flow())  # root
    return sample(flow, torch.randn(6, 4))


if __name__ == "__main__":
    main()
