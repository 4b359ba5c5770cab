"""A compiled step updates a metric."""

import torch
import torchmetrics
from torch import nn

mean = torchmetrics.MeanMetric()
net = nn.Linear(16, 4)


@torch.compile(backend="eager")
def step(x):
    loss = net(x).square().mean()
    mean.update(loss.detach())
    return loss


for _ in range(2):
    step(torch.randn(8, 16))
