"""An environment step takes the time of its physics: the shape of pytorch/rl#3297."""

import time

import torch
from torch import nn


class Timings:
    def __init__(self):
        self.seconds = {}

    def add(self, name, began):
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - began  # root


class Physics(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.force = nn.Linear(2 * width, width)

    def forward(self, position, velocity):
        velocity = velocity + 0.1 * self.force(torch.cat([position, velocity], -1))
        return position + 0.1 * velocity, velocity


class Environment(nn.Module):
    def __init__(self, timings, width=3):
        super().__init__()
        self.timings, self.physics = timings, Physics(width)

    def forward(self, position, velocity, began):
        position, velocity = self.physics(position, velocity)
        self.timings.add("physics", began)
        return position.clamp(-1, 1), velocity


@torch.no_grad()
def main():
    environment = Environment(Timings())
    step = torch.compile(environment)
    state, found = (torch.zeros(2, 3), torch.ones(2, 3)), []
    for _ in range(3):
        state = step(*state, 0.0)
        found.extend(state)
    return found


if __name__ == "__main__":
    main()
