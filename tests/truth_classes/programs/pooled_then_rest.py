"""A value read for the rest of a function is another one at each call: the shape of huggingface/transformers#30351."""

import torch
from torch import nn


class Pool(nn.Module):
    def forward(self, hidden, lengths):
        longest = int(lengths.max())  # root
        hidden = hidden.sin()
        if longest > 5:
            hidden = hidden * 2
        if longest > 7:
            hidden = hidden + 1
        return hidden[:, :longest]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.pool = Pool()

    def forward(self, hidden, lengths):
        return self.pool(hidden + 1, lengths)


@torch.no_grad()
def main():
    model = torch.compile(Model())
    return [model(torch.ones(2, 9, 3), torch.tensor([length, 1])) for length in (4, 5, 6, 7, 8, 9)]
