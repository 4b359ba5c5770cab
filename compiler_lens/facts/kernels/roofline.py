"""How good each kernel is: what its launches take, against the least that this device needs for as much."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from compiler_lens.facts.kernels.flops import Work, launch_work
from compiler_lens.facts.kernels.kernels import KernelGroup, Views, kernel_groups, view_nodes
from compiler_lens.facts.kernels.profile_doubts import Doubt, doubts, is_usable
from compiler_lens.facts.kernels.traffic import Traffic, launch_traffic
from compiler_lens.recording.ids import KernelId
from compiler_lens.recording.model import Ceilings, Kernel, LaunchTime, OtherTime, Profile, Recording, Trust

_NEAR = 0.4  # of a ceiling: from there on it is what bounds a kernel
_NOISE = 1.25  # a launch that takes no longer than this times the shortest is as short as one can be
_BUSY_ENOUGH = 0.8  # of a call: with less, the device mostly waits for launches
_MICRO = 1e6


class Bound(Enum):
    """What a kernel's time is spent on."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LAUNCH = "launch"  # as little work as a launch takes at least
    NEITHER = "neither"  # far below both ceilings
    UNKNOWN = "unknown"  # a size is symbolic or was not recorded


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """One launch: its time, its work, and the least time for that work."""

    time: LaunchTime
    kernel: Kernel
    traffic: Traffic | None
    work: Work | None
    floor: float | None  # microseconds: bytes and operations at the ceilings, and no less than the shortest launch
    bound: Bound
    memory_share: float | None  # of the ceiling; above 1: a cache served it, or the ceiling was measured too low
    compute_share: float | None

    @property
    def total(self) -> float:
        """Microseconds in one call of the model."""
        return self.time.microseconds * self.time.runs

    @property
    def above(self) -> float:
        """Microseconds above the floor in one call of the model; 0 where the floor is not known."""
        return 0.0 if self.floor is None else max(0.0, (self.time.microseconds - self.floor) * self.time.runs)


@dataclass(frozen=True, slots=True)
class GroupCost:
    """Kernels that compute the same: all their launches."""

    group: KernelGroup
    launches: tuple[LaunchCost, ...]

    @property
    def runs(self) -> float:
        """How many launches one call of the model makes."""
        return sum(cost.time.runs for cost in self.launches)

    @property
    def total(self) -> float:
        """Microseconds in one call of the model."""
        return sum(cost.total for cost in self.launches)

    @property
    def above(self) -> float:
        """Of it, above the floor."""
        return sum(cost.above for cost in self.launches)

    @property
    def bytes_per_second(self) -> float | None:
        """Achieved, over all launches; None if that of one is not known."""
        moved = [(cost.traffic.bytes if cost.traffic else None, cost) for cost in self.launches]
        return _rate(moved, self.total)

    @property
    def flops_per_second(self) -> float | None:
        """Achieved, over all launches; None if that of one is not known."""
        return _rate([(cost.work.flops if cost.work else None, cost) for cost in self.launches], self.total)

    @property
    def worst(self) -> LaunchCost:
        """The launch that could gain most."""
        return max(self.launches, key=lambda cost: (cost.above, cost.total))

    @property
    def bound(self) -> Bound:
        """What most of its time is spent on."""
        return _heaviest((cost.bound, cost.total) for cost in self.launches)

    @property
    def is_exact(self) -> bool:
        """Whether times and bytes are known for sure."""
        return all(
            cost.time.trust is Trust.EXACT and (cost.traffic is None or cost.traffic.trust is Trust.EXACT)
            for cost in self.launches
        )

    def share(self, of: Bound) -> float | None:
        """The share of a ceiling, weighed by time."""
        near = [c.memory_share if of is Bound.MEMORY else c.compute_share for c in self.launches]
        shares = [(share, cost.total) for share, cost in zip(near, self.launches, strict=True)]
        known = [(share, total) for share, total in shares if share is not None]
        whole = sum(total for _, total in known)
        return sum(share * total for share, total in known) / whole if whole and len(known) == len(shares) else None


@dataclass(frozen=True, slots=True)
class CallParts:
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


@dataclass(frozen=True, slots=True)
class Roofline:
    """A profile with what it means."""

    profile: Profile
    parts: CallParts
    groups: tuple[GroupCost, ...]  # the most to gain first
    others: tuple[OtherTime, ...]
    advice: tuple[Advice, ...]
    doubts: tuple[Doubt, ...] = ()

    @property
    def is_usable(self) -> bool:
        """Whether the times are those of the program, and gains and advice may be drawn from them."""
        return is_usable(self.doubts)


def roofline(recording: Recording, profile: Profile) -> Roofline:
    """What a profile of this recording means, kernel by kernel."""
    costs = launch_costs(recording, profile)
    groups = _grouped(costs, view_nodes(recording.graphs))
    parts = call_parts(profile)
    found = Roofline(profile, parts, groups, profile.others, (), doubts(profile, costs))
    advice = _advice(recording, profile, parts, groups) if found.is_usable else (Advice.MEASURE_AGAIN,)
    return replace(found, advice=advice)


def launch_costs(recording: Recording, profile: Profile) -> tuple[LaunchCost, ...]:
    """Every launch that was timed; the most time above the floor first."""
    traffic, work = launch_traffic(recording), launch_work(recording)
    kernels = {kernel.id: kernel for kernel in recording.kernels}
    costs: list[LaunchCost] = []
    for time in profile.launches:
        kernel = kernels.get(time.kernel_id)
        if kernel is not None:
            costs.append(_cost(time, kernel, traffic.get(time.id), work.get(time.id), profile.ceilings))
    return tuple(sorted(costs, key=lambda cost: (-cost.above, -cost.total)))


