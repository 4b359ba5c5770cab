"""What each call has compiled again: beyond torch's limit all of it runs eagerly, so it is no gain."""

from __future__ import annotations

import linecache
from collections.abc import Sequence
from types import ModuleType
from typing import Any

import pytest
import torch
from msgspec.structs import replace

from compiler_lens import Lens
from compiler_lens.facts.measured.each_call import AtEachCall, Calls, at_each_call
from compiler_lens.facts.measured.edits import Lines
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target, Trial
from compiler_lens.facts.measured.left import Came, not_built_upon
from compiler_lens.facts.measured.what_if import Counts
from compiler_lens.facts.recompiles.reports import recompile_reports
from compiler_lens.measure.fix.search import Search
from compiler_lens.measure.fix.watching import Watch
from compiler_lens.recording.model import Figures, Results, SourceLine
from compiler_lens.render.console import fix_report

TEXT = """
import functools
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.kept = []

    def forward(self, x):
        return x.sin() * len(self.kept)

class Computed(Net):
    @torch._dynamo.decorators.skip
    def forward(self, x):
        return self.forward_computed(x)

    def forward_computed(self, x):
        return x.sin() * len(self.kept)

class Begun(Net):
    def forward(self, x):
        torch._dynamo.graph_break()
        return x.sin() * len(self.kept)

class Between(Net):
    def forward(self, x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y * len(self.kept)

class Asked(Net):
    def forward(self, x):
        n = len(self.kept)
        torch._dynamo.graph_break()
        return x.sin() * (n > 9)

class Sized(Net):
    def forward(self, x):
        return x.sin()

class Marked(Net):
    @torch.no_grad()
    def forward(self, x):
        return x.sin() * len(self.kept)
"""
FILE = "/home/user/app/each_call.py"


@pytest.fixture
def user(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.setitem(linecache.cache, FILE, (len(TEXT), None, TEXT.splitlines(keepends=True), FILE))
    module = ModuleType("each_call")
    exec(compile(TEXT, FILE, "exec"), module.__dict__)
    return module


def found(net: Any, inputs: Sequence[torch.Tensor]) -> tuple[AtEachCall, ...]:
    """Call a compiled module, whose list has one more for each call, and return what is compiled at each call."""
    torch._dynamo.reset()
    watch = Watch(0, lambda: None)
    with watch.watching(), Lens(strict=True) as lens:
        compiled = torch.compile(net, backend="eager")
        for one in inputs:
            net.kept.append(1)
            compiled(one)
    return at_each_call(lens.recording, watch.calls_of, recompile_reports(lens.recording))


def three(size: int = 3) -> list[torch.Tensor]:
    return [torch.ones(size)] * 3


@pytest.mark.parametrize("name", ["Net", "Begun", "Asked", "Marked"])
def test_a_function_that_each_call_compiles_again_for_another_value(user: ModuleType, name: str) -> None:
    """Also where nothing stands before its graph break that would stay compiled."""
    assert found(getattr(user, name)(), three()) == (AtEachCall(f"{name}.forward", 3, 8),)


def test_the_part_of_a_function_that_is_compiled_is_the_function(user: ModuleType) -> None:
    assert found(user.Computed(), three()) == (AtEachCall("Computed.forward", 3, 8),)


def test_the_limit_is_the_one_that_is_set(user: ModuleType) -> None:
    with torch._dynamo.config.patch(recompile_limit=5):
        assert found(user.Net(), three()) == (AtEachCall("Net.forward", 3, 5),)


def test_what_stands_before_a_graph_break_stays_compiled(user: ModuleType) -> None:
    assert found(user.Between(), three()) == ()


def test_two_calls_say_nothing_and_what_torch_learns_of_is_compiled_twice(user: ModuleType) -> None:
    assert found(user.Net(), three()[:2]) == ()
    assert found(user.Sized(), [torch.ones(3), torch.ones(4), torch.ones(5)]) == ()


def test_of_kinds_there_are_a_few_and_each_is_compiled_once(user: ModuleType) -> None:
    kinds = [torch.ones(3), torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.float16)]
    assert found(user.Sized(), kinds) == ()


def test_what_hit_the_limit_is_counted_elsewhere(user: ModuleType) -> None:
    assert found(user.Net(), [torch.ones(3)] * 10) == ()


def test_a_call_that_runs_what_is_compiled_is_none(user: ModuleType) -> None:
    """Where some calls fit, more of them may."""
    net = user.Net()
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        compiled = torch.compile(net, backend="eager")
        for _ in range(3):
            net.kept.append(1)
            compiled(torch.ones(3))
    (first,) = {one.definition for one in lens.recording.compilations}
    reports = recompile_reports(lens.recording)
    assert first is not None
    assert at_each_call(lens.recording, [Calls(first, 3)], reports)
    assert not at_each_call(lens.recording, [Calls(first, 4)], reports)
    assert not at_each_call(lens.recording, [Calls(replace(first, function="Other.forward"), 3)], reports)


# -- what comes of it

AGAIN = AtEachCall("Net.forward", 4, 8)
PROGRAM = "import torch\na = 1\nb = 1\n"


def offer(name: str) -> Offer:
    at = SourceLine("train.py", 2 + "ab".index(name), "forward", f"{name} = 1")
    return Offer(Target(at, "break"), Lines("train.py", at.line, (at.code,), (f"{name} = 2",)))


def seen(breaks: int, *offers: Offer, again: bool = False) -> Observed:
    targets = tuple(one.target for one in offers)
    return Observed(
        Figures(breaks, 0, 0), Counts(1, breaks, 0, 1, 0, 0.0), offers, (), targets, results=Results.EQUAL,
        at_each_call=(AGAIN,) if again else (),
    )  # fmt: skip


def searched(first: Observed, outcomes: dict[str, Observed]) -> Fix:
    def attempt(texts: Any, _offers: tuple[Offer, ...]) -> Observed:
        return outcomes["".join(line[-1] for line in texts["train.py"].splitlines()[1:])]

    return Search(first, {"train.py": PROGRAM}, "train.py", attempt).result()


def test_what_each_call_compiles_again_is_no_gain_where_that_was_not_so_before() -> None:
    a = offer("a")
    fix = searched(seen(2, a), {"21": seen(0, again=True)})
    assert fix.best is None
    assert [one.came for one in not_built_upon(fix)] == [Came.MORE_OF_ELSE]
    said = " ".join(fix_report(fix, width=100).split())
    again = "compiles again at each call: from call 9 on all of it runs eagerly (torch's limit is 8)"
    assert f"change 1: fewer graph breaks (2 → 0), but Net.forward {again}." in said


def test_what_does_not_compile_again_is_preferred() -> None:
    a, b = offer("a"), offer("b")
    fix = searched(seen(3, a, b), {"21": seen(0, again=True), "12": seen(1), "22": seen(0, again=True)})
    assert fix.best is not None
    assert fix.best.offers == (b,)


def test_where_it_was_so_before_it_is_said_of_the_best() -> None:
    fix = searched(seen(2, offer("a"), again=True), {"21": seen(0, again=True)})
    assert fix.best is not None
    said = " ".join(fix_report(fix, width=100).split())
    assert said.count("Net.forward compiles again at each call: from call 9 on all of it runs eagerly") == 1


def test_what_ends_it_is_a_gain() -> None:
    a = offer("a")
    fix = searched(seen(1, a, again=True), {"21": seen(1, a)})
    assert fix.best is not None
    trial: Trial = fix.best
    assert trial.observed.cost < fix.first.cost
