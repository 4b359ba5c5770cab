"""A subgraph that is compiled once and called several times launches its kernels as often as it is called."""

from __future__ import annotations

import ast

import torch
from torch import Tensor

from compiler_lens import Lens
from compiler_lens.decode.wrapper import read_runs

W = torch.ones(8, 8)


@torch.compiler.nested_compile_region
def block(x: Tensor, w: Tensor) -> Tensor:
    return torch.relu(x @ w)


def tower(x: Tensor, weights: list[Tensor]) -> Tensor:
    for weight in weights:
        x = block(x, weight)
    return x


def test_kernels_of_a_region_that_four_calls_share_are_launched_four_times() -> None:
    with Lens(strict=True) as lens, torch.no_grad():
        torch.compile(tower)(W, [W] * 4)
    kernels = lens.recording.kernels
    assert [sum(launch.runs for launch in kernel.launches) for kernel in kernels] == [4] * len(kernels)
    assert f"with {4 * len(kernels)} launches" in lens.report(color=False, width=120)


_NESTED = """
def inner(args):
    launch(args)

def outer(args):
    inner(args)
    inner(args)

def loops(args):
    loops(args)

def unused(args):
    launch(args)

def call(args):
    outer(args)
    x = outer(args)
    inner(args)
    loops(args)
    loops(args)
    return x
"""


def test_calls_within_calls_multiply_and_a_circle_ends() -> None:
    runs = read_runs(ast.parse(_NESTED), _NESTED.split("\n"))
    assert {span.start: times for span, times in runs.items()} == {2: 5, 5: 2, 9: 3}
