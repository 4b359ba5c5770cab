"""Compiled functions in each other, subclasses of tensors, Python's own values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.testing._internal.two_tensor import TwoTensor

from counted_programs import Compiled, Program, Step, net, ones


def compiled_in_compiled(compiled: Compiled) -> Step:
    inner = compiled(lambda x: x.sin())

    def step(x: Tensor) -> None:
        y = inner(x)
        print("between")
        inner(y.cos()).sum().backward()

    run = compiled(step)
    return lambda: run(ones(4))


def compiled_modules_in_compiled(compiled: Compiled) -> Step:
    model = nn.Sequential(compiled(net()), compiled(nn.Linear(2, 2)))
    run = compiled(lambda x: model(x).sum().backward())
    return lambda: run(ones(2, 4))


def compiled_in_a_backward(compiled: Compiled) -> Step:
    change = compiled(lambda grad: grad.sin())

    def step(x: Tensor) -> None:
        y = x.cos()
        y.register_hook(change)
        y.sum().backward()

    run = compiled(step)
    return lambda: run(ones(4))


def compiles_while_running(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return compiled(lambda t: t.cos())(y)

    run = compiled(step)
    return lambda: run(ones(4)).sum().backward()


# -- subclasses


class _Mode(TorchFunctionMode):
    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return function(*args, **(kwargs or {}))


def subclass_of_two(compiled: Compiled) -> Step:
    run = compiled(lambda x: (x.sin() * 2).sum())
    return lambda: run(TwoTensor(torch.ones(4), torch.ones(4)).requires_grad_()).backward()


def jagged(compiled: Compiled) -> Step:
    run = compiled(lambda x: x.sin() * 2)
    return lambda: run(torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged))


def function_mode(compiled: Compiled) -> Step:
    run = compiled(lambda x: x.sin().sum().backward())

    def call() -> None:
        with _Mode():
            run(ones(4))

    return call


# -- values


class _Pair(NamedTuple):
    left: Tensor
    right: Tensor


@dataclass
class _Config:
    scale: float
    tables: Mapping[str, list[int]]


_calls = {"count": 0}


def structured_arguments(compiled: Compiled) -> Step:
    def step(pair: _Pair, config: _Config) -> dict[str, Tensor]:
        total = pair.left * config.scale + pair.right * len(config.tables["sizes"])
        return {"total": total, "left": pair.left}

    run = compiled(step)
    return lambda: run(_Pair(ones(4), ones(4)), _Config(2.0, {"sizes": [1, 2]}))["total"].sum().backward()


def changes_a_global(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        _calls["count"] += 1
        (x * _calls["count"]).sum().backward()

    run = compiled(step)
    return lambda: run(ones(4))


def changes_its_module(compiled: Compiled) -> Step:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.seen = 0, []
            self.part = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            self.seen.append(x.shape[0])
            return self.part(x) * self.calls

    run = compiled(Counting())
    return lambda: run(ones(2, 4)).sum().backward()


KINDS: dict[str, tuple[Program, ...]] = {
    "compiled in compiled": (
        compiled_in_compiled, compiled_modules_in_compiled, compiled_in_a_backward, compiles_while_running,
    ),
    "subclasses": (subclass_of_two, jagged, function_mode),
    "Python's values": (structured_arguments, changes_a_global, changes_its_module),
}  # fmt: skip
