"""A Llama-style decoder that answers one prompt: eager against the modes of torch.compile, prefill and decode apart.

The shape of Llama 3.2 1B (16 layers, 2048 wide, 32 heads on 8 for keys and values, 128,256 tokens, 1.24 B parameters),
random bf16 weights, batch 1, greedy. A prompt of 128 tokens, then 64 new ones, one call of the model each. Keys and
values go into a cache that is allocated once and written in place; positions are tensors, so nothing recompiles.

    python examples/modes_llama.py -o results            # on a GPU; a few minutes
    python examples/modes_llama.py --small -o results    # 2 narrow layers, on a CPU; the default where there is no GPU
    python examples/modes_llama.py --modes eager,default # only these rows
"""

import argparse
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 -- its usual name

import compiler_lens

ROWS = ("eager", "default", "reduce-overhead", "max-autotune")
SEED = 1  # of the order: the row that takes longest comes last, so that a time limit costs least


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder."""

    width: int = 2048
    depth: int = 16
    heads: int = 32
    kv_heads: int = 8
    hidden: int = 8192
    vocabulary: int = 128_256
    longest: int = 256  # tokens that the cache has room for
    prompt: int = 128
    answer: int = 64


SMALL = Shape(64, 2, 4, 2, 160, 512, longest=32, prompt=8, answer=8)


class Attention(nn.Module):
    """Grouped-query attention with rotary positions and a static cache."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.size, self.groups = shape.width // shape.heads, shape.heads // shape.kv_heads
        self.q = nn.Linear(shape.width, shape.width, bias=False)
        self.k = nn.Linear(shape.width, shape.kv_heads * self.size, bias=False)
        self.v = nn.Linear(shape.width, shape.kv_heads * self.size, bias=False)
        self.out = nn.Linear(shape.width, shape.width, bias=False)
        room = (1, shape.kv_heads, shape.longest, self.size)
        self.register_buffer("keys", torch.zeros(room), persistent=False)
        self.register_buffer("values", torch.zeros(room), persistent=False)

    def forward(
        self, x: torch.Tensor, places: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor
    ) -> torch.Tensor:
        q, k, v = (part(x).unflatten(2, (-1, self.size)).transpose(1, 2) for part in (self.q, self.k, self.v))
        self.keys.index_copy_(2, places, rotated(k, *turn))
        self.values.index_copy_(2, places, v)
        keys, values = (cache.repeat_interleave(self.groups, 1) for cache in (self.keys, self.values))
        y = F.scaled_dot_product_attention(rotated(q, *turn), keys, values, attn_mask=mask)
        return self.out(y.transpose(1, 2).flatten(2))


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    """Rotary positions: the two halves of each head turned by an angle that grows with the position."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosine - second * sine, second * cosine + first * sine], -1)


class Layer(nn.Module):
    """Attention and a gated feed-forward network, each behind an RMS norm."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.norm_1, self.norm_2 = nn.RMSNorm(shape.width, eps=1e-5), nn.RMSNorm(shape.width, eps=1e-5)
        self.attention = Attention(shape)
        self.gate, self.up = (nn.Linear(shape.width, shape.hidden, bias=False) for _ in range(2))
        self.down = nn.Linear(shape.hidden, shape.width, bias=False)

    def forward(self, x: torch.Tensor, *where: object) -> torch.Tensor:
        x = x + self.attention(self.norm_1(x), *where)
        y = self.norm_2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Llama(nn.Module):
    """Tokens and their positions in, the next token and its logits out."""

    def __init__(self, shape: Shape) -> None:
        super().__init__()
        self.token = nn.Embedding(shape.vocabulary, shape.width)
        self.layers = nn.ModuleList([Layer(shape) for _ in range(shape.depth)])
        self.norm = nn.RMSNorm(shape.width, eps=1e-5)
        half = shape.width // shape.heads // 2
        angles = torch.outer(torch.arange(shape.longest), 500_000 ** (-torch.arange(half) / half))
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.register_buffer("seen", torch.ones(shape.longest, shape.longest).tril().bool(), persistent=False)
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: torch.Tensor, places: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x, turn, mask = self.token(tokens), (self.cosine[places], self.sine[places]), self.seen[places]
        for layer in self.layers:
            x = layer(x, places, turn, mask)
        logits = F.linear(self.norm(x[:, -1:]), self.token.weight)  # the head is the embedding, as in Llama 3.2 1B
        return logits.argmax(-1), logits


def work(shape: Shape, device: torch.device) -> tuple[compiler_lens.Phase, compiler_lens.Phase]:
    """The two phases: the prompt in one call, then the answer token by token."""
    prompt = torch.randint(shape.vocabulary, (1, shape.prompt), device=device)
    places = torch.arange(shape.prompt, device=device)

    def prefill(model: nn.Module) -> torch.Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        return model(prompt, places)[1]

    def decode(model: nn.Module) -> torch.Tensor:
        # Cut out of one row: with the prompt's stride the first token would be compiled apart from all others.
        token, place, first = prompt[0, -1:].clone()[None], places[-1:] + 1, None
        for _ in range(shape.answer):
            torch.compiler.cudagraph_mark_step_begin()
            token, logits = model(token, place)
            if first is None:
                first = logits.clone()  # what the errors are measured on: later tokens depend on earlier ones
            token, place = token.clone(), place + 1  # a clone: the next step writes over what this one gave
        return first

    phase = compiler_lens.Phase
    return phase("prefill", prefill, tokens=shape.prompt), phase("decode", decode, tokens=shape.answer)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--small", action="store_true", help="2 narrow layers; the default where there is no accelerator"
    )
    parser.add_argument("--modes", default=",".join(ROWS), help="rows to measure, with commas between")
    parser.add_argument("--seconds", type=float, default=4.0, help="to spend on timing each row")
    parser.add_argument("-o", dest="folder", type=Path, default=Path(), help="where results go")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    small = args.small or device.type == "cpu"
    torch.manual_seed(0)
    shape = SMALL if small else Shape()
    with device:
        model = Llama(shape).to(torch.bfloat16).eval()
    millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
    title = f"Llama-style decoder, {millions:,.1f} M parameters, random bf16 weights, batch 1"
    print(f"{title}, on {device.type}", flush=True)
    args.folder.mkdir(parents=True, exist_ok=True)

    def save(result: compiler_lens.Modes) -> None:
        (args.folder / "modes_llama.json").write_text(result.to_json(), encoding="utf-8")
        result.save_svg(args.folder / "modes_llama.svg", title)

    def done(result: compiler_lens.Modes, name: str) -> None:
        row = result.row(name)
        took = (
            row.failure or f"{row.timing('decode').tokens_per_second:.1f} tokens/s, {row.cold_seconds:.1f} s to compile"
        )
        print(f"{name}: {took}", flush=True)
        save(result)

    result = compiler_lens.compare_modes(
        model,
        phases=work(shape, device),
        modes=args.modes.split(","),
        seconds=1.0 if small else args.seconds,
        seed=SEED,
        folder=args.folder / "modes_llama",
        each=done,
    )
    save(result)
    print(result)


if __name__ == "__main__":
    main()
