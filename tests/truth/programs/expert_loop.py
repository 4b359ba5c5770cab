"""A mixture of experts that skips those nobody chose: the shape of vllm-project/vllm-omni#7432."""

import torch
from torch import nn


class Expert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


class Experts(nn.Module):
    def __init__(self, width, count):
        super().__init__()
        self.router = nn.Linear(width, count)
        self.experts = nn.ModuleList(Expert(width) for _ in range(count))

    def forward(self, x):
        weights, choice = self.router(x).softmax(-1).max(-1)
        y = torch.zeros_like(x)
        for number, expert in enumerate(self.experts):
            chosen = choice == number
            if not chosen.any():  # root
                continue
            y = y + torch.where(chosen.unsqueeze(-1), expert(x) * weights.unsqueeze(-1), 0)
        return y


class Block(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.experts = Experts(width, 4)

    def forward(self, x):
        return x + self.experts(self.norm(x))


def main():
    block = Block()
    step = torch.compile(block)
    found = [step(torch.randn(5, 8)), step(torch.randn(5, 8))]
    with torch.no_grad():
        block.experts.router.bias[0] = 100.0
    found.append(step(torch.randn(5, 8)))
    sum(y.square().sum() for y in found).backward()
    return [*found, block.experts.router.weight.grad]


if __name__ == "__main__":
    main()
