"""A detector negates a tensor: the shape of ultralytics/ultralytics#9435."""

import torch
from torch import nn


def kept(scores, threshold):
    empty = not (scores > threshold).any()  # root
    return scores * 0 if empty else scores


class Head(nn.Module):
    def __init__(self):
        super().__init__()
        self.score = nn.Linear(4, 1)

    def forward(self, boxes):
        return kept(self.score(boxes), 0.5) + 1


@torch.no_grad()
def main():
    head = torch.compile(Head())
    return [head(torch.full((2, 4), value)) for value in (-3.0, 3.0)]
