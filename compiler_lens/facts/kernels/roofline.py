"""How good each kernel is, and what a profile says to do next."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import chain

from msgspec import Struct

from compiler_lens.facts.kernels.kernels import KernelGroup, kernel_groups, view_nodes
from compiler_lens.facts.kernels.launch_costs import MICRO, Bound, Doubt, LaunchCost, doubts, is_usable, launch_costs
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Profile, Recording, Trust

_BUSY_ENOUGH = 0.8  # of a call: with less, the device mostly waits for launches
_GRAPHS = frozenset(("reduce-overhead", "max-autotune"))  # modes that replay launches


class GroupCost(Struct, frozen=True):
    """Kernels that compute the same: all their launches."""

    group: KernelGroup
    launches: tuple[LaunchCost, ...]
    runs: float  # how many launches one call of the model makes
    total: float  # microseconds in one call of the model
    above: float  # of it, above the floor

    @classmethod
    def of(cls, group: KernelGroup, costs: Iterable[LaunchCost]) -> GroupCost:
        """Return what launches of kernels take together."""
        own = tuple(costs)
        return cls(group, own, sum(c.time.runs for c in own), sum(c.total for c in own), sum(c.above for c in own))

    @property
    def bytes_per_second(self) -> float | None:
        """Achieved, over all launches; None if that of one is not known."""
        return self._per_second([cost.traffic.bytes if cost.traffic else None for cost in self.launches])

    @property
    def flops_per_second(self) -> float | None:
        """Achieved, over all launches; None if that of one is not known."""
        return self._per_second([cost.work.flops if cost.work else None for cost in self.launches])

    def _per_second(self, amounts: Sequence[int | None]) -> float | None:
        if None in amounts or not self.total:
            return None
        done = sum((n or 0) * cost.time.runs for n, cost in zip(amounts, self.launches, strict=True))
        return done / self.total * MICRO

    @property
    def worst(self) -> LaunchCost:
        """The launch with the largest possible saving."""
        return max(self.launches, key=lambda cost: (cost.above, cost.total))

    @property
    def bound(self) -> Bound:
        """What most of its time is spent on."""
        shares = shares_by_bound((self,))
        return max(shares, key=lambda bound: shares[bound])

    @property
    def is_exact(self) -> bool:
        """Whether times and bytes are known for sure."""
        trusts = {cost.time.trust for cost in self.launches}
        trusts.update(cost.traffic.trust for cost in self.launches if cost.traffic is not None)
        return trusts <= {Trust.EXACT}

    def share(self, of: Bound) -> float | None:
        """Return the share of a ceiling, weighed by time; None where that of one launch is not known."""
        shares = [cost.memory_share if of is Bound.MEMORY else cost.compute_share for cost in self.launches]
        if None in shares or not self.total:
            return None
        return sum((share or 0.0) * cost.total for share, cost in zip(shares, self.launches, strict=True)) / self.total


class CallParts(Struct, frozen=True):
    """What one call of the model consists of, in microseconds."""

    total: float
    kernels: float  # launches of compiled graphs
    other: float  # other work of the device
    idle: float  # the device waits
    launches: float  # how many

    @property
    def busy_share(self) -> float:
        """The part of the call in which the device works."""
        return min(1.0, (self.total - self.idle) / self.total) if self.total else 0.0


class Advice(Enum):
    """What to do next."""

    REDUCE_OVERHEAD = "reduce_overhead"  # the device waits for the CPU to launch
    HOST = "host"  # it waits, though launches are replayed
    MAX_AUTOTUNE = "max_autotune"  # matrix products are far below the ceiling
    COPIES = "copies"  # the inputs of recorded graphs of launches are copied, each call
    OUTSIDE = "outside"  # most work is not compiled
    FUSION = "fusion"  # bound by memory: only fewer bytes help
    MEASURE_AGAIN = "measure_again"  # these times say nothing: see the doubts


class Roofline(Struct, frozen=True):
    """A profile with what it means."""

    profile: Profile
    parts: CallParts
    groups: tuple[GroupCost, ...]  # the most to gain first
    advice: tuple[Advice, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether the times are those of the program, and gains and advice may be drawn from them."""
        return is_usable(self.doubts)


def roofline(recording: Recording, profile: Profile) -> Roofline:
    """Return what a profile of this recording means, kernel by kernel."""
    costs = launch_costs(recording, profile)
    by_kernel = grouped(costs, lambda cost: cost.kernel.id)
    alike = kernel_groups((own[0].kernel for own in by_kernel.values()), view_nodes(recording.graphs))
    groups = [GroupCost.of(group, chain(*(by_kernel[kernel.id] for kernel in group.kernels))) for group in alike]
    groups.sort(key=lambda group: (-group.above, -group.total))
    parts, found = call_parts(profile), doubts(profile, costs)
    advice = _advice(recording, profile, parts, groups) if is_usable(found) else (Advice.MEASURE_AGAIN,)
    return Roofline(profile, parts, tuple(groups), advice, found)


def call_parts(profile: Profile) -> CallParts:
    """Return how much of one call is kernels, other work, and waiting."""
    kernels = sum(time.microseconds * time.runs for time in profile.launches)
    # What runs at the same time counts once: work that overlaps is taken from what is not a kernel of ours.
    other = max(0.0, min(sum(o.microseconds for o in profile.others), profile.busy_microseconds - kernels))
    idle = max(0.0, profile.microseconds - profile.busy_microseconds)
    return CallParts(profile.microseconds, kernels, other, idle, sum(time.runs for time in profile.launches))


def shares_by_bound(groups: Iterable[GroupCost]) -> Mapping[Bound, float]:
    """Return the microseconds of one call by what bounds them."""
    total: dict[Bound, float] = defaultdict(float)
    for group in groups:
        for cost in group.launches:
            total[cost.bound] += cost.total
    return total


def _advice(
    recording: Recording, profile: Profile, parts: CallParts, groups: Sequence[GroupCost]
) -> tuple[Advice, ...]:
    modes = {compilation.mode for compilation in recording.compilations}
    devices = {kernel.device.partition(":")[0] for kernel in recording.kernels}
    # torch replays launches on these devices only, AMD's are called so too; of others there is nothing to advise
    waits = "cuda" in devices and parts.busy_share < _BUSY_ENOUGH
    # The only op that CUDA graphs copy inputs with: torch/_inductor/cudagraph_trees.py
    copies = sum(other.microseconds for other in profile.others if other.name == "aten::_foreach_copy_")
    products = [cost for group in groups for cost in group.launches if cost.work is not None]
    slow = sum(cost.above for cost in products if cost.bound is Bound.NEITHER)
    # On a CPU it tunes products with constant weights only: `use_cpp_gemm_template`, torch/_inductor/utils.py
    tunable = bool(devices - {"cpu"}) and not any(mode.startswith("max-autotune") for mode in modes)
    found = {
        Advice.REDUCE_OVERHEAD: waits and not _GRAPHS & modes,
        Advice.HOST: waits and bool(_GRAPHS & modes),
        Advice.OUTSIDE: parts.other > parts.kernels,
        Advice.COPIES: copies > 0.05 * parts.total,
        Advice.MAX_AUTOTUNE: tunable and slow > 0.1 * parts.total,
        Advice.FUSION: shares_by_bound(groups).get(Bound.MEMORY, 0.0) > 0.5 * parts.total,
    }
    return tuple(advice for advice, holds in found.items() if holds)
