"""Only generate is called on what was compiled, and it calls the model inside: the shape of pytorch/pytorch#116181."""

import torch
from torch import nn


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.mix = nn.Embedding(vocabulary, width), nn.Linear(width, width)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, ids):
        return self.head(self.mix(self.embed(ids)).tanh().cumsum(1))


class LanguageModel(nn.Module):
    def __init__(self, vocabulary=9, width=5):
        super().__init__()
        self.decoder = Decoder(vocabulary, width)

    def forward(self, ids):
        return self.decoder(ids)

    def generate(self, ids, new):
        for _ in range(new):
            logits = self(ids)
            ids = torch.cat([ids, logits[:, -1:].argmax(-1)], 1)
        return ids


@torch.no_grad()
def main():
    model = torch.compile(LanguageModel())  # root
    return model.generate(torch.zeros(2, 3, dtype=torch.long), 4)


if __name__ == "__main__":
    main()
