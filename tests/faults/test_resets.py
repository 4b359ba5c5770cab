"""Resets begin torch's compile ids again at 0/0: what belongs to a life before stays with it. And very many frames."""

import gc
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from compiler_lens import Lens
from compiler_lens.recording.event import Event

X = torch.ones(4)
Events = Callable[[Lens], tuple[Event, ...]]
Made = Callable[[int], list[Callable[[Tensor], Tensor]]]
RESETS = [torch._dynamo.reset, torch.compiler.reset]


def loss(x: Tensor) -> Tensor:
    return (x * x).sin().sum()


def other_loss(x: Tensor) -> Tensor:
    return (x * 3).cos().sum()


@pytest.mark.parametrize("reset", RESETS, ids=["dynamo", "compiler"])
def test_a_compilation_after_a_reset_is_another_life(reset: Callable[[], None]) -> None:
    with Lens(strict=True) as lens:
        for _ in range(3):
            torch.compile(loss, backend="eager")(X)
            reset()

    assert [str(c.compile_id) for c in lens.recording.compilations] == ["0/0", "0/0@1", "0/0@2"]
    assert [str(g.compile_id) for g in lens.recording.graphs] == ["0/0", "0/0@1", "0/0@2"]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_late_backward_belongs_to_the_life_of_its_forward(backend: str, events: Events) -> None:
    x = X.clone().requires_grad_()
    with Lens(strict=True) as lens:
        early = torch.compile(loss, backend=backend)(x)
        torch._dynamo.reset()
        late = torch.compile(other_loss, backend=backend)(x)
        before = len(events(lens))
        early.backward()
        of_the_backward = events(lens)[before:]
        late.backward()
    recording = lens.recording
    lives = {c.function: c.compile_id for c in recording.compilations}

    assert {function: str(life) for function, life in lives.items()} == {"loss": "0/0", "other_loss": "0/0@1"}
    assert {e.run for e in of_the_backward} - {None} == {
        next(e.run for e in events(lens) if e.name == "lens.frame_start")
    }
    assert all(c.backward_seconds is not None for c in recording.compilations)
    if backend == "inductor":
        for function, op in (("loss", "sin"), ("other_loss", "cos")):
            codes = [code for code in recording.output_codes if code.compile_id == lives[function]]
            assert [code.direction.value for code in codes] == ["forward", "backward"]
            assert op in {
                ops for kernel in recording.kernels if kernel.compile_id == lives[function] for ops in kernel.nodes
            }


def test_a_reset_while_a_lens_is_a_backend_keeps_what_it_recorded() -> None:
    lens = Lens(strict=True)
    lens._delegates.wrapper = lambda *_args: torch._dynamo.lookup_backend("aot_eager")  # type: ignore[method-assign]
    model = torch.compile(loss, backend=lens)
    model(X)
    torch.compiler.reset()
    model(X)
    lens.close()

    assert [str(c.compile_id) for c in lens.recording.compilations] == ["0/0", "0/0@1"]


def test_very_many_compilations_are_all_there_and_keep_nothing_alive(made: Made) -> None:
    count = 120
    functions = made(count)
    with Lens(strict=True) as lens:
        for number, function in enumerate(functions):
            if number % 8 == 0:
                torch._dynamo.reset()
            torch.compile(function, backend="eager")(X)
        size = len(lens._session.journal.contents())
        torch._dynamo.reset()
        gc.collect()  # torch's contexts and code point to each other: when they go by themselves depends on what ran before
        kept = len(lens._tap.attribution.by_context)
        ids = len(lens._tap.attribution._latest)
    recording = lens.recording

    assert [c.function for c in recording.compilations] == [f"function_{number}" for number in range(count)]
    assert len({c.compile_id for c in recording.compilations}) == count
    assert recording.problems == ()
    assert size < count * 40_000
    assert kept <= 8  # torch forgets a context with its code; we forget with it
    assert ids <= 8


def test_a_lens_that_was_closed_is_not_kept_by_one_that_is_open() -> None:
    with Lens(strict=True) as staying:
        with Lens(strict=True) as leaving:
            compiled = torch.compile(loss, backend="eager")
            compiled(X)
        records = [record for _, record in staying._tap.attribution._latest.values()]

        assert records
        assert not any(leaving._session in record.sessions for record in records)
