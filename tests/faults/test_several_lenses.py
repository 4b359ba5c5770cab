"""Several lenses, several models, compilations within compilations: each lens records its own and nothing else."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch._inductor.config
from torch import Tensor

from compiler_lens import Lens, UsageError
from compiler_lens.recording.event import Event

X = torch.ones(4)
Events = Callable[[Lens], tuple[Event, ...]]
Functions = Callable[[Lens], list[str]]


def first(x: Tensor) -> Tensor:
    return x.sin() + 1


def second(x: Tensor) -> Tensor:
    return x.cos() * 2


def third(x: Tensor) -> Tensor:
    return (x * x).tanh()


def run(function: Callable[[Tensor], Tensor], backend: Any = "eager") -> None:
    assert torch.allclose(torch.compile(function, backend=backend)(X), function(X), atol=1e-6)


def stages(lens: Lens) -> set[tuple[str, str]]:
    return {(str(graph.compile_id), graph.stage.value) for graph in lens.recording.graphs}


def test_a_with_in_a_with(functions: Functions) -> None:
    with Lens(strict=True) as outer:
        run(first)
        with Lens(strict=True) as inner:
            run(second)
        run(third)

    assert functions(outer) == ["first", "second", "third"]
    assert functions(inner) == ["second"]


def test_the_outer_one_closed_before_the_inner_one(functions: Functions) -> None:
    outer, inner = Lens(strict=True), Lens(strict=True)
    outer.__enter__()
    inner.__enter__()
    run(first)
    outer.__exit__(None, None, None)
    run(second)
    inner.__exit__(None, None, None)

    assert functions(outer) == ["first"]
    assert functions(inner) == ["first", "second"]


def test_one_lens_entered_twice_records_until_it_is_left_twice(functions: Functions) -> None:
    lens = Lens(strict=True)
    with lens:
        with lens:
            run(first)
        run(second)
    run(third)

    assert functions(lens) == ["first", "second"]


def test_a_closed_lens_is_not_opened_again() -> None:
    lens = Lens(strict=True)
    lens.close()

    with pytest.raises(UsageError, match="closed"), lens:
        pass


def test_a_lens_as_backend_in_the_with_of_another(functions: Functions) -> None:
    backend = Lens(strict=True)
    with Lens(strict=True) as everything:
        run(first, backend)
        run(second)
    backend.close()

    assert functions(backend) == ["first"]
    assert functions(everything) == ["first", "second"]
    assert stages(backend) == {("0/0", "dynamo"), ("0/0", "inference"), ("0/0", "post_grad")}
    assert len(everything.recording.kernels) == len(backend.recording.kernels) == 1


def test_two_lenses_on_two_models(functions: Functions, events: Events) -> None:
    one, other = Lens(strict=True), Lens(strict=True)
    run(first, one)
    run(second, other)
    run(third)  # nobody's
    one.close()
    other.close()

    assert functions(one) == ["first"]
    assert functions(other) == ["second"]
    assert {e.run for e in events(one)}.isdisjoint({e.run for e in events(other)} - {None})
    assert {e.torch_id for e in events(other) if e.torch_id[0] is not None} == {(1, 0, None)}


def test_one_model_with_two_lenses(functions: Functions) -> None:
    one, other = Lens(strict=True), Lens(strict=True)
    run(first, one)
    run(first, other)
    one.close()
    other.close()

    assert functions(one) == functions(other) == ["first"]
    assert [str(c.compile_id) for c in one.recording.compilations] == ["0/0"]
    assert [str(c.compile_id) for c in other.recording.compilations] == ["0/1"]


def test_a_lens_that_is_a_backend_records_no_backward_of_others(events: Events) -> None:
    x = X.clone().requires_grad_()
    before = torch.compile(third, backend="aot_eager")(x).sum()
    with Lens(strict=True) as lens:  # records all, from now on
        bystander = Lens(strict=True)
        before.backward()
        torch.compile(second, backend="aot_eager")(x).sum().backward()
    bystander.close()

    assert {e.torch_id[0] for e in events(lens)} == {None, 0, 1}
    assert {e.torch_id[0] for e in events(bystander)} == {None}
    assert {e.name for e in events(bystander)} <= {"lens.files", "str"}


def nesting_backend(inner: Callable[[], Any]) -> Callable[..., Any]:
    def backend(gm: Any, _inputs: Any) -> Any:
        inner()
        return gm.forward

    return backend


def test_a_compilation_within_a_compilation(functions: Functions, events: Events) -> None:
    owner = Lens(strict=True)
    with Lens(strict=True) as lens:
        run(first, nesting_backend(lambda: run(second, owner)))
    owner.close()

    assert set(functions(lens)) == {"first", "second"}
    assert functions(owner) == ["second"]
    assert {e.torch_id for e in events(owner) if e.torch_id[0] is not None} == {(1, 0, None)}
    ends = [e.torch_id for e in events(lens) if e.name == "lens.frame_end"]
    assert ends == [(1, 0, None), (0, 0, None)]


def test_a_compilation_that_fails_within_a_compilation(functions: Functions) -> None:
    def failing(_gm: Any, _inputs: Any) -> Any:
        raise ValueError("the inner backend's")

    def inner() -> None:
        with pytest.raises(torch._dynamo.exc.BackendCompilerFailed):
            run(second, failing)

    with Lens(strict=True) as lens:
        run(first, nesting_backend(inner))

    outcomes = {c.function: c.outcome.value for c in lens.recording.compilations}
    assert outcomes == {"first": "compiled", "second": "failed"}
    assert functions(lens) == ["first"]


@pytest.mark.skipif(torch.__version__ < "2.12", reason="torch 2.11 fails by itself: No toplevel event active")
def test_inductor_within_inductor_keeps_each_graphs_kernels_apart() -> None:
    one, other = Lens(strict=True), Lens(strict=True)
    inner = torch.compile(second, backend=other)
    done: list[Tensor] = []

    def custom_pass(_graph: Any) -> None:
        if not done:
            done.append(torch.zeros(0))
            with torch.no_grad():
                done.append(inner(torch.ones(4)))

    options = {"post_grad_custom_post_pass": custom_pass, "fx_graph_cache": False}
    with torch._functorch.config.patch(enable_autograd_cache=False):
        result = torch.compile(first, backend=one, options=options)(X)
    one.close()
    other.close()

    assert torch.allclose(result, first(X), atol=1e-6)
    assert torch.allclose(done[1], second(X), atol=1e-6)
    for lens, ops in ((one, {"sin", "add"}), (other, {"cos", "mul"})):
        (kernel,) = lens.recording.kernels
        assert set(kernel.nodes) == ops
        assert stages(lens) == {(str(kernel.compile_id), s) for s in ("dynamo", "inference", "post_grad")}


def test_a_compiled_function_that_calls_one_of_another_lens(functions: Functions) -> None:
    one, other = Lens(strict=True), Lens(strict=True)
    inner = torch.compile(second, backend=other)

    @torch._dynamo.disable
    def between(x: Tensor) -> Tensor:
        return inner(x)

    def outer(x: Tensor) -> Tensor:
        return between(x.sin()) + 1

    result = torch.compile(outer, backend=one)(X)
    one.close()
    other.close()

    assert torch.allclose(result, second(X.sin()) + 1, atol=1e-6)
    assert functions(other) == ["second"]
    assert functions(one)[0] == "outer"
    assert "second" not in functions(one)
