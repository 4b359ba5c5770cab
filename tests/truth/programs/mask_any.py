"""A decoder drops its attention mask where nothing is masked: the shape of huggingface/transformers#37199."""

import torch
import torch.nn.functional as F
from torch import nn


def expand_mask(mask, length):
    return mask[:, None, None, :].expand(mask.shape[0], 1, length, mask.shape[1])


def update_causal_mask(attention_mask, length):
    causal = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
    if (attention_mask == 0).any():  # root
        return causal & (expand_mask(attention_mask, length) != 0)
    return causal


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, hidden, mask):
        batch, length, width = hidden.shape
        q, k, v = self.qkv(hidden).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class Decoder(nn.Module):
    def __init__(self, vocabulary=50, width=16, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.layers = nn.ModuleList(Attention(width, 2) for _ in range(layers))

    def forward(self, ids, attention_mask):
        hidden = self.embed(ids)
        mask = update_causal_mask(attention_mask, ids.shape[1])
        for layer in self.layers:
            hidden = hidden + layer(hidden, mask)
        return hidden


def main():
    model = Decoder()
    step = torch.compile(model)
    ids = torch.randint(0, 50, (2, 6))
    padded = torch.ones(2, 6, dtype=torch.long)
    padded[1, 4:] = 0
    found = [step(ids, torch.ones(2, 6, dtype=torch.long)), step(ids, padded)]
    sum(hidden.sum() for hidden in found).backward()
    return [*found, model.layers[0].qkv.weight.grad]


if __name__ == "__main__":
    main()
