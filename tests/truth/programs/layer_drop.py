"""A speech encoder that drops whole layers in training: the shape of pytorch/pytorch#95425."""

import random

import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.linear(self.norm(x)).relu()


class Encoder(nn.Module):
    def __init__(self, width, layers, drop):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.drop = drop

    def forward(self, x):
        for layer in self.layers:
            dropped = random.random()  # root
            if self.training and dropped < self.drop:
                continue
            x = layer(x)
        return x


class Model(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.project, self.encoder = nn.Linear(4, width), Encoder(width, 3, 0.4)

    def forward(self, features):
        return self.encoder(self.project(features))


def main():
    model = Model()
    step, found = torch.compile(model), []
    for _ in range(4):
        found.append(step(torch.randn(2, 3, 4)))
        found[-1].square().mean().backward()
    return [*found, model.project.weight.grad]


if __name__ == "__main__":
    main()
