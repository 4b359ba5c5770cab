"""A decoding step asks whether the token is one of those that end: the shape of huggingface/transformers#37944."""

import torch
from torch import nn


class StopRule:
    def __init__(self, tokens):
        self.tokens = tokens

    def finished(self, token):
        return token in self.tokens  # root


class Decoder(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocabulary, width), nn.Linear(width, vocabulary)

    def forward(self, token):
        return self.head(self.embed(token).tanh())


class Step(nn.Module):
    def __init__(self, vocabulary=6, width=8):
        super().__init__()
        self.decoder, self.rule = Decoder(vocabulary, width), StopRule(torch.tensor([2, 5]))

    def forward(self, token):
        logits = self.decoder(token)
        following = logits.argmax(-1)
        return logits * (0.0 if self.rule.finished(following) else 1.0), following


@torch.no_grad()
def main():
    step, found = torch.compile(Step()), []
    for token in range(6):
        found.extend(step(torch.tensor(token)))
    return found


if __name__ == "__main__":
    main()
