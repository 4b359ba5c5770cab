"""Dynamo sees no frame of ours: all that torch counts is the same with a lens and without."""

from __future__ import annotations

import pytest
from counted import PROGRAMS, counted
from observation import run

INDUCTOR = ("backward_inside", "lazy_backward", "checkpointed")  # where its hooks run below an active callback, too

FAIL_BY_AOT = ("other_compilers",)  # AOTAutograd within AOTAutograd, without a lens, too

RUNS = [
    *((name, "eager") for name in PROGRAMS),
    *((name, backend) for name in PROGRAMS if name not in FAIL_BY_AOT for backend in ("aot_eager", "static")),
    *((name, "inductor") for name in INDUCTOR),
]


@pytest.mark.parametrize(("name", "backend"), RUNS)
def test_torch_counts_the_same(name: str, backend: str) -> None:
    plain, recorded = (run(_counted, name, backend, recorded) for recorded in (False, True))
    assert recorded == plain
    assert plain["frames"]["total"] > 0


def _counted(name: str, backend: str, recorded: bool) -> dict[str, dict[str, int]]:
    return counted(name, backend, recorded=recorded)
