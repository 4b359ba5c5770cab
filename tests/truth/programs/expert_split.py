"""Experts take their tokens by counts from a tensor: the shape of PrimeIntellect-ai/prime-rl#996."""

import torch
import torch.nn.functional as F
from torch import nn


def sort_by_expert(choice, experts):
    order = choice.argsort(stable=True)
    return order, (choice.unsqueeze(-1) == torch.arange(experts)).sum(0)


def run_experts(weights, x, counts):
    parts = torch.split(x, counts.tolist())  # root
    return torch.cat([F.silu(part @ weight) for part, weight in zip(parts, weights)])


class MoE(nn.Module):
    def __init__(self, width, experts):
        super().__init__()
        self.experts = experts
        self.gate = nn.Linear(width, experts, bias=False)
        self.weights = nn.Parameter(torch.randn(experts, width, width) / width)

    def forward(self, x):
        scores, choice = self.gate(x).softmax(-1).max(-1)
        order, counts = sort_by_expert(choice, self.experts)
        y = torch.zeros_like(x).index_add(0, order, run_experts(self.weights, x[order], counts))
        return y * scores.unsqueeze(-1)


class Layer(nn.Module):
    def __init__(self, width=8, experts=3):
        super().__init__()
        self.norm, self.moe = nn.LayerNorm(width), MoE(width, experts)

    def forward(self, x):
        return x + self.moe(self.norm(x))


def main():
    layer = Layer()
    step = torch.compile(layer)
    found = [step(torch.randn(7, 8)) for _ in range(3)]
    sum(y.square().mean() for y in found).backward()
    return [*found, layer.moe.weights.grad]


if __name__ == "__main__":
    main()
