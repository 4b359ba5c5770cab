"""A router makes sure that its scores are finite, and says where not: the shape of pytorch/pytorch#105513."""

import torch
from torch import nn


def checked(scores, name):
    assert torch.isfinite(scores).all(), f"{name}: scores are not finite: {scores.min()}"  # root
    return scores


class Router(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.gate = nn.Linear(width, experts)

    def forward(self, x):
        return checked(self.gate(x), "router").softmax(-1)


class Mixture(nn.Module):
    def __init__(self, width=6, experts=3):
        super().__init__()
        self.router = Router(width, experts)
        self.experts = nn.Parameter(torch.randn(experts, width, width) / width)

    def forward(self, x):
        return torch.einsum("bi,eij,be->bj", x, self.experts, self.router(x))


def main():
    mixture = Mixture()
    step = torch.compile(mixture)
    found = [step(torch.randn(4, 6)) for _ in range(2)]
    sum(y.sum() for y in found).backward()
    return [*found, mixture.router.gate.weight.grad]


if __name__ == "__main__":
    main()
