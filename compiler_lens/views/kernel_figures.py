"""What is known of a kernel in figures: its time, its rates beside what this device can do, its possible saving."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from compiler_lens.facts.kernels.kernels import Costs, KernelFacts, KernelGroup
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.roofline import GroupCost
from compiler_lens.recording.model import Ceilings
from compiler_lens.views.document import Tile
from compiler_lens.views.kernels import moved
from compiler_lens.views.parts import Figure, Kind
from compiler_lens.views.profile import saving
from compiler_lens.views.profile_words import BOUNDS
from compiler_lens.views.text import how_often, microseconds, percent, plural, rate


def tiles(
    lineages: Sequence[Lineage], facts: KernelFacts, costs: Costs, ceilings: Ceilings | None, every: float
) -> Iterator[Tile]:
    """Yield a kernel's figures; of times that are not usable none.

    `every`: the microseconds that all kernels take in a call.
    """
    launches = costs.launches(lineages) if costs.is_usable else ()
    if launches and ceilings:
        cost = GroupCost(KernelGroup((lineages[0].kernel,), (), facts.ops), launches)
        yield from _times(cost, every)
        yield from _rates(cost, ceilings)
    count = len(facts.launches)
    if count:
        yield Tile("launches", Figure(count, Kind.COUNT), "in the output code")
    amount = moved(facts.traffic)
    if amount:
        yield Tile("moves", amount, f"in {plural(count, 'launch', 'launches')}" if count > 1 else "")
    if facts.flops:
        yield Tile("multiplies", Figure(facts.flops, Kind.FLOPS))


def _times(cost: GroupCost, every: float) -> Iterator[Tile]:
    runs = f"in {how_often(cost.runs)} {'run' if cost.runs == 1 else 'runs'}"
    yield Tile("time a call", Figure(cost.total, Kind.MICROSECONDS), runs)
    yield Tile("of all kernels", percent(cost.total, every), f"of {microseconds(every)}")
    known = saving(cost)
    if known:
        yield Tile("possible saving", known, "above the floor")
    if cost.bound is not Bound.UNKNOWN:
        yield Tile("bound by", BOUNDS[cost.bound], _BECAUSE.get(cost.bound, ""))


# Why a kernel takes what it takes, where its bound alone does not say it.
_BECAUSE: Mapping[Bound, str] = {
    Bound.LAUNCH: "as short as a launch can be",
    Bound.NEITHER: "neither compute- nor memory-bound",
}


def _rates(cost: GroupCost, ceilings: Ceilings) -> Iterator[Tile]:
    """What it achieves, and its part of what this device can do."""
    if cost.bytes_per_second is not None:
        most = f"{rate(ceilings.bytes_per_second, 'B/s')} copying" if ceilings.bytes_per_second else ""
        yield Tile("bytes/s", Figure(cost.bytes_per_second, Kind.BYTE_RATE), _part(cost, Bound.MEMORY, most))
    if cost.flops_per_second:
        kinds = dict.fromkeys(one.work.dtype for one in cost.launches if one.work)
        each = {dtype: ceilings.flops_per_second.get(dtype) for dtype in kinds}
        most = ", ".join(f"{rate(value, 'FLOP/s')} {dtype}" for dtype, value in each.items() if value)
        yield Tile("FLOP/s", Figure(cost.flops_per_second, Kind.FLOP_RATE), _part(cost, Bound.COMPUTE, most))


def _part(cost: GroupCost, of: Bound, most: str) -> str:
    share = cost.share(of)
    return f"{percent(share, 1)} of {most}" if share is not None and most else ""
