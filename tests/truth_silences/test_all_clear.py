"""An all-clear is a claim: each fact that contradicts it keeps it from being said, and is named in its place."""

from __future__ import annotations

import pytest
import torch
from msgspec.structs import replace
from torch import Tensor, nn

from compiler_lens import Lens
from compiler_lens.facts.overview.all_clear import _LOOKS, Against, Contradiction, against
from compiler_lens.facts.overview.explanation import summarize
from compiler_lens.recording.model import (
    DAMAGE,
    THE_END,
    AutotuneChoice,
    AutotuneResult,
    CaptureProblem,
    ChildProcess,
    CompileId,
    KernelKind,
    Recording,
    SourceLine,
    Stance,
    Unavailable,
)
from compiler_lens.render.console import report

LINE = SourceLine("train.py", 12, "main", "start()")


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).relu()


def recorded(*inputs: Tensor) -> Recording:
    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        model = torch.compile(Block(), backend="aot_eager")
        for x in inputs:
            model(x)
    return lens.recording


@pytest.fixture(scope="module")
def clean() -> Recording:
    return recorded(torch.ones(2, 4))


def said(recording: Recording) -> str:
    return " ".join(report(recording, width=200, color=False).split())


def doubts(recording: Recording) -> list[Contradiction]:
    return [one.what for one in against(recording, summarize(recording))]


def tuned(winner: float, seconds: float) -> tuple[AutotuneResult, ...]:
    choices = (
        AutotuneChoice("triton_mm_3", KernelKind.TEMPLATE, winner),
        AutotuneChoice("mm", KernelKind.EXTERN, 0.100),
    )
    return (AutotuneResult(CompileId(0, 0), "mm", (), choices, seconds),)


def test_nothing_to_fix_is_said_where_nothing_contradicts(clean: Recording) -> None:
    assert doubts(clean) == []
    assert (
        "Nothing to fix: no graph breaks, no recompiles in what came to the compiler. Calls of a model as it was before torch.compile are not seen."
        in said(clean)
    )


CHANGES = {
    Contradiction.DAMAGED: ({"problems": (CaptureProblem(DAMAGE, "3 bytes are lost"),)}, "record again"),
    Contradiction.UNFINISHED: ({"problems": (CaptureProblem(THE_END, "it is cut off"),)}, "no end to the recording"),
    Contradiction.NOT_RECORDED: (
        {"problems": (CaptureProblem("dynamo_start", "odd"),)}, "1 thing that could not be recorded",
    ),
    Contradiction.NOT_OFFERED: (
        {"unavailable": (Unavailable("stances", "not offered by this torch: x"),)}, "1 fact that this torch does not",
    ),
    Contradiction.STANCE: ({"stances": (Stance("eager_then_compile", LINE),)}, "a stance (train.py:12)"),
    Contradiction.CHILDREN: ({"children": (ChildProcess(LINE),)}, "processes that are not recorded (train.py:12)"),
    Contradiction.TUNING: (
        {"autotunes": tuned(0.099, 173.0)}, "2 min 53 s of autotuning, paid back after some 173,000,000 calls",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGES)
def test_one_fact_is_enough_for_it_not_to_be_said(clean: Recording, what: Contradiction) -> None:
    changes, words = CHANGES[what]
    changed = replace(clean, **changes)
    assert doubts(changed) == [what]
    assert "Nothing to fix" not in said(changed)
    assert words in said(changed)


def test_a_recompile_that_must_be_is_said_with_its_time() -> None:
    recording = recorded(torch.ones(2, 4), torch.ones(3, 4))
    (found,) = against(recording, summarize(recording))
    assert (found.what, found.count) == (Contradiction.RECOMPILES, 1)
    assert found.seconds is not None
    assert found.seconds > 0
    assert "Nothing must be changed, but there is: 1 recompile in " in said(recording)


def test_graphs_that_are_cut_on_purpose_are_said_to_be_with_their_line() -> None:
    @torch.compiler.disable
    def logged(x: Tensor) -> Tensor:
        return x

    def step(x: Tensor) -> Tensor:
        return logged(x + 1) * 2

    torch._dynamo.reset()
    with Lens(strict=True) as lens:
        torch.compile(step, backend="eager")(torch.ones(3))
    assert doubts(lens.recording) == [Contradiction.CUT]
    assert "1 place where graphs are cut on purpose (test_all_clear.py:" in said(lens.recording)


def test_what_may_not_be_meant_is_said_with_its_line() -> None:
    torch._dynamo.reset()
    with Lens(strict=True) as lens, torch.no_grad():
        torch.compile(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.1)), backend="eager")(torch.ones(3, 4))
    assert doubts(lens.recording) == [Contradiction.UNINTENDED]
    assert "Nothing to fix" not in said(lens.recording)


def test_what_the_user_stopped_is_not_called_compiled(clean: Recording) -> None:
    def stops(_gm: object, _inputs: object) -> object:
        raise KeyboardInterrupt

    torch._dynamo.reset()
    with Lens(strict=True) as lens, pytest.raises(KeyboardInterrupt):
        torch.compile(Block(), backend=stops)(torch.ones(2, 4))  # type: ignore[arg-type]
    assert Contradiction.NOT_WHOLE in doubts(lens.recording)
    assert "Nothing to fix" not in said(lens.recording)


def test_a_log_of_torchs_is_no_all_clear(clean: Recording) -> None:
    """It has no word of stances, of processes, of what is never called."""
    log = replace(clean, compilations=tuple(replace(c, backend="") for c in clean.compilations))
    assert doubts(log) == [Contradiction.LOG]
    assert "Nothing to fix" not in said(log)


@pytest.mark.parametrize(
    ("winner", "seconds", "is_said"), [(0.099, 173.0, True), (0.100, 5.0, True), (0.001, 0.05, False)]
)
def test_tuning_that_takes_long_and_gains_little_is_no_all_clear(
    clean: Recording, winner: float, seconds: float, is_said: bool
) -> None:
    changed = replace(clean, autotunes=tuned(winner, seconds))
    assert (doubts(changed) == [Contradiction.TUNING]) == is_said
    assert ("which gained nothing" in said(changed)) == (winner == 0.100)


def test_the_table_has_every_contradiction() -> None:
    assert set(_LOOKS) == set(Contradiction)
    assert all(isinstance(one, Against) for one in against(Recording(), summarize(Recording())))
