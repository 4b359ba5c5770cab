"""Sizes that vary, told to torch before it compiles: no recompile is left, and results are the same."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from textwrap import dedent
from types import ModuleType

import pytest
import torch

from compiler_lens import Lens, explain
from compiler_lens.facts.measured.edits import edited
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Recording

FILE = "/home/user/app/user_sizes.py"


@pytest.fixture(autouse=True)
def _lines_of_the_test() -> Iterator[None]:
    yield
    linecache.cache.pop(FILE, None)
    sys.modules.pop("user_sizes", None)


def ran(text: str) -> tuple[list[torch.Tensor], Recording]:
    torch.compiler.reset()
    linecache.cache[FILE] = (len(text), None, text.splitlines(keepends=True), FILE)
    module = ModuleType("user_sizes")
    sys.modules["user_sizes"] = module
    torch.manual_seed(0)
    with Lens(strict=True) as lens:
        exec(compile(text, FILE, "exec"), module.__dict__)
        results = module.main()
    return results, lens.recording


def changed(text: str, recording: Recording) -> dict[str, str]:
    """The text with each offer for a recompile made, by the line that is written."""
    found: dict[str, str] = {}
    for offer in observed(recording, Ownership()).offers:
        new = edited(offer.edit, {FILE: text}, FILE)
        assert new is not None
        found[offer.code.split("\n")[0]] = new[FILE]
    return found


MODULE = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def forward(self, x, scale):
            return self.layer(x).relu().sum(0) * scale

    net = torch.compile(Net(), backend="eager", dynamic=False)

    def step(x):
        return net(x, 2.0) + 1

    def main():
        return [step(torch.randn(n, 4)) for n in (5, 6, 7, 3)]
"""
DECORATED = """
    import torch as th

    {mark}
    def score(scale, x):
        return (x * scale).sum(1)

    def main():
        results = []
        for n in (5, 6, 7, 3):
            x = th.randn(2, n)
            results.append(score(2.0, x))
        return results
"""
PROGRAMS = {
    "a module": (
        MODULE,
        {"torch._dynamo.maybe_mark_dynamic(x, 0)", 'net = torch.compile(Net(), backend="eager", dynamic=True)'},
    ),
    "a decorator with arguments": (
        DECORATED.format(mark="@th.compile(backend='eager', dynamic=False)"),
        {"@th.compile(backend='eager', dynamic=True)"},  # torch does not say who called it
    ),
}


@pytest.mark.parametrize(("source", "lines"), PROGRAMS.values(), ids=PROGRAMS)
def test_no_recompile_is_left_and_results_are_the_same(source: str, lines: set[str]) -> None:
    text = dedent(source).lstrip()
    results, recording = ran(text)
    assert len(recording.recompiles) == 3
    found = changed(text, recording)
    assert set(found) == lines
    for new in found.values():
        again, left = ran(new)
        assert not left.recompiles
        torch.testing.assert_close(again, results)


def test_that_an_argument_of_the_programs_is_replaced_is_said() -> None:
    text = dedent(MODULE).lstrip()
    _, recording = ran(text)
    offers = {offer.code.split("\n")[0]: offer.price for offer in observed(recording, Ownership()).offers}
    mark, argument = (offers[line] for line in sorted(offers, key=lambda line: "dynamic=True" in line))
    assert mark.startswith("beside your `dynamic=False`, only size 0 of `x` is dynamic")
    assert argument.startswith("your `dynamic=False` is replaced: kernels for any size")
    (report,) = explain(recording).recompiles
    (cause,) = report.causes
    assert "torch.compile was given `dynamic=False`" in cause.fix.why
    assert "Leave `dynamic=False` out" in cause.fix.change


@pytest.mark.parametrize(
    ("mark", "written"),
    [
        ("@th.compile", "@th.compile(dynamic=True)"),
        ("@th.compile()", "@th.compile(dynamic=True)"),
        ("@th.compile(backend='eager', dynamic=None)", "@th.compile(backend='eager', dynamic=True)"),
    ],
)
def test_a_decorator_of_any_kind_gets_the_argument(mark: str, written: str) -> None:
    """Torch learns of a size by itself, but where it is told not to."""
    text = dedent(DECORATED.format(mark=mark)).lstrip()
    with torch._dynamo.config.patch(automatic_dynamic_shapes=False), torch.compiler.set_stance(force_backend="eager"):
        _, recording = ran(text)
        found = changed(text, recording)
        assert written in found
        assert not ran(found[written])[1].recompiles


INT = """
    import torch

    def score(x, most):
        return x[:most].sum() * most

    net = torch.compile(score, backend="eager", dynamic=False)

    def main():
        return [net(torch.arange(9.0), most) for most in (5, 6, 7, 3)]
"""


def test_an_int_that_a_call_gives_may_be_open_from_the_first_call_on() -> None:
    text = dedent(INT).lstrip()
    results, recording = ran(text)
    assert len(recording.recompiles) == 3
    (new,) = changed(text, recording).values()
    assert 'torch.compile(score, backend="eager", dynamic=True)' in new
    again, left = ran(new)
    assert not left.recompiles
    torch.testing.assert_close(again, results)


