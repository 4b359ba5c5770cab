"""Which line changes what recompiles are about: one line only where the compiled code is known to run it."""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor, nn

from compiler_lens import Lens
from compiler_lens.facts.overview.shared import reports_of
from compiler_lens.facts.program.select import Selection
from compiler_lens.facts.recompiles.causes import RecompileCause
from compiler_lens.facts.recompiles.fixes import CauseClass
from compiler_lens.render.console import page_for, view


class Pool(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rounds = 1

    def forward(self, x: Tensor) -> Tensor:
        if self.training and x.shape[0] > 100:
            self.rounds += 1
        for _ in range(self.rounds):
            x = x * 0.9
        return x


class Chosen(nn.Module):
    def __init__(self, way: str) -> None:
        super().__init__()
        self.way, self.top = way, 1

    def forward(self, x: Tensor) -> Tensor:
        if self.way == "slice":
            self.top += 1
            x = x[:, : self.top]
        elif self.way == "range":
            for _ in range(self.top):
                x = x * 0.9
            self.top += 2
        return x


def set_outside(net: nn.Module, x: Tensor) -> None:
    compiled = torch.compile(net, backend="eager")
    for count in range(1, 4):
        compiled(x)
        net.rounds = count + 1


def called(net: nn.Module, x: Tensor) -> None:
    compiled = torch.compile(net, backend="eager")
    for _ in range(3):
        compiled(x)


def cause_of(run: Callable[[nn.Module, Tensor], None], net: nn.Module) -> tuple[RecompileCause, str]:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        run(net, torch.ones(2, 4))
    ((cause,),) = (report.causes for report in reports_of(lens.recording, Selection()))
    text = view(lens.recording, "recompiles", page_for(lens.recording, width=160, color=False))
    return cause, text


def line_of(function: Callable[..., object], words: str) -> int:
    lines, first = inspect.getsourcelines(function)
    return first + next(number for number, line in enumerate(lines) if words in line)


def test_a_line_in_a_branch_that_may_not_run_is_not_the_one_that_changes_it() -> None:
    cause, text = cause_of(set_outside, Pool())
    traced, outside = line_of(Pool.forward, "self.rounds += 1"), line_of(set_outside, "net.rounds =")
    assert [at.line for at in cause.may_change] == [traced, outside]
    assert cause.line is not None
    assert cause.line.code == "for _ in range(self.rounds):"
    assert f"may be changed at test_what_changes.py:{traced} or test_what_changes.py:{outside}" in text


def test_of_two_branches_the_one_that_ran_changes_it() -> None:
    cause, text = cause_of(called, Chosen("range"))
    assert cause.line is not None
    assert (cause.line.code, cause.may_change) == ("self.top += 2", ())
    assert "may be changed" not in text


class Kind(enum.Enum):
    FIRST = 1
    SECOND = 2


class Pooling(enum.IntFlag):
    MEAN = 1
    MAX = 2


def chosen_by(x: Tensor, kind: object, several: list[int]) -> Tensor:
    x = x + 1 if kind is Kind.FIRST else x
    return x * len(several)


def causes_of(kinds: Sequence[object], lengths: Sequence[int] = (1,)) -> dict[str, RecompileCause]:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(chosen_by, backend="eager")
        for length in lengths:
            for kind in kinds:
                compiled(torch.ones(3), kind, [0] * length)
    (report,) = reports_of(lens.recording, Selection())
    return {cause.subject: cause for cause in report.causes}


@pytest.mark.parametrize("kinds", [tuple(Kind), tuple(Pooling)])
def test_members_of_an_enum_are_made_once_already(kinds: Sequence[object]) -> None:
    cause = causes_of(kinds)["kind"]
    assert "A member of an enum" in cause.fix.why
    assert "Make kind once" not in cause.fix.change
    assert "one function for each member" in cause.fix.change
    if isinstance(kinds[0], Kind):  # a flag is an int, of which torch says the value
        assert [(change.old, change.new) for change in cause.changes] == [("Kind.FIRST", "Kind.SECOND")]


class Parts(enum.Flag):
    HEAD = 1
    BODY = 2
    TAIL = 4


def parts_of(x: Tensor, parts: Parts) -> Tensor:
    return x + 1 if parts & Parts.HEAD else x


def test_several_flags_in_one_are_told_by_their_names() -> None:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(parts_of, backend="eager")
        for parts in (Parts.HEAD | Parts.TAIL, Parts.BODY | Parts.TAIL, Parts(0)):
            compiled(torch.ones(3), parts)
    (report,) = reports_of(lens.recording, Selection())
    (cause,) = report.causes
    assert "one function for each member" in cause.fix.change
    assert [(change.old, change.new) for change in cause.changes] == [
        ("Parts.HEAD|Parts.TAIL", "Parts.BODY|Parts.TAIL"),
        ("Parts.BODY|Parts.TAIL", "Parts(0)"),
    ]


def test_other_objects_are_to_be_made_once() -> None:
    assert "Make kind once, before compiling, and keep it" in causes_of((torch.sin, torch.cos))["kind"].fix.change


def test_an_entry_for_the_same_object_came_closer_than_those_for_others() -> None:
    causes = causes_of(tuple(Kind), (1, 2))
    assert [change.old for change in causes["len(several)"].changes] == ["1"]  # FIRST again, with a longer list


class Counted(nn.Module):
    """Counts in a module of its own, and computes with that."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Chosen("none")

    def forward(self, x: Tensor) -> Tensor:
        self.inner.top += 1
        return x[:, : self.inner.top]


def called_twice(net: nn.Module, x: Tensor) -> None:
    compiled = torch.compile(net, backend="eager")
    for _ in range(2):
        compiled(x)


def test_a_counter_of_a_module_within_is_not_as_expected_at_its_first_recompile() -> None:
    cause, text = cause_of(called_twice, Counted())
    assert (cause.subject, cause.benign) == ("self.inner.top", False)
    assert "every call brings another one, and each is compiled apart" in text
    assert "allow_unspec_int_on_nn_module" in text


class Positions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = torch.ones(2, 4)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.table.sum(0)


def longer_table(net: nn.Module, x: Tensor) -> None:
    compiled = torch.compile(net, backend="eager")
    compiled(x)
    net.table = torch.ones(8, 4)
    compiled(x)


class Boxes(nn.Module):
    """Calls a function with as many rows as were found, after a graph break."""

    def forward(self, x: Tensor, found: int) -> Tensor:
        torch._dynamo.graph_break()
        return suppressed(x[:found] * 1)


def suppressed(boxes: Tensor) -> Tensor:
    torch._dynamo.graph_break()
    return boxes * 2


def test_a_batch_is_what_the_outermost_compiled_call_is_given() -> None:
    cause, _ = cause_of(longer_table, Positions())
    assert (cause.subject, cause.cause) == ("self.table.shape[0]", CauseClass.SIZE)
    assert "last batch of an epoch" not in cause.fix.change

    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(Boxes(), backend="eager")
        for found in (3, 5):
            compiled(torch.ones(9, 4), found)
    kinds = {cause.cause for report in reports_of(lens.recording, Selection()) for cause in report.causes}
    assert CauseClass.SIZE in kinds
    assert CauseClass.BATCH_SIZE not in kinds
