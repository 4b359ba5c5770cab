"""Layers of torch_geometric that ask for values, and a line of the user's that does."""

import torch
from torch import nn
from torch_geometric.nn import GCNConv, global_mean_pool
from torch_geometric.utils import to_dense_batch


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = GCNConv(8, 16)

    def forward(self, x, edges, batch):
        x = self.conv(x, edges).relu()
        if x.sum() > 0:
            x = x + 1
        dense, _ = to_dense_batch(x, batch)
        return global_mean_pool(x, batch), dense.sum(1)


net = torch.compile(Net(), backend="eager")
for nodes in (5, 6, 7):
    net(torch.randn(nodes, 8), torch.randint(0, nodes, (2, 12)), torch.tensor([0, 0] + [1] * (nodes - 2)))
