"""A relational graph layer finds the number of nodes in the edges: the shape of pyg-team/pytorch_geometric#8467."""

import torch
from torch import nn


def count_nodes(edge_index):
    return int(edge_index.max()) + 1  # root


def propagate(x, edge_index, count):
    source, target = edge_index
    return x.new_zeros(count, x.shape[1]).index_add(0, target, x[source])


class RelationalLayer(nn.Module):
    def __init__(self, width, relations):
        super().__init__()
        self.relations = relations
        self.weights = nn.Parameter(torch.randn(relations, width, width) / width)
        self.own = nn.Linear(width, width)

    def forward(self, x, edge_index, edge_type):
        y, count = self.own(x), count_nodes(edge_index)
        for relation in range(self.relations):
            kept = (edge_type == relation).to(x.dtype).unsqueeze(-1)
            messages = x @ self.weights[relation]
            source, target = edge_index
            y = y + x.new_zeros(count, x.shape[1]).index_add(0, target, messages[source] * kept)
        return y


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first, self.second = RelationalLayer(width, 2), RelationalLayer(width, 2)

    def forward(self, x, edge_index, edge_type):
        return self.second(self.first(x, edge_index, edge_type).relu(), edge_index, edge_type)


def main():
    net = Net()
    step = torch.compile(net)
    edges = torch.tensor([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
    found = [step(torch.randn(6, 8), edges, torch.tensor([0, 1, 0, 1, 1, 0])) for _ in range(2)]
    sum(y.square().mean() for y in found).backward()
    return [*found, net.first.weights.grad]


if __name__ == "__main__":
    main()
