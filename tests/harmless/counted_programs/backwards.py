"""Backwards: in the compiled function, twice, by compiled autograd, with hooks, checkpointed, by functions of one's own."""

from __future__ import annotations

import contextlib
import gc
import logging
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from counted_programs import Compiled, Program, Step, net, ones


def backward_inside(compiled: Compiled) -> Step:
    def step(model: nn.Module, x: Tensor) -> Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss

    run, model = compiled(step), net()
    return lambda: run(model, ones(2, 4))


def traced_by_others(compiled: Compiled) -> Step:
    """torch renders all of its trace for them, and Dynamo sees that."""
    inside = backward_inside(compiled)
    logger, handler = logging.getLogger("torch.__trace"), logging.NullHandler()

    def call() -> None:
        logger.addHandler(handler)
        try:
            inside()
        finally:
            logger.removeHandler(handler)

    return call


def optimizer_inside(compiled: Compiled) -> Step:
    return _trained(compiled, lambda parameters: torch.optim.SGD(parameters, lr=0.1))


def adam_inside(compiled: Compiled) -> Step:
    return _trained(compiled, lambda parameters: torch.optim.AdamW(parameters, lr=0.1, foreach=True))


def _trained(compiled: Compiled, make: Any) -> Step:
    model = net()
    optimizer = make(model.parameters())

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step)
    return lambda: run(ones(2, 4))


def optimizer_alone(compiled: Compiled) -> Step:
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    step = compiled(optimizer.step)

    def call() -> None:
        model(ones(2, 4)).sum().backward()
        step()

    return call


def lazy_backward(compiled: Compiled) -> Step:
    run = compiled(net())

    def step(x: Tensor) -> None:
        run(x).sum().backward()

    outer = compiled(step)
    return lambda: outer(ones(2, 4))


def backward_outside(compiled: Compiled) -> Step:
    run = compiled(net())
    return lambda: run(ones(2, 4)).sum().backward()


def backward_later(compiled: Compiled) -> Step:
    """Of all calls at once, the first one's last."""
    run = compiled(net())

    def call() -> None:
        losses = [run(ones(size, 4)).sum() for size in (2, 3)]
        for loss in reversed(losses):
            loss.backward()

    return call


def accumulates(compiled: Compiled) -> Step:
    model = net()

    def step(x: Tensor) -> None:
        for part in x.chunk(2):
            model(part).sum().backward()

    run = compiled(step)
    return lambda: run(ones(4, 4))


# -- twice


