"""Packages that cannot be installed here, made up in their shape below `site-packages`: what their lines break is theirs."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import Tensor

from compiler_lens import Lens, explain
from compiler_lens.facts.overview.findings import Finding
from compiler_lens.facts.program.owners import Whose

# `zlib.crc32` stands for a function of a C++ extension: Dynamo cannot look into either.
FLASH_ATTENTION = """
import zlib
import torch

def _flash_attn_forward(q, k, v):
    zlib.crc32(b"flash_attn_gpu.fwd")
    return torch.nn.functional.scaled_dot_product_attention(q, k, v)

class FlashAttnFunc(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        return _flash_attn_forward(q, k, v)

    @staticmethod
    def backward(ctx, grad):
        return grad, grad, grad

def flash_attn_func(q, k, v):
    return FlashAttnFunc.apply(q, k, v)
"""
APEX = """
import zlib
import torch

class FusedLayerNormAffineFunction(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        zlib.crc32(b"fused_layer_norm_cuda.forward_affine")
        return torch.nn.functional.layer_norm(x, x.shape[-1:])

    @staticmethod
    def backward(ctx, grad):
        return grad

class FusedLayerNorm(torch.nn.Module):
    def forward(self, x):
        return FusedLayerNormAffineFunction.apply(x)
"""
DEEPSPEED = """
import torch

class DeepSpeedEngine(torch.nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module
        for one in module.modules():
            one.register_forward_pre_hook(self.fetch_sub_module)

    @torch.compiler.disable
    def fetch_sub_module(self, module, inputs):
        return None

    def forward(self, x):
        torch._dynamo.graph_break()
        return self.module(x)
"""
FILES = {
    "flash_attn/flash_attn_interface.py": FLASH_ATTENTION,
    "apex/normalization/fused_layer_norm.py": APEX,
    "deepspeed/runtime/engine.py": DEEPSPEED,
}


@pytest.fixture
def made(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    file, torch_before = request.param, sys.modules.copy()
    site = tmp_path / "lib" / "python3.11" / "site-packages"
    (site / file).parent.mkdir(parents=True)
    (site / file).write_text(FILES[file])
    monkeypatch.syspath_prepend(str(site))
    torch._dynamo.reset()
    yield importlib.import_module(file.removesuffix(".py").replace("/", "."))
    for name in sys.modules.keys() - torch_before.keys():
        if name.partition(".")[0] == file.partition("/")[0]:
            del sys.modules[name]


def theirs(lens: Lens, label: str) -> list[Finding]:
    found = [finding for finding in explain(lens.recording).findings if not finding.owner.is_yours]
    assert found
    assert {finding.owner.label for finding in found} == {label}
    assert all(finding.owner.line is None or finding.owner.line.file == __file__ for finding in found)
    assert all(card.remedy is None and card.rewrite is None for card in explain(lens.recording).cards)
    return found


def steps(lens: Lens) -> str:
    return " ".join(lens.report(color=False, width=120).partition("\nNext\n")[2].split())


@pytest.mark.parametrize("made", ["flash_attn/flash_attn_interface.py"], indirect=True)
def test_the_function_of_flash_attention_is_its_own(made: ModuleType) -> None:
    def attend(q: Tensor) -> Tensor:
        return made.flash_attn_func(q, q, q) * 2

    with Lens(strict=True) as lens:
        torch.compile(attend, backend="eager")(torch.ones(1, 2, 3, 4))
    assert theirs(lens, "flash-attention")[0].owner.whose is Whose.LIBRARY
    assert "return made.flash_attn_func(q, q, q) * 2 Inside flash-attention" in steps(lens)
    assert "Install flash-attention 2.7 or later" in steps(lens)
    assert "custom_op" not in steps(lens)


@pytest.mark.parametrize("made", ["apex/normalization/fused_layer_norm.py"], indirect=True)
def test_a_fused_module_of_apex_is_its_own(made: ModuleType) -> None:
    norm = made.FusedLayerNorm()

    def normed(x: Tensor) -> Tensor:
        return norm(x) + 1

    with Lens(strict=True) as lens:
        torch.compile(normed, backend="eager")(torch.ones(2, 3))
    assert theirs(lens, "apex")
    assert "`nn.LayerNorm`" in steps(lens)
    assert "custom_op" not in steps(lens)


@pytest.mark.parametrize("made", ["deepspeed/runtime/engine.py"], indirect=True)
def test_the_engine_and_the_hooks_of_deepspeed_are_its_design(made: ModuleType) -> None:
    engine = made.DeepSpeedEngine(torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU()))

    def step(x: Tensor) -> Tensor:
        return engine(x).sum()

    with Lens(strict=True) as lens:
        torch.compile(step, backend="eager")(torch.ones(2, 3))
    assert {finding.owner.whose for finding in theirs(lens, "DeepSpeed")} == {Whose.BY_DESIGN}
    assert "By design of DeepSpeed" in steps(lens)
    assert "`engine.compile()` after `deepspeed.initialize`" in steps(lens)
