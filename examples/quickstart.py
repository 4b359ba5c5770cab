"""Compile a small GPT's training step and a function with graph breaks, see what the compiler did.

Leaves the recording in quickstart.clens; open it again with `compiler-lens show quickstart.clens`.
"""

import os
import shutil

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 -- its usual name

import compiler_lens


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class SmallGPT(nn.Module):
    """Two blocks between an embedding and a head, with the loss inside."""

    def __init__(self, vocabulary: int = 256, length: int = 32, width: int = 64) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(Block(width, 4), Block(width, 4))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        x = self.token(tokens) + self.place(torch.arange(tokens.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def clip_and_log(gradient: torch.Tensor) -> torch.Tensor:
    """As people write it: the branch and the print each break the graph."""
    norm = gradient.norm()
    if norm > 1.0:
        gradient = gradient / norm
    print(f"gradient norm {norm:.3f}")
    return gradient * 0.1


def main() -> None:
    if not any(map(shutil.which, (os.environ.get("CXX", "g++"), "clang++"))):
        raise SystemExit("Inductor builds CPU kernels with a C++ compiler and there is none: install g++ first.")
    lens = compiler_lens.Lens("quickstart.clens")

    model = torch.compile(SmallGPT(), backend=lens)
    for batch in (2, 2, 3):  # the third batch has another size: a recompile
        tokens = torch.randint(0, 256, (batch, 33))
        model(tokens[:, :-1], tokens[:, 1:]).backward()
    torch.compile(clip_and_log, backend=lens)(torch.randn(64, 64))

    print(lens.report())
    print("The recording is in quickstart.clens. To click through it: compiler-lens report quickstart.clens --open")


if __name__ == "__main__":
    main()