NOT_OFFERED = {
    "it is dynamic as it is": MODULE.replace("dynamic=False", "dynamic=True"),
    "one recompile is how torch learns": MODULE.replace(", dynamic=False", ""),
    "neither the call nor torch.compile is on one line": MODULE.replace(
        'torch.compile(Net(), backend="eager", dynamic=False)',
        'torch.compile(\n        Net(), backend="eager", dynamic=False\n    )',
    ).replace("net(x, 2.0)", "net(x * 1, 2.0)"),
    "the setting is the program's": MODULE.replace("dynamic=False", "dynamic=DYNAMIC")
    .replace("    net =", "    DYNAMIC = False\n    net =")
    .replace("net(x, 2.0)", "net(*(x, 2.0))"),
    "it may be given in a dict": MODULE.replace("    net =", "    OPTIONS = {'dynamic': False}\n    net =")
    .replace("dynamic=False)", "**OPTIONS)")
    .replace("net(x, 2.0)", "net(*(x, 2.0))"),
    "another thing changes": MODULE.replace("net(x, 2.0)", "net(x[:3], 'a' * len(x) == 'a' * 6)"),
}


@pytest.mark.parametrize("source", NOT_OFFERED.values(), ids=NOT_OFFERED)
def test_nothing_is_offered_where_a_condition_fails(source: str) -> None:
    text = dedent(source).lstrip()
    _, recording = ran(text)
    assert not changed(text, recording)
    assert explain(recording).coverage.functions


WITHIN = """
    import torch

    def scaled(rows, x):
        y = x * len(rows)
        torch._dynamo.graph_break()
        return y.sum(0)

    @torch.compile(backend="eager", dynamic=False)
    def step(x, rows):
        y = x * 2
        return scaled(rows, y)

    def each(x, rows):
        result = step(x, rows)
        return result + 1

    def main():
        return [each(torch.ones(n, 4), [1, 2]) for n in (5, 6, 7, 3)]
"""


def test_a_call_of_another_function_gets_no_mark_of_what_that_one_calls() -> None:
    """A function that a compiled one calls is compiled by itself where it breaks; torch names the call of the first."""
    text = dedent(WITHIN)
    _, recording = ran(text)
    subjects = {cause.subject for report in explain(recording).recompiles for cause in report.causes}
    assert "x.shape[0]" in subjects
    assert not any("maybe_mark_dynamic(rows" in new for new in changed(text, recording).values())


ARRAY = """
    import numpy as np
    import torch

    class Scaled(torch.nn.Module):
        def forward(self, x, a_t):
            return x * a_t.sum()

    scaled = torch.compile(Scaled(), backend="eager", dynamic=False)

    def step(a_t):
        return scaled(torch.ones(3), a_t) + 1

    def main():
        return [step(np.full(n, 2.0)) for n in (5, 6, 7, 3)]
"""


def test_an_array_of_numpys_gets_no_mark_of_a_tensors() -> None:
    """`maybe_mark_dynamic` raises AttributeError for it (torch 2.13)."""
    text = dedent(ARRAY)
    results, recording = ran(text)
    (report,) = explain(recording).recompiles
    assert {cause.subject for cause in report.causes} == {"a_t.shape[0]"}
    (new,) = changed(text, recording).values()
    assert "maybe_mark_dynamic" not in new
    again, after = ran(new)
    assert not after.recompiles
    torch.testing.assert_close(again, results)


DIVIDED = """
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        @torch._dynamo.decorators.skip
        def forward(self, x):
            n = self.forward_computed(x)
            return n + 1

        def forward_computed(self, given):
            return self.layer(given).relu().sum(0)

    def loss(y):
        return y.sum()

    net = torch.compile(Net(), backend="eager")
    compiled = torch.compile(loss, backend="eager")

    def main():
        return [compiled(net(torch.randn(n, 4))) for n in (5, 6, 7, 3)]
"""


def test_a_part_of_what_torch_compile_was_given_is_compiled_for_any_size_where_that_was() -> None:
    text = dedent(DIVIDED).lstrip()
    results, recording = ran(text)
    assert len(recording.recompiles) == 1
    ways = observed(recording, Ownership()).told_ahead
    lines = [[one.code.split("\n")[0] for one in way] for way in ways]
    whole = 'net = torch.compile(Net(), backend="eager", dynamic=True)'
    assert lines == [["torch._dynamo.maybe_mark_dynamic(x, 0)"], [whole]]
    for (offer,) in ways:
        new = edited(offer.edit, {FILE: text}, FILE)
        assert new is not None
        again, left = ran(new[FILE])
        assert not left.recompiles
        torch.testing.assert_close(again, results)


def test_where_one_part_cannot_be_told_at_its_call_all_are_told_at_once() -> None:
    text = dedent(DIVIDED).lstrip().replace("return n + 1", "return self.forward_computed_2(n, len(x)) + 1")
    text = text.replace(
        "def loss(y)", "    def forward_computed_2(self, y, many):\n        return y / many\n\ndef loss(y)", 1
    )
    _, recording = ran(text)
    first, *others = observed(recording, Ownership()).told_ahead
    assert [one.code.split("\n")[0] for one in first] == ['net = torch.compile(Net(), backend="eager", dynamic=True)']
    assert len(others) == 1


def test_sizes_that_never_change_stay_as_they_are_where_an_int_became_open() -> None:
    """Kernels for any size are often slower, and one recompile is how torch learns that an int varies."""
    text = dedent(INT).lstrip().replace(", dynamic=False", "")
    _, recording = ran(text)
    assert len(recording.recompiles) == 1
    assert not observed(recording, Ownership()).told_ahead
