"""Conditions come and go by name, through a module that hands them on: the shape of vllm-project/vllm#28456."""

import torch
from torch import nn


class Inner(nn.Module):
    def forward(self, x, **kw):
        if "mask" in kw:
            x = x * kw["mask"]
        if "bias" in kw:
            x = x + kw["bias"]
        return x


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.i = Inner()

    def forward(self, x, past=None, **kw):
        h = self.i(x.sin(), **kw)
        return h if past is None else h + past


@torch.no_grad()
def main():
    step = torch.compile(Model())
    x = torch.ones(4)
    return [step(x), step(x, past=x + 1), step(x, mask=x + 1), step(x, mask=x, past=x + 2), step(x, bias=x, mask=x)]
