"""What the GPU recordings are of: a transformer block's training step, a small ResNet, and what CUDA graphs dislike."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 -- its usual name


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int = 512, heads: int = 8) -> None:
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


class Residual(nn.Module):
    """Two convolutions with a way around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv_1, self.conv_2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.norm_1, self.norm_2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.norm_1(self.conv_1(x)))
        return F.relu(x + self.norm_2(self.conv_2(y)))


class SmallResNet(nn.Module):
    """Few kinds of convolution: each takes a while to tune."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(Residual(width), Residual(width))
        self.head = nn.Linear(width, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class Decoder(nn.Module):
    """A small decoder as people write it: it stops to look at a tensor, and a setting of it changes as it is trained."""

    def __init__(self, words: int = 4096, width: int = 512, layers: int = 4) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.temperature = 1.0

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        if x.abs().max() > 1e4:
            x = x.clamp(-1e4, 1e4)
        logits = self.head(self.norm(x)) / self.temperature
        return F.cross_entropy(logits.flatten(0, 1).float(), ids.flatten())


class InBfloat16(nn.Module):
    """A model under autocast."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", torch.bfloat16):
            return self.net(x)


def runs_partly_on_cpu(x: torch.Tensor) -> torch.Tensor:
    return (x.cpu() + 1).cuda() * 2


def changes_its_input(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x.sin()


def reduces(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1).sum(0) + x.var(0)


def add_many(xs: list[torch.Tensor]) -> list[torch.Tensor]:
    return torch._foreach_add(torch._foreach_mul(xs, 2.0), 1.0)


def gpt(compile_: Callable[..., nn.Module]) -> None:
    """Three training steps of one block, in bfloat16."""
    model = compile_(Block().cuda())
    for _ in range(3):
        torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(torch.randn(8, 256, 512, device="cuda")).float().square().mean()
        loss.backward()
        model.zero_grad()  # summing into .grad would read what the next replay overwrites


def resnet(compile_: Callable[..., Callable[..., torch.Tensor]]) -> None:
    """Inference of a small ResNet, in bfloat16."""
    model = compile_(SmallResNet().cuda().eval())
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for _ in range(3):
            model(torch.randn(8, 3, 32, 32, device="cuda"))


def oddities(compile_: Callable[..., Callable[..., object]]) -> None:
    """What CUDA graphs cannot take whole, reductions, and a foreach kernel."""
    x = torch.randn(1024, 1024, device="cuda")
    for function in (runs_partly_on_cpu, changes_its_input, reduces):
        compiled = compile_(function)
        for _ in range(3):
            compiled(x)
    compiled = compile_(add_many)
    for _ in range(3):
        compiled([torch.randn(64, 64, device="cuda") for _ in range(4)])


def train_on(model: nn.Module, inner: Decoder) -> None:
    """Batches of other lengths, and a temperature that falls."""
    for length, temperature in ((192, 1.0), (320, 1.0), (256, 0.9), (256, 0.8)):
        inner.temperature = temperature
        model(torch.randint(0, 4096, (8, length), device="cuda")).backward()
        model.zero_grad()


WORKLOADS = {"gpt": gpt, "resnet": resnet, "oddities": oddities}
# A model on the GPU, its input, and whether it is trained.
PROFILED = {
    "decoder": lambda: (InBfloat16(Decoder().cuda()), torch.randint(0, 4096, (8, 256), device="cuda"), True),
    "gpt": lambda: (InBfloat16(Block().cuda()), torch.randn(8, 256, 512, device="cuda"), True),
    "resnet": lambda: (InBfloat16(SmallResNet().cuda().eval()), torch.randn(8, 3, 32, 32, device="cuda"), False),
}
