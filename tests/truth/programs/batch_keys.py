"""A fusion model writes into the dict that it is given, which has other keys each time: the shape of pytorch/tensordict#1606."""

import torch
from torch import nn


class Fusion(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, batch):
        batch["fused"] = self.net(batch["rgb"]).tanh()  # root
        return batch


class Model(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.fusion, self.head = Fusion(width), nn.Linear(width, 2)

    def forward(self, batch):
        return self.head(self.fusion(batch)["fused"])


def batches():
    names = ["depth", "pose", "flow", "mask"]
    for count in range(len(names) + 1):
        yield {"rgb": torch.randn(3, 4), **{name: torch.randn(3, 1) for name in names[:count]}}


def main():
    model = Model()
    step = torch.compile(model)
    found = [step(batch) for batch in batches()]
    sum(y.sum() for y in found).backward()
    return [*found, model.head.weight.grad]


if __name__ == "__main__":
    main()