def call_parts(profile: Profile) -> CallParts:
    """Kernels, other work, and waiting, in one call."""
    kernels = sum(time.microseconds * time.runs for time in profile.launches)
    # What runs at the same time counts once: work that overlaps is taken from what is not a kernel of ours.
    other = max(0.0, min(sum(o.microseconds for o in profile.others), profile.busy_microseconds - kernels))
    idle = max(0.0, profile.microseconds - profile.busy_microseconds)
    return CallParts(profile.microseconds, kernels, other, idle, sum(time.runs for time in profile.launches))


def _cost(
    time: LaunchTime, kernel: Kernel, traffic: Traffic | None, work: Work | None, ceilings: Ceilings
) -> LaunchCost:
    by_memory = _ideal(traffic.bytes if traffic else None, ceilings.bytes_per_second)
    by_compute = _ideal(work.flops if work else None, ceilings.flops_per_second.get(work.dtype if work else ""))
    least = ceilings.launch_microseconds or 0.0
    known = [ideal for ideal in (by_memory, by_compute) if ideal is not None]
    if work is not None and by_compute is None:  # the bytes alone would promise too much
        known = []
    took = time.microseconds
    floor = max([*known, least]) if known else None
    shares = [ideal / took if ideal is not None and took else None for ideal in (by_memory, by_compute)]
    return LaunchCost(time, kernel, traffic, work, floor, _bound(known, shares, took, least), *shares)


def _ideal(amount: float | None, per_second: float | None) -> float | None:
    """Microseconds at the ceiling."""
    return None if amount is None or not per_second else amount / per_second * _MICRO


def _bound(known: Sequence[float], shares: Sequence[float | None], took: float, least: float) -> Bound:
    if not known:
        return Bound.UNKNOWN
    memory, compute = (share or 0.0 for share in shares)
    if max(known) <= least and took <= _NOISE * least + least:
        return Bound.LAUNCH
    if max(memory, compute) < _NEAR:
        return Bound.LAUNCH if took <= _NOISE * least else Bound.NEITHER
    return Bound.MEMORY if memory >= compute else Bound.COMPUTE


def _grouped(costs: Sequence[LaunchCost], views: Views) -> tuple[GroupCost, ...]:
    by_kernel: dict[KernelId, list[LaunchCost]] = defaultdict(list)
    for cost in costs:
        by_kernel[cost.kernel.id].append(cost)
    groups = [
        GroupCost(group, tuple(cost for kernel in group.kernels for cost in by_kernel[kernel.id]))
        for group in kernel_groups((own[0].kernel for own in by_kernel.values()), views)
    ]
    return tuple(sorted(groups, key=lambda group: (-group.above, -group.total)))


def _rate(amounts: Sequence[tuple[int | None, LaunchCost]], microseconds: float) -> float | None:
    if not microseconds or any(amount is None for amount, _ in amounts):
        return None
    return sum((amount or 0) * cost.time.runs for amount, cost in amounts) / microseconds * _MICRO


def _heaviest(weights: Iterable[tuple[Bound, float]]) -> Bound:
    total: dict[Bound, float] = defaultdict(float)
    for bound, weight in weights:
        total[bound] += weight
    return max(total, key=lambda bound: total[bound])


# -- what to do


def _advice(
    recording: Recording, profile: Profile, parts: CallParts, groups: Sequence[GroupCost]
) -> tuple[Advice, ...]:
    modes = {c.mode for c in recording.compilations}
    by_memory = shares_by_bound(groups).get(Bound.MEMORY, 0.0)
    found = {
        Advice.REDUCE_OVERHEAD: _waits(parts, recording) and not _GRAPHS & modes,
        Advice.HOST: _waits(parts, recording) and bool(_GRAPHS & modes),
        Advice.OUTSIDE: parts.other > parts.kernels,
        Advice.COPIES: _copies(profile) > 0.05 * parts.total,
        # On a CPU it tunes products with constant weights only: `use_cpp_gemm_template`, torch/_inductor/utils.py
        Advice.MAX_AUTOTUNE: not _on_cpu(recording) and _slow_products(groups, modes) > 0.1 * parts.total,
        Advice.FUSION: by_memory > 0.5 * parts.total,
    }
    return tuple(advice for advice, holds in found.items() if holds)


_GRAPHS = frozenset(("reduce-overhead", "max-autotune"))  # modes that replay launches


def _waits(parts: CallParts, recording: Recording) -> bool:
    # torch replays launches on these devices only, AMD's are called so too; of others there is nothing to advise
    can_replay = any(kernel.device.startswith("cuda") for kernel in recording.kernels)
    return can_replay and parts.busy_share < _BUSY_ENOUGH


def _on_cpu(recording: Recording) -> bool:
    return all(kernel.device.startswith("cpu") for kernel in recording.kernels)


def _copies(profile: Profile) -> float:
    # The only op that CUDA graphs copy inputs with: torch/_inductor/cudagraph_trees.py
    return sum(other.microseconds for other in profile.others if other.name == "aten::_foreach_copy_")


def _slow_products(groups: Sequence[GroupCost], modes: Iterable[str]) -> float:
    if any(mode.startswith("max-autotune") for mode in modes):
        return 0.0
    products = [cost for group in groups for cost in group.launches if cost.work is not None]
    return sum(cost.above for cost in products if cost.bound is Bound.NEITHER)


def shares_by_bound(groups: Iterable[GroupCost]) -> Mapping[Bound, float]:
    """Microseconds of one call by what bounds them."""
    total: dict[Bound, float] = defaultdict(float)
    for group in groups:
        for cost in group.launches:
            total[cost.bound] += cost.total
    return total
