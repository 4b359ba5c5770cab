"""Dynamo sees no frame of ours: all that torch counts is the same with a lens and without."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pytest
from counted import Counts, counted
from counted_programs import kinds
from observation import run

# Kinds that "static" (`dynamic=False`) is tried with, too: it goes another way through Dynamo where sizes are learned.
STATIC = ("training", "hooks", "breaks", "lazy backwards")
# Inductor's own hooks run below an active callback, too.
WITH_INDUCTOR = ("lazy backwards", "checkpointing")


@pytest.mark.parametrize("kind", kinds())
def test_torch_counts_the_same(kind: str) -> None:
    _assert_same(kind, ("aot_eager",))


@pytest.mark.long
@pytest.mark.parametrize("kind", kinds())
def test_torch_counts_the_same_in_other_ways(kind: str) -> None:
    _assert_same(kind, ("eager", *(["static"] if kind in STATIC else [])))


@pytest.mark.long
@pytest.mark.parametrize("kind", WITH_INDUCTOR)
def test_torch_counts_the_same_with_inductor(kind: str) -> None:
    _assert_same(kind, ("inductor",))


def _assert_same(kind: str, backends: Sequence[str]) -> None:
    plain, recorded = (run(_counted, kind, backends, is_recorded) for is_recorded in (False, True))
    assert recorded == plain
    assert all(sum(map(len, counts.values())) > 0 for counts in plain.values())


@pytest.mark.long
def test_torch_counts_the_same_where_its_trace_can_be_disabled() -> None:
    plain, recorded = (run(_counted_as_on_torch_2_11, is_recorded) for is_recorded in (False, True))
    assert recorded == plain
    assert (
        plain["aot_eager: traced_by_others"]["frames"]["total"] > plain["aot_eager: backward_inside"]["frames"]["total"]
    )


def test_there_are_sixty_programs_of_twelve_kinds() -> None:
    assert len(kinds()) >= 12
    assert sum(map(len, kinds().values())) >= 60


def _counted(kind: str, backends: Sequence[str], is_recorded: bool) -> dict[str, Counts]:
    return {
        f"{backend}: {name}": counts
        for backend in backends
        for name, counts in counted(kind, backend, recorded=is_recorded).items()
    }


def _counted_as_on_torch_2_11(is_recorded: bool) -> dict[str, Counts]:
    """torch 2.11 does not override `isEnabledFor` of its trace's logger, and Dynamo sees logging's own."""
    del logging.getLogger("torch.__trace").isEnabledFor
    return _counted("training", ("aot_eager",), is_recorded)
