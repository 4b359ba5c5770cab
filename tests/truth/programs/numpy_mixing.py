"""A mixing augmentation draws with a NumPy generator: the shape of pytorch/pytorch#136559."""

import numpy as np
import torch
from torch import nn


class MixUp(nn.Module):
    def __init__(self, alpha, seed):
        super().__init__()
        self.alpha, self.generator = alpha, np.random.default_rng(seed)

    def forward(self, images, labels):
        share = self.generator.beta(self.alpha, self.alpha)  # root
        mixed = images * share + images.flip(0) * (1 - share)
        return mixed, labels * share + labels.flip(0) * (1 - share)


class Trainee(nn.Module):
    def __init__(self, width=8, classes=3):
        super().__init__()
        self.mix, self.head = MixUp(0.4, 0), nn.Linear(width, classes)

    def forward(self, images, labels):
        images, labels = self.mix(images.flatten(1), labels)
        return -(self.head(images).log_softmax(-1) * labels).sum(-1).mean()


def main():
    model = Trainee()
    step, losses = torch.compile(model), []
    for _ in range(3):
        labels = torch.eye(3)[torch.randint(0, 3, (4,))]
        losses.append(step(torch.randn(4, 2, 4), labels))
        losses[-1].backward()
    return [*losses, model.head.weight.grad]


if __name__ == "__main__":
    main()
