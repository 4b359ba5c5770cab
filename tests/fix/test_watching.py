"""What is kept of a program while it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch._guards import CompileContext, CompileId, compile_context

from compiler_lens.facts.measured.fix import Difference
from compiler_lens.measure.fix.results import compared
from compiler_lens.measure.fix.watching import Watch
from compiler_lens.recording.model import Results


class EnoughError(Exception):
    """Where the process would end."""


def watched(program: Callable[[], object], steps: int = 0) -> Watch:
    def enough() -> None:
        raise EnoughError

    torch.manual_seed(0)
    watch = Watch(steps, enough)
    with watch.watching():
        program()
    watch.keep_state()
    return watch


def kinds(watch: Watch) -> list[tuple[str, int]]:
    return [(one.kind, one.call) for one in watch.keeper.kept if not one.name]


def test_outermost_calls_count_and_what_they_return_and_change_is_kept() -> None:
    def program() -> None:
        inner = torch.compile(lambda x: x + 1, backend="eager")
        model = torch.compile(nn.Linear(2, 2), backend="eager")

        @torch.compile(backend="eager")
        def step(x: torch.Tensor, memory: torch.Tensor) -> dict[str, object]:
            torch._dynamo.graph_break()
            memory.add_(1)
            return {"y": inner(x), "n": 3}

        step(torch.ones(2), torch.zeros(3))
        model(torch.ones(2))

    watch = watched(program)
    assert watch.calls == 2
    called = [("result", 0), ("result", 0), ("argument", 0), ("result", 1)]
    assert kinds(watch) == [*called, ("gradient", 2), ("gradient", 2), ("state", 2), ("state", 2)]
    values = [one.value for one in watch.keeper.kept[:3]]
    assert (values[0].tolist(), values[1], values[2].tolist()) == ([2, 2], 3, [1, 1, 1])


def trained(detaches: bool) -> Callable[[], None]:
    def program() -> None:
        first, last = nn.Linear(2, 2), nn.Linear(2, 1)

        @torch.compile(backend="eager")
        def loss_of(x: torch.Tensor) -> torch.Tensor:
            hidden = first(x).detach() if detaches else first(x)
            return last(hidden).sum()

        loss_of(torch.ones(2)).backward()

    return program


def test_a_change_that_stops_a_parameter_from_training_is_noticed() -> None:
    """The loss is the same: only the gradients tell."""
    one, same, other = (watched(trained(detaches)) for detaches in (False, False, True))
    assert compared(same.keeper.kept, one.keeper.kept) == (Results.EQUAL, None)
    assert compared(other.keeper.kept, one.keeper.kept) == (Results.DIFFER, Difference("gradient", 1, 0))


def checked(kind: type[Exception]) -> Callable[[], None]:
    def program() -> None:
        @torch.compile(backend="eager")
        def step(x: torch.Tensor, limit: int) -> torch.Tensor:
            if x.shape[0] > limit:
                raise kind("too many")
            return x + 1

        step(torch.ones(2), 3)
        with contextlib.suppress(Exception):
            step(torch.ones(2), 1)
        step(torch.ones(2), 3)

    return program


def test_another_error_that_the_program_catches_is_noticed() -> None:
    one, same, other = (watched(checked(kind)) for kind in (ValueError, ValueError, RuntimeError))
    assert one.calls == 3
    assert compared(same.keeper.kept, one.keeper.kept) == (Results.EQUAL, None)
    assert compared(other.keeper.kept, one.keeper.kept) == (Results.DIFFER, Difference("error", 1, 0))


def test_nothing_of_it_runs_where_dynamo_traces() -> None:
    """Assigning a buffer runs torch's registration hooks: compiled code sees none; what it puts there is kept."""
    seen = []

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))
            self.register_buffer("last", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count += 1
            self.last = x + self.count
            return x * 2

    def program() -> None:
        inner = torch.compile(lambda x: x + 1, backend="eager", fullgraph=True)
        model = torch.compile(Counts(), backend="eager", fullgraph=True)
        model(inner(torch.ones(2)))
        seen.append(len(nn.modules.module._global_buffer_registration_hooks))
        del model

    kept = watched(program).keeper.kept
    assert seen == [1]
    assert [one.value.tolist() for one in kept if one.kind == "state"][:2] == [1, [0, 0]]

    model: list[nn.Module] = []

    def alive() -> None:
        model.append(Counts())
        torch.compile(model[0], backend="eager", fullgraph=True)(torch.ones(2))

    kept = watched(alive).keeper.kept
    assert [one.value.tolist() for one in kept if one.kind == "state"] == [1, [0, 0], [2, 2]]


def test_a_gradient_of_an_argument_is_kept() -> None:
    def program() -> None:
        x = torch.ones(2, requires_grad=True)
        torch.compile(lambda x: x * 3, backend="eager")(x).sum().backward()

    gradients = [one.value for one in watched(program).keeper.kept if one.kind == "gradient"]
    assert gradients[0].tolist() == [3, 3]


def test_a_gradient_of_a_tensor_that_nobody_holds_is_kept() -> None:
    """Neither a parameter of a module nor an argument: the result leads back to it, in whichever order."""

    def program(swapped: bool) -> Callable[[], None]:
        one, other = (torch.full((2,), number, requires_grad=True) for number in (1.0, 2.0))

        def run() -> None:
            step = torch.compile(
                lambda x: (x * other + x / one if swapped else x / one + x * other).sum(), backend="eager"
            )
            step(torch.ones(2)).backward()

        return run

    first, second = watched(program(swapped=False)), watched(program(swapped=True))
    assert kinds(first)[:3] == [("result", 0), ("gradient", 1), ("gradient", 1)]
    assert [one.value.tolist() for one in first.keeper.kept[1:3]] == [[-1, -1], [1, 1]]
    assert compared(first.keeper.kept, second.keeper.kept)[0] is Results.EQUAL


def test_a_constant_of_a_backward_that_is_compiled_when_it_is_needed_is_not_the_programs() -> None:
    """AOTAutograd registers it in a module of its own, after the call, where it compiles a backward that it put off."""

    def program(registers: bool) -> Callable[[], None]:
        def run() -> None:
            torch.compile(lambda x: x * 2, backend="eager")(torch.ones(2))
            with compile_context(CompileContext(CompileId(frame_id=0, frame_compile_id=0))):
                module = torch.nn.Module()
                module.register_buffer("_tensor_constant0", torch.ones(2) if registers else None)

        return run

    with_constant, without = (watched(program(registers)).keeper.kept for registers in (True, False))
    assert compared(with_constant, without)[0] is Results.EQUAL


def test_it_ends_before_the_call_that_is_one_too_many() -> None:
    calls = []

    def program() -> None:
        step = torch.compile(lambda x: x + 1, backend="eager")
        for number in range(5):
            calls.append(number)
            step(torch.ones(2))

    with pytest.raises(EnoughError):
        watched(program, steps=2)
    assert calls == [0, 1, 2]


def test_torch_is_afterwards_as_it_was() -> None:
    before = torch._dynamo.eval_frame.OptimizeContext.__call__, torch.autograd.backward
    watched(lambda: None)
    assert (torch._dynamo.eval_frame.OptimizeContext.__call__, torch.autograd.backward) == before
    assert not nn.modules.module._global_parameter_registration_hooks
    assert not nn.modules.module._global_buffer_registration_hooks


def test_a_parameter_that_the_program_let_go_before_it_compiled_is_not_compared() -> None:
    """Such a one may never have had values: two runs would differ by what was in memory."""

    def program(value: float) -> Callable[[], None]:
        def run() -> None:
            model, draft = nn.Linear(2, 2), nn.Linear(3, 3)
            draft.weight = nn.Parameter(torch.full((3, 3), value))
            draft.itself = [draft]  # type: ignore[assignment]
            del draft
            torch.compile(model, backend="eager")(torch.ones(2))

        return run

    one, other = watched(program(1.0)), watched(program(2.0))
    assert compared(one.keeper.kept, other.keeper.kept) == (Results.EQUAL, None)
    assert [entry.value.shape for entry in one.keeper.kept if entry.kind == "state"] == [(2, 2), (2,)]


def test_a_parameter_that_is_in_no_module_any_more_and_trained_is_compared() -> None:
    def program() -> None:
        model = nn.Linear(2, 2)
        extra = nn.Parameter(torch.ones(2))
        model.extra = extra
        del model.extra
        model_and_extra = torch.compile(lambda x: model(x) * extra, backend="eager")
        model_and_extra(torch.ones(2)).sum().backward()

    watch = watched(program)
    assert len([one for one in watch.keeper.kept if one.kind == "state"]) == 3


class Counted(nn.Linear):
    def __init__(self) -> None:
        super().__init__(2, 2)
        self.calls = 0


@pytest.mark.parametrize("dropped", [0, 1, 5])
def test_a_module_has_the_same_number_whatever_was_let_go_before_the_first_call(dropped: int) -> None:
    held: list[nn.Module] = []

    def program() -> None:
        others = [Counted() for _ in range(dropped)]
        del others
        held.append(Counted())
        torch.compile(held[0], backend="eager")(torch.ones(2))
        held.append(Counted())

    names = [one.name for one in watched(program).keeper.kept if one.kind == "object" and one.name.endswith(".calls")]
    assert names == ["Counted 1.calls", "Counted 2.calls"]
