"""How often a decoder loops is read from a tensor: the shape of pytorch/pytorch#107754."""

import torch
from torch import nn


class Refiner(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.step = nn.Linear(width, width)

    def forward(self, hidden, rounds):
        for _ in range(rounds.max()):  # root
            hidden = self.step(hidden).tanh()
        return hidden


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.refine = Refiner()

    def forward(self, hidden, rounds):
        return self.refine(hidden, rounds) + 1


@torch.no_grad()
def main():
    decode = torch.compile(Decoder())
    return [decode(torch.ones(2, 4), torch.tensor([rounds, 1])) for rounds in (2, 3)]
