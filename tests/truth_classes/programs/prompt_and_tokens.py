"""A prompt and then tokens one by one: the shape of huggingface/transformers#33981."""

import torch
from torch import nn


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.e = nn.Embedding(50, 8)
        self.h = nn.Linear(8, 50)

    def forward(self, input_ids, past=None):
        x = self.e(input_ids)
        if past is not None:
            x = torch.cat([past, x], 1)
        return self.h(x), x


@torch.no_grad()
def main():
    step = torch.compile(LM())
    out = []
    for prompt in (7, 9, 5):
        ids = torch.zeros(1, prompt, dtype=torch.long)
        past = None
        for _ in range(4):
            logits, past = step(ids, past=past)
            ids = logits[:, -1:].argmax(-1)
            out.append(logits)
    return out
