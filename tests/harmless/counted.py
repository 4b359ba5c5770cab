"""Programs in which torch runs hooks of ours while Dynamo's frame callback is active, and what torch counts of them."""

from __future__ import annotations

import contextlib
import gc
import os
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from functorch.compile import aot_function, nop
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.checkpoint import checkpoint

Step = Callable[[], object]
Program = Callable[[Callable[..., Any]], Step]  # from what compiles a function, to what to call


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))


def _x(*sizes: int) -> Tensor:
    return torch.ones(*sizes).requires_grad_()


def backward_inside(compiled: Callable[..., Any]) -> Step:
    def step(net: nn.Module, x: Tensor) -> Tensor:
        loss = net(x).sum()
        loss.backward()
        return loss

    run, net = compiled(step), _net()
    return lambda: run(net, _x(2, 4))


def optimizer_inside(compiled: Callable[..., Any]) -> Step:
    net = _net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    run = compiled(step)
    return lambda: run(_x(2, 4))


def double_backward(compiled: Callable[..., Any]) -> Step:
    def step(x: Tensor) -> Tensor:
        (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
        first.sum().backward()
        return first

    run = compiled(step)

    def call() -> None:
        with contextlib.suppress(RuntimeError):  # AOTAutograd does not support it, which it says in the second backward
            run(_x(4))

    return call


def lazy_backward(compiled: Callable[..., Any]) -> Step:
    run = compiled(_net())

    def step(x: Tensor) -> None:
        run(x).sum().backward()

    outer = compiled(step)
    return lambda: outer(_x(2, 4))


def tensor_hook(compiled: Callable[..., Any]) -> Step:
    def step(x: Tensor) -> Tensor:
        y = x.sin()
        y.register_hook(lambda grad: grad * 2)
        y.sum().backward()
        return y

    run = compiled(step)
    return lambda: run(_x(4))


def module_hook(compiled: Callable[..., Any]) -> Step:
    net = _net()
    net.register_full_backward_hook(lambda _module, given, _taken: tuple(None if g is None else g + 1 for g in given))

    def step(x: Tensor) -> None:
        net(x).sum().backward()

    run = compiled(step)
    return lambda: run(_x(2, 4))


def checkpointed(compiled: Callable[..., Any]) -> Step:
    net = _net()

    def step(x: Tensor) -> None:
        checkpoint(net, x, use_reentrant=False).sum().backward()

    run = compiled(step)
    return lambda: run(_x(2, 4))


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return grads[0] * 2 + 0 * x


def own_function(compiled: Callable[..., Any]) -> Step:
    def step(x: Tensor) -> None:
        _Double.apply(x).sum().backward()

    run = compiled(step)
    return lambda: run(_x(4))


def compiled_autograd(compiled: Callable[..., Any]) -> Step:
    inside = backward_inside(compiled)

    def step() -> None:
        with torch._dynamo.config.patch(compiled_autograd=True):
            inside()

    return step


def higher_order(compiled: Callable[..., Any]) -> Step:
    def step(x: Tensor) -> None:
        y = torch.cond(x.sum() > 0, lambda t: t.sin(), lambda t: t.cos(), (x,))
        print("between")
        y.sum().backward()

    run = compiled(step)
    return lambda: run(_x(4))


def other_sizes(compiled: Callable[..., Any]) -> Step:
    def step(x: Tensor) -> None:
        (x.sin() * x.shape[0]).sum().backward()

    run = compiled(step)
    return lambda: [run(_x(size)) for size in (2, 3, 4)]


def breaks_and_generators(compiled: Callable[..., Any]) -> Step:
    def pieces(x: Tensor) -> Any:
        for part in x.split(1):
            print(float(part.sum()))
            yield part.sin()

    def step(x: Tensor) -> None:
        torch.cat(list(pieces(x))).sum().backward()

    run = compiled(step)
    return lambda: run(_x(3))


def raises(compiled: Callable[..., Any]) -> Step:
    def step(x: Tensor) -> None:
        y = x.sin().sum()
        y.backward()
        raise RuntimeError("after the backward")

    run = compiled(step)

    def call() -> None:
        with contextlib.suppress(RuntimeError):
            run(_x(4))

    return call


_ADDRESS = re.compile(r" at 0x\w+")  # in a break's text


def other_compilers(compiled: Callable[..., Any]) -> Step:
    """Compilers that are called where Dynamo's callback is active: it breaks the graph at each."""

    def double(x: Tensor) -> Tensor:
        return x.sin() * 2

    def step(x: Tensor) -> Tensor:
        traced = make_fx(double)(x)
        exported = torch.export.export(_net(), (x,)).module()
        return traced(x) + aot_function(double, fw_compiler=nop)(x).sum() + exported(x).sum()

    run = compiled(step)
    return lambda: run(_x(2, 4)).sum().backward()


PROGRAMS: dict[str, Program] = {
    program.__name__: program
    for program in (
        backward_inside, optimizer_inside, double_backward, lazy_backward, tensor_hook, module_hook, checkpointed,
        own_function, compiled_autograd, higher_order, other_sizes, breaks_and_generators, raises, other_compilers,
    )
}  # fmt: skip


def counted(name: str, backend: str, *, recorded: bool, calls: int = 2) -> dict[str, dict[str, int]]:
    """What torch counts while a program runs in this process, with a lens open or without, on empty caches."""
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = tempfile.mkdtemp()
    gc.disable()  # it runs finalizers, which Dynamo counts, wherever memory happens to be allocated
    import compiler_lens

    settings = {"dynamic": False} if backend == "static" else {}
    given = {"static": "aot_eager"}.get(backend, backend)
    with contextlib.redirect_stdout(None), contextlib.ExitStack() as stack:
        if recorded:
            stack.enter_context(compiler_lens.Lens(Path(tempfile.mkdtemp(), "run.clens"), strict=True))
        step = PROGRAMS[name](lambda function: torch.compile(function, backend=given, **settings))
        for _ in range(calls):
            step()
    return {
        kind: {_ADDRESS.sub("", what): count for what, count in counts.items()}
        for kind, counts in sorted(torch._dynamo.utils.counters.items())
    }
