"""What of a launch stands together in the order of steps: a launch may be parted by what is none of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec import Struct

from compiler_lens.facts.kernels.graph_flow import Step
from compiler_lens.facts.kernels.launches import Launched
from compiler_lens.facts.kernels.lineage import is_view


class Share(Struct, frozen=True):
    """What of a launch stands in one box."""

    part: int  # counted from 1: where others' ops stand between its own, the launch has several boxes
    parts: int
    ops: int  # that do work: views do none
    again: int  # ops that an earlier launch computed already, and this one once more; given for the first part


def shares(steps: Sequence[Step], launched: Sequence[Launched], ops: Mapping[int, int]) -> Mapping[int, Share]:
    """Return what of its launch each run of steps is, by the run's first step; `ops`: how many each launch computes."""
    runs: dict[int, list[tuple[int, int]]] = {}  # of each launch: the first step of a run, and how many ops it has
    keys = [(launch_number(launch), calls_around(step)) for launch, step in zip(launched, steps, strict=False)]
    for (place, _), group in groupby(range(len(keys)), key=keys.__getitem__):
        if place is not None:
            members = list(group)
            own = sum(not is_view(node.target) for number in members for node in steps[number].nodes)
            runs.setdefault(place, []).append((members[0], own))
    found = {}
    for place, parts in runs.items():
        again = max(ops.get(place, 0) - sum(own for _, own in parts), 0)
        for part, (first, own) in enumerate(parts, 1):
            found[first] = Share(part, len(parts), own, 0 if part > 1 else again)
    return found


def launch_number(launch: Launched) -> int | None:
    """Return a launch's place among all of its output code."""
    return launch[0] if launch else None


def calls_around(step: Step) -> tuple[tuple[str, str], ...]:
    """Return the calls of higher-order ops that a step stands in."""
    return tuple((each.call.name, each.body) for each in step.within)
