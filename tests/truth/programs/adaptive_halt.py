"""A recurrent block stops as soon as all positions are done: the shape of pytorch/pytorch#112824."""

import torch
from torch import nn


class Cell(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.update, self.halt = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.update(x).tanh(), self.halt(x).sigmoid().squeeze(-1)


class Ponder(nn.Module):
    def __init__(self, width, most):
        super().__init__()
        self.cell, self.most = Cell(width), most

    def forward(self, x):
        spent = x.new_zeros(x.shape[0])
        for _ in range(self.most):
            following, chance = self.cell(x)
            running = spent < 1.0
            x = torch.where(running.unsqueeze(-1), following, x)
            spent = torch.where(running, spent + chance, spent)
            if bool((spent >= 1.0).all()):  # root
                break
        return x


class Reasoner(nn.Module):
    def __init__(self, width=4):
        super().__init__()
        self.ponder, self.head = Ponder(width, 4), nn.Linear(width, 2)

    def forward(self, x):
        return self.head(self.ponder(x))


def main():
    model = Reasoner()
    step, found = torch.compile(model), []
    for bias in (-3.0, 3.0, 0.0):
        with torch.no_grad():
            model.ponder.cell.halt.bias.fill_(bias)
        found.append(step(torch.randn(3, 4)))
        found[-1].sum().backward()
    return [*found, model.ponder.cell.update.weight.grad]


if __name__ == "__main__":
    main()
