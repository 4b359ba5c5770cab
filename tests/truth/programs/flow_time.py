"""A policy integrates its action while the time, a tensor, is left: the shape of huggingface/lerobot#2600."""

import torch
from torch import nn


class ActionExpert(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(width + 1, 16), nn.SiLU(), nn.Linear(16, width))

    def forward(self, action, time):
        return self.net(torch.cat([action, time.expand(action.shape[0], 1)], -1))


class FlowPolicy(nn.Module):
    def __init__(self, width=4, steps=5):
        super().__init__()
        self.steps, self.expert = steps, ActionExpert(width)

    def denoise(self, action):
        dt = torch.tensor(-1.0 / self.steps)
        time = torch.tensor(1.0)
        while time >= -dt / 2:  # root
            action = action + dt * self.expert(action, time)
            time = time + dt
        return action


class Robot(nn.Module):
    def __init__(self):
        super().__init__()
        self.policy = FlowPolicy()

    def forward(self, noise):
        return self.policy.denoise(noise).tanh()


@torch.no_grad()
def main():
    step = torch.compile(Robot())
    return [step(torch.randn(2, 4)) for _ in range(2)]


if __name__ == "__main__":
    main()
