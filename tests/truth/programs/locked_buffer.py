"""A replay buffer writes under its lock: the shape of pytorch/rl#2501."""

import threading

import torch
from torch import nn


class Storage:
    def __init__(self, capacity, width):
        self.data = torch.zeros(capacity, width)

    def write(self, places, rows):
        self.data.index_copy_(0, places, rows)


class ReplayBuffer:
    def __init__(self, capacity, width):
        self.storage, self.lock = Storage(capacity, width), threading.RLock()

    def extend(self, places, rows):
        rows = (rows - rows.mean(0)) / (rows.std(0) + 1e-6)
        with self.lock:  # root
            self.storage.write(places, rows)
        return rows


class Collector:
    def __init__(self, policy, buffer):
        self.policy, self.buffer = policy, buffer

    def collect(self, observation, places):
        return self.buffer.extend(places, self.policy(observation).tanh())


@torch.no_grad()
def main():
    collector = Collector(nn.Linear(4, 3), ReplayBuffer(16, 3))
    step = torch.compile(collector.collect)
    found = [step(torch.randn(5, 4), torch.arange(n, n + 5)) for n in (0, 5, 10)]
    return [*found, collector.buffer.storage.data]


if __name__ == "__main__":
    main()
