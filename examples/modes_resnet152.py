"""ResNet-152, one image at a time: eager against the modes of torch.compile.

Random weights, inference, bf16 autocast, batch 1. Plain torch.

    python examples/modes_resnet152.py -o results            # on a GPU; a few minutes
    python examples/modes_resnet152.py --small -o results    # 8 layers, on a CPU; the default where there is no GPU
    python examples/modes_resnet152.py --modes eager,default # only these rows

Tuning all its convolutions takes max-autotune a quarter of an hour, so they are left to the library here, and the row
is named so. `--tune-all` tunes everything; `--tune-few` only tries a few ways to run each generated kernel.
"""

import argparse
from pathlib import Path

import torch
from torch import nn

import compiler_lens

ROWS = ("eager", "default", "reduce-overhead", "max-autotune")
SEED = 1  # of the order: the row that takes longest comes last, so that a time limit costs least

# What max-autotune may not tune, by the name that its row then has.
LIMITS = {
    "": {},
    "max-autotune, library's conv": {"max_autotune_conv_backends": "ATEN"},
    "max-autotune, few choices": {
        "max_autotune_conv_backends": "ATEN",
        "max_autotune_gemm_backends": "ATEN",
        "coordinate_descent_tuning": False,
    },
}


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a 1x1 convolution beside a shortcut."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        after = 4 * width
        self.conv_1, self.norm_1 = nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv_2 = nn.Conv2d(width, width, 3, stride, padding=1, bias=False)
        self.norm_2 = nn.BatchNorm2d(width)
        self.conv_3, self.norm_3 = nn.Conv2d(width, after, 1, bias=False), nn.BatchNorm2d(after)
        self.shortcut = nn.Sequential()
        if stride > 1 or before != after:
            self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
        nn.init.constant_(self.norm_3.weight, 0.2)  # untrained, 50 blocks would let the numbers grow and grow

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm_1(self.conv_1(x)).relu()
        y = self.norm_2(self.conv_2(y)).relu()
        return (self.norm_3(self.conv_3(y)) + self.shortcut(x)).relu()


class ResNet(nn.Module):
    """A stem, four stages of bottlenecks, a head."""

    def __init__(self, blocks: tuple[int, ...] = (3, 8, 36, 3), width: int = 64, classes: int = 1000) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, 2, padding=3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        layers, channels = [], width
        for stage, count in enumerate(blocks):
            for block in range(count):
                layers.append(Bottleneck(channels, width << stage, 2 if stage and not block else 1))
                channels = 4 * (width << stage)
        self.stages = nn.Sequential(*layers)
        self.head = nn.Linear(channels, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.stages(self.stem(x)).mean((2, 3)))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="8 layers; the default where there is no accelerator")
    parser.add_argument("--modes", default=",".join(ROWS), help="rows to measure, with commas between")
    parser.add_argument("--tune-all", dest="limit", action="store_const", const=0, default=1)
    parser.add_argument("--tune-few", dest="limit", action="store_const", const=2)
    parser.add_argument("--seconds", type=float, default=4.0, help="to spend on timing each row")
    parser.add_argument("-o", dest="folder", type=Path, default=Path(), help="where results go")
    return parser.parse_args()


def main() -> None:
    args = arguments()
    device = torch.accelerator.current_accelerator(check_available=True) or torch.device("cpu")
    small = args.small or device.type == "cpu"
    torch.manual_seed(0)
    model = ResNet((1, 1), width=16, classes=10) if small else ResNet()
    model, image = model.to(device).eval(), torch.randn(1, 3, *[64 if small else 224] * 2, device=device)
    title = f"ResNet-{'8, small' if small else '152'}, inference, bf16 autocast, batch 1, random weights"
    print(f"{title}, on {device.type}", flush=True)

    def infer(compiled: nn.Module) -> torch.Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return compiled(image)

    modes, options = args.modes.split(","), {}
    name, limits = list(LIMITS.items())[0 if small else args.limit]
    if limits and "max-autotune" in modes:
        modes.remove("max-autotune")
        options[name] = {"mode": "max-autotune", **limits}
        print(f"To save time the row {name!r} is max-autotune with {limits}", flush=True)
    args.folder.mkdir(parents=True, exist_ok=True)

    def save(result: compiler_lens.Modes) -> None:
        (args.folder / "modes_resnet152.json").write_text(result.to_json(), encoding="utf-8")
        result.save_svg(args.folder / "modes_resnet152.svg", title)

    def done(result: compiler_lens.Modes, name: str) -> None:
        row = result.row(name)
        took = row.failure or f"{row.seconds * 1e3:.3f} ms, {row.cold_seconds:.1f} s to compile"
        print(f"{name}: {took}", flush=True)
        save(result)

    result = compiler_lens.compare_modes(
        model,
        phases=(compiler_lens.Phase("image", infer),),
        modes=modes,
        options=options,
        seconds=1.0 if small else args.seconds,
        seed=SEED,
        folder=args.folder / "modes_resnet152",
        each=done,
    )
    save(result)
    print(result)


if __name__ == "__main__":
    main()
