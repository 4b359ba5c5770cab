"""ViT-B/16, one image at a time: eager against the modes of torch.compile.

Random weights, inference, bf16 autocast, batch 1, 224 by 224 pixels. Plain torch.

    python examples/modes_vit.py -o results            # on a GPU; a few minutes
    python examples/modes_vit.py --small -o results    # 2 narrow layers, on a CPU; the default where there is no GPU
    python examples/modes_vit.py --modes eager,default # only these rows
"""

import argparse
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 -- its usual name

import compiler_lens

ROWS = ("eager", "default", "reduce-overhead", "max-autotune")
SEED = 1  # of the order: the row that takes longest comes last, so that a time limit costs least


class Block(nn.Module):
    """A pre-norm encoder block."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width, eps=1e-6), nn.LayerNorm(width, eps=1e-6)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(y)
        return x + self.down(F.gelu(self.up(self.norm_2(x))))


class ViT(nn.Module):
    """Patches and a class token through encoder blocks to a head."""

    def __init__(self, width: int = 768, depth: int = 12, heads: int = 12, pixels: int = 224) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.token = nn.Parameter(torch.randn(1, 1, width) * 0.02)
        self.places = nn.Parameter(torch.randn(1, (pixels // 16) ** 2 + 1, width) * 0.02)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width, eps=1e-6), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.blocks(x))[:, 0])


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
    model = ViT(64, 2, 4, pixels=64) if small else ViT()
    model, image = model.to(device).eval(), torch.randn(1, 3, *[64 if small else 224] * 2, device=device)
    title = f"ViT-{'small' if small else 'B/16'}, inference, bf16 autocast, batch 1, random weights"
    print(f"{title}, on {device.type}", flush=True)

    def infer(compiled: nn.Module) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return compiled(image)

    args.folder.mkdir(parents=True, exist_ok=True)

    def save(result: compiler_lens.Modes) -> None:
        (args.folder / "modes_vit.json").write_text(result.to_json(), encoding="utf-8")
        result.save_svg(args.folder / "modes_vit.svg", title)

    def done(result: compiler_lens.Modes, name: str) -> None:
        row = result.row(name)
        took = row.failure or f"{row.seconds * 1e3:.3f} ms, {row.cold_seconds:.1f} s to compile"
        print(f"{name}: {took}", flush=True)
        save(result)

    result = compiler_lens.compare_modes(
        model,
        phases=(compiler_lens.Phase("image", infer),),
        modes=args.modes.split(","),
        seconds=1.0 if small else args.seconds,
        seed=SEED,
        folder=args.folder / "modes_vit",
        each=done,
    )
    save(result)
    print(result)


if __name__ == "__main__":
    main()
