"""Sizes that vary, recompiles, values in place, aliases."""

from __future__ import annotations

import torch
from torch import Tensor

from counted_programs import Compiled, Program, Step, net, ones


def other_sizes(compiled: Compiled) -> Step:
    run = compiled(lambda x: (x.sin() * x.shape[0]).sum().backward())
    return lambda: [run(ones(size)) for size in (2, 3, 4)]


def marked_sizes(compiled: Compiled) -> Step:
    run = compiled(lambda x: (x.sin() * x.shape[0]).sum())

    def call() -> None:
        x = ones(5)
        torch._dynamo.maybe_mark_dynamic(x, 0)
        run(x).backward()

    return call


def sizes_from_data(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        return x[x > 0].sum() + torch.ones(int(x[0].item())).sum()

    run = compiled(step)

    def call() -> None:
        with torch._dynamo.config.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
            run(torch.tensor([2.0, -1.0]))

    return call


def other_numbers(compiled: Compiled) -> Step:
    run = compiled(lambda x, n, scale: (x * n * scale).sum().backward())
    return lambda: [run(ones(4), n, scale) for n, scale in ((1, 0.5), (2, 0.25), (3, 0.75))]


def other_types(compiled: Compiled) -> Step:
    run = compiled(lambda x: x.sin())
    return lambda: [run(torch.ones(4, dtype=kind)) for kind in (torch.float32, torch.float64, torch.bfloat16)]


def too_many_recompiles(compiled: Compiled) -> Step:
    run = compiled(lambda x, name: x.sin() if name else x)

    def call() -> None:
        with torch._dynamo.config.patch(recompile_limit=2):
            for name in "abcd":
                run(torch.ones(4), name)

    return call


# -- in place


def changes_its_input(compiled: Compiled) -> Step:
    run = compiled(lambda x: x.add_(1).sin())
    return lambda: run(torch.ones(4))


def changes_a_view(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        y = x.clone()
        y[1:].mul_(2)
        return y.view(2, 2)

    run = compiled(step)
    return lambda: run(ones(4)).sum().backward()


def returns_its_input(compiled: Compiled) -> Step:
    run = compiled(lambda x: (x, x.view(2, 2), x.detach(), x.sin()))
    return lambda: run(ones(4))[3].sum().backward()


def overlapping_inputs(compiled: Compiled) -> Step:
    run = compiled(lambda x, y: x.add_(1) + y)

    def call() -> None:
        base = torch.ones(6)
        run(base[:4], base[2:])

    return call


def changes_a_buffer(compiled: Compiled) -> Step:
    model = torch.nn.Sequential(net(), torch.nn.BatchNorm1d(2))
    run = compiled(lambda x: model(x).sum().backward())
    return lambda: run(ones(3, 4))


KINDS: dict[str, tuple[Program, ...]] = {
    "sizes and recompiles": (
        other_sizes, marked_sizes, sizes_from_data, other_numbers, other_types, too_many_recompiles,
    ),
    "in place": (changes_its_input, changes_a_view, returns_its_input, overlapping_inputs, changes_a_buffer),
}  # fmt: skip
