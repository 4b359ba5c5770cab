"""The compiled optimizer step sees another learning rate each time: the shape of pytorch/pytorch#163093."""

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self, width=5):
        super().__init__()
        self.body, self.head = nn.Linear(width, width), nn.Linear(width, 1)

    def forward(self, x):
        return self.head(self.body(x).relu()).squeeze(-1)


class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        self.update = torch.compile(self.optimizer.step)  # root

    def schedule(self, epoch):
        for group in self.optimizer.param_groups:
            group["lr"] = 1e-2 * 0.5**epoch

    def train(self, x, target):
        self.optimizer.zero_grad()
        loss = F.mse_loss(self.model(x), target)
        loss.backward()
        self.update()
        return loss.detach()


def main():
    model = Net()
    trainer, losses = Trainer(model), []
    for epoch in range(4):
        losses.append(trainer.train(torch.randn(6, 5), torch.randn(6)))
        trainer.schedule(epoch + 1)
    return [*losses, *(p.detach() for p in model.parameters())]


if __name__ == "__main__":
    main()
