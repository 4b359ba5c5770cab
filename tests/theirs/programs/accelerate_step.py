"""A whole training step is compiled, with what accelerate does in it."""

import torch
from accelerate import Accelerator
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 4)

    def forward(self, x):
        return self.down(self.up(x).relu())


accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision="bf16")
net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.utils.data.DataLoader(torch.randn(24, 16), batch_size=8)
net, optimizer, data = accelerator.prepare(net, optimizer, data)


@torch.compile(backend="eager")
def train_step(x):
    with accelerator.accumulate(net):
        loss = net(x).square().mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    return loss


for x in data:
    train_step(x)
