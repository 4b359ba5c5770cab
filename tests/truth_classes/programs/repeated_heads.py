"""Heads of one class are compiled one by one, and then one of them changes: the shape of pytorch/pytorch#149534."""

import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, features):
        return features * len(self.name)  # root


@torch.no_grad()
def main():
    heads = [Head("box"), Head("mask")]
    for head in heads:
        head.forward = torch.compile(head.forward)
    found = [head(torch.ones(2, 3)) for head in heads]
    for name in ("boxes", "edges of it"):
        heads[0].name = name
        found.append(heads[0](torch.ones(2, 3)))
    return found
