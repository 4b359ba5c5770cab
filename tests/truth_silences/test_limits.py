"""At a limit of recompiles: which limit that is, and what becomes of the next call."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

from compiler_lens import Lens, explain
from compiler_lens.facts.program.coverage import Treatment


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Scaled(nn.Module):
    def __init__(self, by: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.by = by

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) * self.by


def screen(lens: Lens) -> str:
    return " ".join(lens.report(color=False, width=200).split())


def many_modules(**settings: int) -> Lens:
    modules = [Scaled(by) for by in range(7)]  # all of them live: none is where another was
    with Lens(strict=True) as lens, torch._dynamo.config.patch(**settings):
        for module in modules:
            torch.compile(module, backend="eager")(torch.ones(2, 3))
    return lens


def test_the_limit_that_was_hit_is_the_one_to_raise() -> None:
    lens = many_modules(accumulated_recompile_limit=4)
    (report,) = explain(lens.recording).recompiles
    assert report.limit_name == "accumulated_recompile_limit"
    said = screen(lens)
    assert "It hit `torch._dynamo.config.accumulated_recompile_limit` at [0/4]" in said
    assert "or raise `torch._dynamo.config.accumulated_recompile_limit`." in said
    assert "config.recompile_limit" not in said
    torch._dynamo.reset()
    assert not explain(many_modules(accumulated_recompile_limit=64).recording).recompiles[0].limit  # as it says


def test_the_usual_limit_is_told_as_such() -> None:
    lens = many_modules(recompile_limit=4)
    said = screen(lens)
    assert "It hit the recompile limit at [0/4]" in said
    assert "or raise `torch._dynamo.config.recompile_limit`." in said


def named(x: Tensor, name: str) -> Tensor:
    return x * len(name)


def calls(compiled: Callable[[Tensor, str], Tensor]) -> None:
    for count in range(6):
        compiled(torch.ones(3), "a" * count)


@pytest.mark.parametrize("by", ["fullgraph", "setting"])
def test_where_the_limit_is_an_error_the_call_raised_and_ran_not_even_eagerly(by: str) -> None:
    settings = {"recompile_limit": 3, "fail_on_recompile_limit_hit": by == "setting"}
    with Lens(strict=True) as lens, torch._dynamo.config.patch(**settings):
        compiled = torch.compile(named, backend="eager", fullgraph=by == "fullgraph")
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            calls(compiled)
    explained = explain(lens.recording)
    assert [function.treatment for function in explained.coverage.functions] == [Treatment.FAILED]
    said = screen(lens)
    assert "limit hit: an error for anything new" in said
    assert "It hit the recompile limit at [0/3]: a call that fits no compilation raises since." in said
    assert "eager" not in said
