"""Graph breaks with their resume functions, errors, context managers."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from counted_programs import Compiled, Program, Step, net, ones


def prints(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        y = x.sin()
        print("between")
        y.cos().sum().backward()
        print("after")

    run = compiled(step)
    return lambda: run(ones(4))


def branches(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        y = x.sin() if x.sum() > 0 else x.cos()
        y.sum().backward()

    run = compiled(step)
    return lambda: [run(x) for x in (ones(4), -torch.ones(4).requires_grad_())]


def breaks_in_a_loop(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        for _ in range(2):
            x = x.sin()
            print(float(x.sum()))
        return x

    run = compiled(step)
    return lambda: run(ones(4)).sum().backward()


def breaks_below(compiled: Compiled) -> Step:
    def inner(x: Tensor) -> Tensor:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def middle(x: Tensor) -> Tensor:
        return inner(x) + 1

    run = compiled(lambda x: middle(x.tan()).sum().backward())
    return lambda: run(ones(4))


def breaks_in_try(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        try:
            x = x.sin()
            print("trying")
            raise ValueError  # noqa: TRY301 -- that is what is tried
        except ValueError:
            return x.cos()

    run = compiled(step)
    return lambda: run(ones(4)).sum().backward()


def generators(compiled: Compiled) -> Step:
    def pieces(x: Tensor) -> Iterator[Tensor]:
        for part in x.split(1):
            print(float(part.detach().sum()))
            yield part.sin()

    run = compiled(lambda x: torch.cat(list(pieces(x))).sum().backward())
    return lambda: run(ones(3))


def calls_disabled(compiled: Compiled) -> Step:
    outside = torch.compiler.disable(lambda x: x.sin().tolist())

    def step(x: Tensor) -> Tensor:
        return x * outside(x.cos())[0]

    run = compiled(step)
    return lambda: run(torch.ones(4))


# -- errors


def raises(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        x.sin().sum().backward()
        raise RuntimeError("after the backward")

    return _failing(compiled(step), lambda: (ones(4),))


def breaks_a_full_graph(compiled: Compiled) -> Step:
    def step(x: Tensor) -> Tensor:
        print("a break")
        return x.sin()

    return _failing(compiled(step, fullgraph=True), lambda: (torch.ones(4),))


def wrong_sizes(compiled: Compiled) -> Step:
    return _failing(compiled(lambda x, y: x.sin() @ y), lambda: (torch.ones(2, 3), torch.ones(2, 3)))


def raises_in_a_hook(compiled: Compiled) -> Step:
    def step(x: Tensor) -> None:
        y = x.sin()
        y.register_hook(lambda grad: grad.missing)
        y.sum().backward()

    return _failing(compiled(step), lambda: (ones(4),))


def _failing(run: Any, arguments: Any) -> Step:
    def call() -> None:
        with contextlib.suppress(Exception):
            run(*arguments())

    return call


# -- context managers


def without_gradients(compiled: Compiled) -> Step:
    model = net()

    def step(x: Tensor) -> None:
        with torch.no_grad():
            scale = model(x).mean()
        (model(x) * scale).sum().backward()

    run = compiled(step)
    return lambda: run(ones(2, 4))


def autocast(compiled: Compiled) -> Step:
    model = net()

    def step(x: Tensor) -> None:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = model(x)
            print("a break under autocast")
            y = y.float().sin()
        y.sum().backward()

    run = compiled(step)
    return lambda: run(ones(2, 4))


class _Scaled:
    def __enter__(self) -> float:
        return 2.0

    def __exit__(self, *_error: object) -> None:
        return None


def own_manager(compiled: Compiled) -> Step:
    @contextlib.contextmanager
    def named() -> Iterator[str]:
        yield "name"

    def step(x: Tensor) -> None:
        with _Scaled() as scale, named():
            y = x.sin() * scale
        y.sum().backward()

    run = compiled(step)
    return lambda: run(ones(4))


def saved_tensors_packed(compiled: Compiled) -> Step:
    run = compiled(lambda x: (x.sin() * x).sum())

    def call() -> None:
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            run(ones(4)).backward()

    return call


def inference(compiled: Compiled) -> Step:
    run = compiled(net())

    def call() -> None:
        with torch.inference_mode():
            run(torch.ones(2, 4))
        run(ones(2, 4)).sum().backward()

    return call


KINDS: dict[str, tuple[Program, ...]] = {
    "breaks": (prints, branches, breaks_in_a_loop, breaks_below, breaks_in_try, generators, calls_disabled),
    "errors": (raises, breaks_a_full_graph, wrong_sizes, raises_in_a_hook),
    "context managers": (without_gradients, autocast, own_manager, saved_tensors_packed, inference),
}
