"""Compiled code that draws random numbers is told of where results are compared: Inductor draws others."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from msgspec.structs import replace
from torch import nn

from compiler_lens import Lens
from compiler_lens.facts.measured.draws import drawn_at
from compiler_lens.facts.measured.edits import Setting
from compiler_lens.facts.measured.fix import Fix, Observed, Offer, Target, Trial
from compiler_lens.facts.measured.offers import observed
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import Figures, Recording, Results, SourceLine
from compiler_lens.render.console import fix_report

X = torch.ones(4, 8)


def recorded(function: Callable[..., object]) -> Recording:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(function, backend="eager")(X)
    return lens.recording


@pytest.mark.parametrize(
    ("function", "draws"),
    [
        (lambda x: nn.functional.dropout(x, 0.5), True),
        (lambda x: nn.functional.dropout(x, 0.5, True), True),
        (lambda x: x + torch.rand_like(x), True),
        (lambda x: torch.bernoulli(x) + x, True),
        (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.1), True),
        (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.0), False),
        (lambda x: nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]), False),
        (lambda x: x + x.new_empty(8).uniform_(), False),
        (lambda x: nn.functional.dropout(x, 0.5, False), False),
        (lambda x: nn.functional.dropout(x, 0.5, training=False), False),
        (lambda x: nn.functional.dropout(x, 0.0), False),
        (lambda x: nn.functional.dropout(x, p=0.0), False),
        (nn.Dropout(0.5).eval(), False),
        (lambda x: x.sin(), False),
    ],
)
def test_what_is_drawn_in_a_graph_is_seen(function: Callable[..., object], draws: bool) -> None:
    assert (drawn_at(recorded(function), Ownership((__file__,))) is not None) is draws


def test_that_inductor_draws_others_is_said_in_one_line() -> None:
    first = replace(observed(recorded(lambda x: x * torch.rand_like(x)), Ownership((__file__,))), calls=1)
    assert first.drawn_at is not None
    assert "rand_like" in first.drawn_at.code
    seen = Observed(Figures(0, 0, 0), None, results=Results.EQUAL)
    trial = Trial((Offer(Target(None, "break"), Setting("x = 1")),), {}, Figures(1, 0, 0), seen, helps=False)

    def said(drawn: SourceLine | None) -> str:
        return " ".join(fix_report(Fix(replace(first, drawn_at=drawn), (trial,)), width=100).split())

    words = "Inductor, the default backend, draws others than are compared here"
    assert said(first.drawn_at).count(words) == 1
    assert f"test_draws.py:{first.drawn_at.line}" in said(first.drawn_at)
    assert "torch._inductor.config.fallback_random" in said(first.drawn_at)
    assert words not in said(None)
