"""A router reads how many tokens an expert has, and branches on it: the shape of huggingface/transformers#29957."""

import torch
from torch import nn


class Router(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.gate, self.expert = nn.Linear(width, 2), nn.Linear(width, width)

    def forward(self, tokens):
        chosen = self.gate(tokens).argmax(-1)
        count = chosen.sum().item()  # root
        scaled = tokens * 2
        if count > 2:
            scaled = self.expert(scaled)
        return scaled


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.router = Router()

    def forward(self, tokens):
        return self.router(tokens) + tokens


@torch.no_grad()
def main():
    torch.manual_seed(0)
    block = torch.compile(Block())
    return [block(torch.randn(6, 4)) for _ in range(3)]
