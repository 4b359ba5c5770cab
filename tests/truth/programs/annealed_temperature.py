"""A Gumbel quantizer whose temperature the training loop lowers: the shape of pytorch/pytorch#120934."""

import math

import torch
from torch import nn


class Quantizer(nn.Module):
    def __init__(self, width, codes):
        super().__init__()
        self.scores = nn.Linear(width, codes)
        self.codebook = nn.Embedding(codes, width)
        self.cooling = 0.0

    def forward(self, hidden):
        weights = (self.scores(hidden) * math.exp(self.cooling)).softmax(-1)  # root
        return weights @ self.codebook.weight


class AutoEncoder(nn.Module):
    def __init__(self, width=8, codes=5):
        super().__init__()
        self.encode = nn.Linear(width, width)
        self.quantize = Quantizer(width, codes)
        self.decode = nn.Linear(width, width)

    def forward(self, x):
        return self.decode(self.quantize(torch.tanh(self.encode(x))))


class Annealing:
    def __init__(self, quantizer, step=0.25, highest=1.0):
        self.quantizer, self.by, self.highest = quantizer, step, highest

    def step(self):
        self.quantizer.cooling = min(self.quantizer.cooling + self.by, self.highest)


def main():
    model = AutoEncoder()
    annealing, step, losses = Annealing(model.quantize), torch.compile(model), []
    for _ in range(6):
        x = torch.randn(4, 8)
        losses.append((step(x) - x).square().mean())
        losses[-1].backward()
        annealing.step()
    return [*losses, model.encode.weight.grad]


if __name__ == "__main__":
    main()
