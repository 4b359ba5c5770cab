"""Renew the CPU recordings in tests/diff/data: `python tests/diff/record.py FOLDER [VARIANT …]`, minutes of g++.

Each is two training steps of one small model, compiled by Inductor in a process of its own with caches of its own.
`twin` is `base` once more, in another folder, with lines added above; every other variant has one thing changed.
"""

import gzip
import os
import re
import subprocess
import sys
from pathlib import Path

MODEL = '''"""A small model."""

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        y = self.up(self.norm(x))
        y = F.relu(y)
        return x + self.down(y)


class Model(nn.Module):
    def __init__(self, width=16, layers=2):
        super().__init__()
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x).log_softmax(-1)


def run(compile_):
    model = compile_(Model())
    for _ in range(2):
        model(torch.randn(8, 16)).sum().backward()
'''

# What is changed in the model's text, and what torch.compile is given.
_INFERENCE = (
    "        model(torch.randn(8, 16)).sum().backward()",
    "        with torch.no_grad():\n            model(torch.randn(8, 16))",
)
VARIANTS = {
    "base": ((), {}),
    "twin": ((('"""A small model."""\n', '"""A small model."""\n\n# Lines\n# that were not there.\n\n'),), {}),
    "op": ((("F.relu(y)", "F.silu(y)"),), {}),
    "shape": ((("torch.randn(8, 16)", "torch.randn(24, 16)"),), {}),
    "dtype": ((("compile_(Model())", "compile_(Model().double())"), ("randn(8, 16)", "randn(8, 16).double()")), {}),
    "option": ((), {"options": {"max_fusion_size": 1}}),
    "inference": ((_INFERENCE,), {}),
    "inference-max-autotune": ((_INFERENCE,), {"mode": "max-autotune"}),
}


def main() -> None:
    if sys.argv[1] == "--in-this-process":
        record(*sys.argv[2:])
        return
    out = Path(sys.argv[1]).absolute()
    for name in sys.argv[2:] or VARIANTS:
        changes, _ = VARIANTS[name]
        text = MODEL
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        app = out / f"app-{name}"
        app.mkdir(parents=True, exist_ok=True)
        (app / "small_model.py").write_text(text)
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(out / f"cache-{name}"), "PYTHONPATH": str(app)}
        environment["PYTHONPATH"] += f":{Path(__file__).resolve().parent.parent.parent}"
        subprocess.run([sys.executable, __file__, "--in-this-process", str(out), name], env=environment, check=True)
        scrub(out, name)


def record(out: str, name: str) -> None:
    import functools

    import small_model
    import torch

    import compiler_lens

    torch.manual_seed(0)
    with compiler_lens.Lens(f"{out}/{name}.clens", strict=True) as lens:
        small_model.run(functools.partial(torch.compile, backend=lens, **VARIANTS[name][1]))


def scrub(out: Path, name: str) -> None:
    """Without paths of the machine that it was made on; the folder of the twin stays another one."""
    text = (out / f"{name}.clens").read_text()
    text = text.replace(str(out), f"/home/user/{name}").replace(
        str(Path(__file__).resolve().parent.parent.parent), "/src"
    )
    text = re.sub(r"/[\w./-]*?/site-packages/", "/usr/lib/python3/site-packages/", text)
    text = re.sub(r'"argv":\[[^]]*\]', '"argv":["train.py"]', text)
    text = re.sub(r'"platform":"[^"]*"', '"platform":"Linux-6.8-x86_64"', text)
    with gzip.GzipFile(out / f"{name}.clens.gz", "wb", mtime=0) as file:
        file.write(text.encode())
    (out / f"{name}.clens").unlink()


if __name__ == "__main__":
    main()
