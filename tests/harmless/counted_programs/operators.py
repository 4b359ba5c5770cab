"""Higher-order operators, transforms of torch.func, operators of one's own."""

from __future__ import annotations

import contextlib

import torch
from torch import Tensor
from torch._higher_order_ops import map as map_over
from torch._higher_order_ops import scan, while_loop
from torch.nn.attention.flex_attention import flex_attention

from counted_programs import Compiled, Program, Step, net, ones


def cond(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        y = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))
        print("between")
        y.sum().backward()

    run = compiled(step)
    return lambda: run(ones(4))


def loop(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        _, y = while_loop(lambda i, _: i < 3, lambda i, t: (i + 1, t.sin()), (torch.tensor(0), x))
        return y

    run = compiled(step)
    return lambda: run(torch.ones(4))


def mapped(compiled: Compiled) -> Step:
    run = compiled(lambda xs, y: map_over(lambda x, other: x.sin() + other, xs, y).sum().backward())
    return lambda: run(ones(3, 4), ones(4))


def scanned(compiled: Compiled) -> Step:
    run = compiled(lambda start, xs: scan(lambda a, b: (a + b, a * b), start, xs, dim=0))
    return lambda: run(torch.ones(4), torch.ones(3, 4))


def attention(compiled: Compiled) -> Step:
    def step(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return flex_attention(q, k, v, score_mod=lambda score, _b, _h, row, column: score + row - column).sum()

    run = compiled(step)
    return lambda: run(*(torch.ones(1, 1, 16, 16) for _ in range(3)))


def region(compiled: Compiled) -> Step:
    part = torch.compiler.nested_compile_region(lambda x: x.sin() * 2)
    run = compiled(lambda x: part(part(x)).sum().backward())

    def call() -> None:
        with contextlib.suppress(AssertionError):  # of torch's, with the eager backend
            run(ones(4))

    return call


# -- transforms


def func_grad(compiled: Compiled) -> Step:
    run = compiled(torch.func.grad(lambda t: (t**3).sum()))
    return lambda: run(torch.ones(4))


def func_vmap(compiled: Compiled) -> Step:
    run = compiled(lambda x: torch.func.vmap(lambda row: row.sin().sum())(x).sum().backward())
    return lambda: run(ones(3, 4))


def func_jacobian(compiled: Compiled) -> Step:
    run = compiled(lambda x: torch.func.jacrev(torch.sin)(x) + torch.func.jacfwd(torch.cos)(x))
    return lambda: run(torch.ones(4))


def func_jvp(compiled: Compiled) -> Step:
    run = compiled(lambda x, t: torch.func.jvp(torch.sin, (x,), (t,)))
    return lambda: run(torch.ones(4), torch.ones(4))


def func_call(compiled: Compiled) -> Step:
    model = net()
    given = {name: parameter.detach() for name, parameter in model.named_parameters()}

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(model, parameters, (x,)).sum()

    run = compiled(torch.func.grad(loss))
    return lambda: run(given, torch.ones(2, 4))


# -- operators of one's own


@torch.library.custom_op("programs::twice", mutates_args=())
def _twice(x: Tensor) -> Tensor:
    return x * 2


_twice.register_fake(torch.empty_like)
_twice.register_autograd(lambda _ctx, grad: grad * 2)


@torch.library.custom_op("programs::add_one", mutates_args=("x",))
def _add_one(x: Tensor) -> None:
    x.add_(1)


def own_operator(compiled: Compiled) -> Step:
    run = compiled(lambda x: _twice(x).sum().backward())
    return lambda: run(ones(4))


def own_operator_in_place(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        y = x.sin()
        _add_one(y)
        return y.cos()

    run = compiled(step)
    return lambda: run(torch.ones(4))


def allowed_in_graph(compiled: Compiled) -> Step:
    part = torch.compiler.allow_in_graph(lambda x: x.sin())
    run = compiled(lambda x: part(x).sum().backward())
    return lambda: run(ones(4))


KINDS: dict[str, tuple[Program, ...]] = {
    "higher-order operators": (cond, loop, mapped, scanned, attention, region),
    "transforms": (func_grad, func_vmap, func_jacobian, func_jvp, func_call),
    "own operators": (own_operator, own_operator_in_place, allowed_in_graph),
}
