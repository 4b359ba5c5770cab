"""A spec checks that an action is within its bounds: the shape of pytorch/pytorch#140394."""

import torch
from torch import nn


class BoundedSpec:
    def __init__(self, low, high):
        self.low, self.high = torch.tensor(low), torch.tensor(high)

    def project(self, value):
        inside = (value >= self.low).all() and (value <= self.high).all()  # root
        return torch.where(inside, value, value.clamp(self.low, self.high))


class SafeActor(nn.Module):
    def __init__(self, width, spec):
        super().__init__()
        self.net, self.spec = nn.Sequential(nn.Linear(width, 8), nn.Tanh(), nn.Linear(8, 2)), spec

    def forward(self, observation):
        return self.spec.project(self.net(observation))


class Agent(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.normalize = nn.LayerNorm(width)
        self.actor = SafeActor(width, BoundedSpec([-0.3, -0.3], [0.3, 0.3]))

    def forward(self, observation):
        return self.actor(self.normalize(observation))


def main():
    agent = Agent()
    step, found = torch.compile(agent), []
    for scale in (0.0, 1.0, 1.0):
        with torch.no_grad():
            agent.actor.net[2].bias.fill_(scale - 0.5)
        found.append(step(torch.randn(3, 4)))
        found[-1].sum().backward()
    return [*found, agent.actor.net[0].weight.grad]


if __name__ == "__main__":
    main()
