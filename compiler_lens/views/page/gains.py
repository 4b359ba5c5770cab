"""What was measured of a kernel, in figures: its time, its rates beside what this device can do, what it could gain."""

from __future__ import annotations

from collections.abc import Iterator

from compiler_lens.facts.kernels.kernel_rows import Costs, KernelRow
from compiler_lens.facts.kernels.launch_costs import Bound
from compiler_lens.facts.kernels.roofline import GroupCost
from compiler_lens.recording.model import Ceilings, Recording
from compiler_lens.render.page.ink import Cell
from compiler_lens.views.console.kernels import moved
from compiler_lens.views.console.profile_table import bound_words, gain_words, how_often, rate
from compiler_lens.views.picture.tooltips import BOUND_WORDS
from compiler_lens.views.profile_words import BOUNDS
from compiler_lens.views.text import flops, microseconds, number, percent, plural

Tile = tuple[str, str, str]  # what it is, the figure, a word on it


def cost_of(row: KernelRow, costs: Costs) -> GroupCost | None:
    """What a kernel took and why; None where that is not known, or times are not usable."""
    launches = costs.launches(row.lineages) if costs.is_usable else ()
    return GroupCost(row.group, launches) if launches else None


def gain_cell(cost: GroupCost) -> Cell:
    """What it could gain, and what bounds it."""
    bound = bound_words(cost)
    return gain_words(cost), round(cost.above, 3), "", bound, bound


def tiles(row: KernelRow, recording: Recording, costs: Costs) -> list[Tile]:
    """A kernel's figures; of times that are not usable none."""
    cost = cost_of(row, costs)
    found = [*_times(cost, costs), *_rates(cost, recording.profiles[-1].ceilings)] if cost else []
    if row.launches:
        found.append(("launches", number(row.launches), "in the output code"))
    if row.traffic:
        each = "" if row.launches < 2 else f"in {plural(row.launches, 'launch', 'launches')}"  # noqa: PLR2004
        found.append(("moves", moved(row.traffic), each))
    if row.flops:
        found.append(("multiplies", flops(row.flops), ""))
    return found


def _times(cost: GroupCost, costs: Costs) -> Iterator[Tile]:
    every = sum(one.total for one in costs.measured.values())
    yield "time a call", microseconds(cost.total), f"in {how_often(cost.runs)} {'run' if cost.runs == 1 else 'runs'}"
    yield "of all kernels", percent(cost.total, every), f"of {microseconds(every)}"
    if any(one.floor is not None for one in cost.launches):
        yield "could gain", gain_words(cost), "above the floor"
    if cost.bound is not Bound.UNKNOWN:
        because = BOUND_WORDS[cost.bound] if cost.bound in {Bound.LAUNCH, Bound.NEITHER} else ""
        yield "bound by", BOUNDS[cost.bound], because


def _rates(cost: GroupCost, ceilings: Ceilings) -> Iterator[Tile]:
    """What it achieves, and its part of what this device can do."""
    if cost.bytes_per_second is not None:
        most = f"{rate(ceilings.bytes_per_second, 'B/s')} copying" if ceilings.bytes_per_second else ""
        yield "bytes/s", rate(cost.bytes_per_second, "B/s"), _part(cost, Bound.MEMORY, most)
    if cost.flops_per_second:
        kinds = dict.fromkeys(one.work.dtype for one in cost.launches if one.work)
        each = {dtype: ceilings.flops_per_second.get(dtype) for dtype in kinds}
        told = ", ".join(f"{rate(value, 'FLOP/s')} {dtype}" for dtype, value in each.items() if value)
        yield "FLOP/s", rate(cost.flops_per_second, "FLOP/s"), _part(cost, Bound.COMPUTE, told)


def _part(cost: GroupCost, of: Bound, most: str) -> str:
    share = cost.share(of)
    return f"{percent(share, 1)} of {most}" if share is not None and most else ""
