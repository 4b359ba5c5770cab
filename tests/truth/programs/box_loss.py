"""A box loss that leaves out boxes without an area: the shape of pytorch/vision#9518."""

import torch
import torch.nn.functional as F
from torch import nn


def areas(boxes):
    return (boxes[:, 2] - boxes[:, 0]).clamp(min=0) * (boxes[:, 3] - boxes[:, 1]).clamp(min=0)


def overlap_loss(predicted, target):
    low = torch.maximum(predicted[:, :2], target[:, :2])
    high = torch.minimum(predicted[:, 2:], target[:, 2:])
    common = areas(torch.cat([low, high], 1))
    union = areas(predicted) + areas(target) - common
    loss = 1 - common / union.clamp(min=1e-6)
    valid = areas(target) > 0
    return loss[valid].sum()  # root


class Detector(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.head = nn.Linear(width, 4)

    def boxes(self, features):
        corner, size = self.head(features).chunk(2, -1)
        return torch.cat([corner, corner + F.softplus(size)], -1)

    def forward(self, features, target):
        return overlap_loss(self.boxes(features), target)


def main():
    detector = Detector()
    step, losses = torch.compile(detector), []
    some, none = torch.rand(5, 4).sort(-1).values, torch.zeros(5, 4)
    for target in (some, none, torch.cat([some[:2], none[:3]])):
        losses.append(step(torch.randn(5, 8), target))
        losses[-1].backward()
    return [*losses, detector.head.weight.grad]


if __name__ == "__main__":
    main()
