"""A key-value cache that counts its own fill in Python: the shape of meta-pytorch/torchtune#1663."""

import torch
import torch.nn.functional as F
from torch import nn


class KVCache(nn.Module):
    def __init__(self, batch, heads, longest, width):
        super().__init__()
        self.register_buffer("keys", torch.zeros(batch, heads, longest, width))
        self.register_buffer("values", torch.zeros(batch, heads, longest, width))
        self.longest = longest
        self.size = 0

    def update(self, keys, values):
        places = torch.arange(keys.shape[2]) + self.size
        self.keys.index_copy_(2, places, keys)
        self.values.index_copy_(2, places, values)
        self.size += keys.shape[2]  # root
        return self.keys, self.values, (torch.arange(self.longest) < places[-1:] + 1)[None]


class Attention(nn.Module):
    def __init__(self, width, heads, cache):
        super().__init__()
        self.heads, self.cache = heads, cache
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, hidden):
        batch, length, width = hidden.shape
        q, k, v = self.qkv(hidden).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        keys, values, seen = self.cache.update(k, v)
        return F.scaled_dot_product_attention(q, keys, values, attn_mask=seen).transpose(1, 2).reshape(hidden.shape)


class Decoder(nn.Module):
    def __init__(self, width=8, heads=2, longest=16):
        super().__init__()
        self.embed = nn.Embedding(20, width)
        self.attention = Attention(width, heads, KVCache(2, heads, longest, width // heads))
        self.head = nn.Linear(width, 20)

    def forward(self, ids):
        return self.head(self.attention(self.embed(ids)))


@torch.no_grad()
def main():
    decode = torch.compile(Decoder())
    ids, found = torch.zeros(2, 2, dtype=torch.long), []
    for _ in range(7):
        logits = decode(ids)
        ids = logits.argmax(-1)
        found.append(logits)
    return found


if __name__ == "__main__":
    main()
