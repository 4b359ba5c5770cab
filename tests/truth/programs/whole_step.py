"""The whole training step is compiled, backward and optimizer with it: the shape of pytorch/pytorch#120814."""

import torch
import torch.nn.functional as F
from torch import nn


class Classifier(nn.Module):
    def __init__(self, width=8, classes=3):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, 16))
        self.head = nn.Linear(16, classes)

    def forward(self, x):
        return self.head(self.body(x).relu())


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.step = torch.compile(self.train_step)

    def loss(self, x, target):
        return F.cross_entropy(self.model(x), target)

    def train_step(self, x, target):
        self.optimizer.zero_grad()
        loss = self.loss(x, target)
        loss.backward()  # root
        self.optimizer.step()
        return loss.detach()


def main():
    model = Classifier()
    trainer = Trainer(model)
    losses = [trainer.step(torch.randn(6, 8), torch.randint(0, 3, (6,))) for _ in range(3)]
    return [*losses, *(p.detach() for p in model.parameters())]


if __name__ == "__main__":
    main()
