"""A whole training step is compiled, with what Fabric does in it."""

import torch
from lightning import Fabric
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 4)

    def forward(self, x):
        return self.down(self.up(x).relu())


fabric = Fabric(accelerator="cpu", devices=1)
net = Net()
net, optimizer = fabric.setup(net, torch.optim.SGD(net.parameters(), lr=0.1))


@torch.compile(backend="eager")
def train_step(x):
    loss = net(x).square().mean()
    fabric.backward(loss)
    fabric.clip_gradients(net, optimizer, max_norm=1.0)
    optimizer.step()
    optimizer.zero_grad()
    fabric.log("loss", loss)
    return loss


for _ in range(2):
    train_step(torch.randn(8, 16))
