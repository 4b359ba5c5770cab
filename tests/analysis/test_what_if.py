"""Which configuration helps, and whether there is anything to help with: by figures alone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compiler_lens.facts.measured.what_if import Counts, Trial, WhatIf

CLEAN = Counts(graphs=1, breaks=0, eager_frames=0, compilations=1, recompiles=0, seconds=1.0)
BROKEN = Counts(graphs=3, breaks=2, eager_frames=1, compilations=4, recompiles=1, seconds=2.0)


def trial(after: Counts | None, *, before: Counts | None = BROKEN, code: tuple[str, ...] = ("a = True",)) -> Trial:
    return Trial("a", code, "", before, after)


@pytest.mark.parametrize("worse", [{"eager_frames": 1}, {"breaks": 1}, {"recompiles": 1}])
def test_a_program_with_a_break_a_recompile_or_eager_code_is_not_clean(worse: dict[str, int]) -> None:
    assert not WhatIf((trial(replace(CLEAN, **worse)),)).is_clean


def test_graphs_and_what_is_benign_are_nothing_to_help_with() -> None:
    assert WhatIf((trial(CLEAN),)).is_clean
    benign = replace(CLEAN, graphs=7, breaks=2, recompiles=3, benign_breaks=2, benign_recompiles=3)
    assert WhatIf((trial(benign),)).is_clean
    assert not WhatIf((trial(None),)).is_clean


@pytest.mark.parametrize("less", [{"eager_frames": 0}, {"breaks": 1}, {"recompiles": 0}, {"graphs": 2}])
def test_a_trial_helps_where_there_is_less_of_what_hurts(less: dict[str, int]) -> None:
    assert trial(replace(BROKEN, **less)).helps
    assert not trial(BROKEN).helps
    assert not trial(None).helps
    assert trial(BROKEN, before=None).helps


def test_running_eagerly_hurts_more_than_any_break() -> None:
    assert trial(replace(BROKEN, eager_frames=0, breaks=90)).helps
    assert not trial(replace(BROKEN, eager_frames=2, breaks=0)).helps


def test_the_best_of_several_is_the_one_with_the_least_to_write() -> None:
    as_it_is = trial(BROKEN)
    long, short = trial(CLEAN, code=("a", "b")), trial(CLEAN, code=("c",))
    assert WhatIf((as_it_is, long, short)).best is short
    assert WhatIf((as_it_is, long, trial(replace(CLEAN, breaks=1)))).best is long
    assert WhatIf((as_it_is, trial(BROKEN))).best is None
