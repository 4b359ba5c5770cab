"""The prompt has a keyword that later tokens have not: the shape of huggingface/transformers#37908."""

import torch
from torch import nn


class Attend(nn.Module):
    def forward(self, hidden, **options):
        if "cache" in options:
            hidden = hidden + options["cache"].mean(1, keepdim=True)
        return hidden


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.attend = nn.Embedding(20, 4), Attend()

    def forward(self, input_ids, **options):
        return self.attend(self.embed(input_ids), **options)


@torch.no_grad()
def main():
    step, found = torch.compile(Model(), dynamic=True), []
    for _ in range(2):
        found.append(step(torch.zeros(1, 6, dtype=torch.long)))  # root
        token = torch.zeros(1, 1, dtype=torch.long)
        found += [step(token, cache=torch.ones(1, length, 4)) for length in (6, 7, 8)]
    return found
