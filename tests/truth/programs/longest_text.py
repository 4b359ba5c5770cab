"""A text encoder cuts its padding to the longest text of the batch: the shape of speechbrain/speechbrain#3086."""

import torch
import torch.nn.functional as F
from torch import nn


def length_to_mask(lengths, longest):
    return torch.arange(longest) < lengths[:, None]


def trim(x, lengths):
    return x[:, : lengths.max()]  # root


class TextEncoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.conv = nn.Embedding(vocabulary, width), nn.Conv1d(width, width, 3, padding=1)

    def forward(self, ids, lengths):
        ids = trim(ids, lengths)
        hidden = self.conv(self.embed(ids).transpose(1, 2)).transpose(1, 2)
        return hidden * length_to_mask(lengths, ids.shape[1]).unsqueeze(-1)


class Model(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.encoder, self.head = TextEncoder(30, width), nn.Linear(width, 5)

    def forward(self, ids, lengths):
        hidden = self.encoder(ids, lengths)
        return F.log_softmax(self.head(hidden.sum(1) / lengths.unsqueeze(-1)), -1)


def main():
    model = Model()
    step, found = torch.compile(model), []
    for lengths in (torch.tensor([7, 4]), torch.tensor([6, 8]), torch.tensor([3, 5])):
        found.append(step(torch.randint(1, 30, (2, 9)), lengths))
        found[-1].sum().backward()
    return [*found, model.head.weight.grad]


if __name__ == "__main__":
    main()
