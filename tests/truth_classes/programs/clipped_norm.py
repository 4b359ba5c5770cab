"""One call in the middle of a long line breaks: the shape of huggingface/trl#2862."""

import torch
from torch import nn


class Loss(nn.Module):
    def weigh(self, values, mask):
        return (values * mask).sum() / max(mask.sum().item(), 1) + values.mean()  # root

    def forward(self, values, mask):
        return self.weigh(values + 1, mask)


@torch.no_grad()
def main():
    step = torch.compile(Loss())
    return [step(torch.ones(4), torch.tensor([1.0, 1.0, 0.0, 0.0]))]
