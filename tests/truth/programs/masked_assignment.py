"""A policy loss with one temperature for each sign of the advantage: the shape of linkedin/Liger-Kernel#1274."""

import torch
from torch import nn


def soft_gate(ratio, temperature):
    return torch.sigmoid(temperature * (ratio - 1.0)) * 4.0 / temperature


def per_token_loss(log_probs, old_log_probs, advantages, positive, negative):
    ratio = torch.exp(log_probs - old_log_probs)
    gain = advantages.unsqueeze(1).expand_as(ratio)
    better = gain > 0
    loss = torch.empty_like(ratio)
    loss[better] = soft_gate(ratio[better], positive)  # root
    loss = torch.where(better, loss, soft_gate(ratio, negative))
    return -loss * gain


class PolicyLoss(nn.Module):
    def __init__(self, width, vocabulary):
        super().__init__()
        self.head = nn.Linear(width, vocabulary)

    def forward(self, hidden, chosen, old_log_probs, advantages):
        scores = self.head(hidden).log_softmax(-1)
        log_probs = scores.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
        return per_token_loss(log_probs, old_log_probs, advantages, 1.0, 1.05).mean()


def main():
    loss_of = PolicyLoss(8, 12)
    step = torch.compile(loss_of)
    losses = []
    for advantages in (torch.tensor([1.0, -1.0]), torch.tensor([-2.0, -1.0]), torch.tensor([0.5, 1.0])):
        chosen, old = torch.randint(0, 12, (2, 5)), -torch.rand(2, 5)
        losses.append(step(torch.randn(2, 5, 8), chosen, old, advantages))
        losses[-1].backward()
    return [*losses, loss_of.head.weight.grad]


if __name__ == "__main__":
    main()
