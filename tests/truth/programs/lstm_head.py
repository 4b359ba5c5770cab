"""A speech model with an LSTM in the middle: the shape of pytorch/pytorch#141184."""

import torch
from torch import nn


class Prosody(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        hidden, _ = self.lstm(x)  # root
        return self.linear(hidden).tanh()


class Synthesizer(nn.Module):
    def __init__(self, width=6):
        super().__init__()
        self.embed, self.prosody = nn.Embedding(12, width), Prosody(width)
        self.out = nn.Sequential(nn.Linear(width, 16), nn.GELU(), nn.Linear(16, 4))

    def forward(self, ids):
        return self.out(self.prosody(self.embed(ids)))


@torch.no_grad()
def main():
    step = torch.compile(Synthesizer())
    return [step(torch.randint(0, 12, (2, 5))) for _ in range(2)]


if __name__ == "__main__":
    main()