def double_backward(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        first.sum().backward()
        return first

    run = compiled(step)

    def call() -> None:
        with contextlib.suppress(RuntimeError):  # AOTAutograd does not support it, which it says in the second backward
            run(ones(4))

    return call


def gradient_penalty(compiled: Compiled) -> Step:
    model = compiled(net())

    def call() -> None:
        x = ones(2, 4)
        with contextlib.suppress(RuntimeError):
            (first,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)
            first.square().sum().backward()

    return call


def gradient_inside(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad(x.sin().sum(), x, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), x)
        return second

    run = compiled(step)

    def call() -> None:
        with contextlib.suppress(RuntimeError):
            run(ones(4))

    return call


def backward_twice(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        loss = x.sin().sum()
        loss.backward(retain_graph=True)
        loss.backward()

    run = compiled(step)
    return lambda: run(ones(4))


# -- compiled autograd


def compiled_autograd(compiled: Compiled) -> Step:
    return _by_compiled_autograd(backward_inside(compiled))


def compiled_autograd_with_hooks(compiled: Compiled) -> Step:
    return _by_compiled_autograd(tensor_hook(compiled))


def compiled_autograd_of_own_function(compiled: Compiled) -> Step:
    return _by_compiled_autograd(own_function(compiled))


def compiled_autograd_enabled(compiled: Compiled) -> Step:
    run = compiled(net())

    def call() -> None:
        with torch._dynamo.compiled_autograd._enable(compiled):
            run(ones(2, 4)).sum().backward()

    return call


def _by_compiled_autograd(inside: Step) -> Step:
    def step() -> None:
        with torch._dynamo.config.patch(compiled_autograd=True):
            inside()

    return step


# -- hooks


def tensor_hook(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        y = x.sin()
        y.register_hook(lambda grad: grad * 2)
        y.sum().backward()
        return y

    run = compiled(step)
    return lambda: run(ones(4))


def hook_of_an_input(compiled: Compiled) -> Step:
    run = compiled(lambda x: x.sin().sum().backward())

    def call() -> None:
        x = ones(4)
        x.register_hook(lambda grad: print("a hook", grad.sum()))
        run(x)

    return call


def hook_after_accumulating(compiled: Compiled) -> Step:
    def double(parameter: Any) -> None:
        parameter.grad.mul_(2)

    model = net()
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(double)
    run = compiled(lambda x: model(x).sum().backward())
    return lambda: run(ones(2, 4))


def module_hook(compiled: Compiled) -> Step:
    model = net()
    model.register_full_backward_hook(lambda _module, given, _taken: tuple(None if g is None else g + 1 for g in given))
    run = compiled(lambda x: model(x).sum().backward())
    return lambda: run(ones(2, 4))


def forward_hooks(compiled: Compiled) -> Step:
    model = net()
    model.register_forward_pre_hook(lambda _module, args: (args[0] + 1,))
    model[0].register_forward_hook(lambda _module, _args, result: print("a hook") or result * 2)
    run = compiled(model)
    return lambda: run(ones(2, 4)).sum().backward()


# -- checkpointing


def checkpointed(compiled: Compiled) -> Step:
    model = net()
    run = compiled(lambda x: checkpoint(model, x, use_reentrant=False).sum().backward())
    return lambda: run(ones(2, 4))


def checkpointed_reentrant(compiled: Compiled) -> Step:
    model = net()
    run = compiled(lambda x: checkpoint(model, x, use_reentrant=True).sum().backward())
    return lambda: run(ones(2, 4))


def checkpointed_in_parts(compiled: Compiled) -> Step:
    model = nn.Sequential(net(), nn.Linear(2, 4), net())
    run = compiled(lambda x: checkpoint_sequential(model, 2, x, use_reentrant=False).sum())
    return lambda: run(ones(2, 4)).backward()


def checkpointed_with_a_break(compiled: Compiled) -> Step:
    model = net()

    def part(x: Tensor) -> Tensor:
        y = model(x)
        print("inside")
        return y.sin()

    run = compiled(lambda x: checkpoint(part, x, use_reentrant=False).sum().backward())
    return lambda: run(ones(2, 4))


# -- functions of one's own


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 2 + 0 * x


class _Printing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        print("a backward")
        return grads[0].neg()


class _InPlace(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        return x.add_(1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        return grads[0]


def own_function(compiled: Compiled) -> Step:
    run = compiled(lambda x: _Double.apply(x).sum().backward())
    return lambda: run(ones(4))


def own_function_that_prints(compiled: Compiled) -> Step:
    run = compiled(lambda x: _Printing.apply(x).sum().backward())
    return lambda: run(ones(4))


def own_function_in_place(compiled: Compiled) -> Step:
    run = compiled(lambda x: _InPlace.apply(x * 1).sum())
    return lambda: run(ones(4)).backward()


def own_function_around_compiled(compiled: Compiled) -> Step:
    inner = compiled(lambda x: x.sin() * 3)

    class Around(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return inner(x)

        @staticmethod
        def backward(ctx: Any, *grads: Tensor) -> Tensor:
            return inner(grads[0])

    run = compiled(lambda x: Around.apply(x).sum().backward())
    return lambda: run(ones(4))


# -- the garbage collector


def collects_in_a_backward(compiled: Compiled) -> Step:
    """What an earlier compilation left dies where Dynamo looks at frames: also at those that are called back for it."""
    compiled(net())(ones(2, 4)).sum().backward()
    torch._dynamo.reset()
    model = net()
    run = compiled(model)

    def collect(grad: Tensor) -> Tensor:
        gc.collect()
        return grad

    model[0].weight.register_hook(collect)

    def step(x: Tensor) -> None:
        run(x).sum().backward()

    outer = compiled(step)
    return lambda: outer(ones(2, 4))


KINDS: dict[str, tuple[Program, ...]] = {
    "training": (
        traced_by_others, backward_inside, optimizer_inside, adam_inside, optimizer_alone, backward_outside, accumulates,
    ),
    "lazy backwards": (lazy_backward, backward_later, collects_in_a_backward),
    "double backward": (double_backward, gradient_penalty, gradient_inside, backward_twice),
    "compiled autograd": (
        compiled_autograd, compiled_autograd_with_hooks, compiled_autograd_of_own_function, compiled_autograd_enabled,
    ),
    "hooks": (tensor_hook, hook_of_an_input, hook_after_accumulating, module_hook, forward_hooks),
    "checkpointing": (checkpointed, checkpointed_reentrant, checkpointed_in_parts, checkpointed_with_a_break),
    "own functions": (
        own_function, own_function_that_prints, own_function_in_place, own_function_around_compiled,
    ),
}  # fmt: skip
