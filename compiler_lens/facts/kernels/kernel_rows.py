"""Kernels with their launches: where these come from, what they move, and what they take in one call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import replace

from compiler_lens.facts.kernels.flops import Work, launch_work
from compiler_lens.facts.kernels.kernels import (
    KernelGroup,
    Views,
    fused_op_count,
    is_generated,
    kernel_groups,
    view_nodes,
)
from compiler_lens.facts.kernels.launch_costs import LaunchCost, launch_costs
from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.facts.kernels.profile_doubts import doubts, is_usable
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.facts.kernels.traffic import Traffic, launch_traffic
from compiler_lens.recording.ids import KernelId, LaunchId
from compiler_lens.recording.model import Kernel, Recording, SourceLine, Trust


class Costs(Struct, frozen=True):
    """What is known of all launches: memory, operations, and the latest profile's times."""

    moved: Mapping[LaunchId, Traffic]
    work: Mapping[LaunchId, Work]
    measured: Mapping[LaunchId, LaunchCost]
    views: Views = field(default_factory=dict)  # nodes that no kernel computes: ops are counted without these
    is_usable: bool = True  # whether the profile's times are those of the program: else nothing follows from them

    @classmethod
    def of(cls, recording: Recording) -> Costs:
        """Return the costs of a recording's launches."""
        costs = launch_costs(recording, recording.profiles[-1]) if recording.profiles else ()
        measured = {cost.time.id: cost for cost in costs}
        usable = not recording.profiles or is_usable(doubts(recording.profiles[-1], costs))
        return cls(launch_traffic(recording), launch_work(recording), measured, view_nodes(recording.graphs), usable)

    def microseconds(self, lineages: Iterable[Lineage]) -> float | None:
        """Return what these launches take in one call; None if none of them was measured."""
        known = [cost.total for cost in self.launches(lineages)]
        return sum(known) if known else None

    def launches(self, lineages: Iterable[Lineage]) -> tuple[LaunchCost, ...]:
        """Return those that were measured."""
        return tuple(self.measured[launch] for launch in launch_ids(lineages) if launch in self.measured)

    def traffic(self, lineages: Iterable[Lineage]) -> Traffic | None:
        """Return what these launches read and write, None where that is not known of one."""
        ids = list(launch_ids(lineages))
        known = [self.moved[launch] for launch in ids if launch in self.moved]
        if not known or len(known) < len(ids):
            return None
        trust = max((one.trust for one in known), key=(Trust.EXACT, Trust.TEXT).index)
        return Traffic(sum(one.read for one in known), sum(one.written for one in known), trust)

    def flops(self, lineages: Iterable[Lineage]) -> int | None:
        """Return the operations of the matrix products among these launches; None if there are none."""
        known = [self.work[launch].flops for launch in launch_ids(lineages) if launch in self.work]
        return sum(known) if known else None


class KernelFacts(Kernel, frozen=True, kw_only=True):
    """A kernel, and what is known of those of its launches that were asked for."""

    ops: int  # that one launch computes
    microseconds: float | None  # in one call of the model, measured
    traffic: Traffic | None  # that the launches read and write, each once
    flops: int | None  # of the matrix products among them
    lines: tuple[SourceLine, ...]  # of the user's that they work for
    modules: tuple[str, ...]

    @classmethod
    def of(cls, lineages: Sequence[Lineage], costs: Costs) -> KernelFacts:
        """Return what is known of launches; where they are of several kernels, these compute the same."""
        kernel = lineages[0].kernel
        lines = {(at.file, at.line): at for one in lineages for at in one.lines}
        return cls(
            **{name: getattr(kernel, name) for name in Kernel.__struct_fields__},
            ops=fused_op_count(kernel, costs.views),
            microseconds=costs.microseconds(lineages),
            traffic=costs.traffic(lineages),
            flops=costs.flops(lineages),
            lines=tuple(lines.values()),
            modules=tuple(dict.fromkeys(module for one in lineages for module in one.modules)),
        )


class KernelRow(Struct, frozen=True):
    """Kernels that compute the same, with the launches that were asked for."""

    group: KernelGroup
    lineages: tuple[Lineage, ...]
    facts: KernelFacts  # of the first kernel, and of the launches of all

    @property
    def launches(self) -> int:
        """How many launches are meant."""
        return sum(1 if one.launch is not None else len(one.kernel.launches) for one in self.lineages)


def kernel_rows(lineages: Iterable[Lineage], costs: Costs, *, folded: bool = True) -> tuple[KernelRow, ...]:
    """Return the kernels of some launches: by time where that was measured, else the one that fuses most first.

    Unless `folded`, each kernel has a row of its own, beside those that compute the same where times are equal.
    """
    own = {members[0].kernel.id: members for members in by_kernel(lineages)}
    rows = []
    for group in kernel_groups((members[0].kernel for members in own.values()), costs.views):
        meant = tuple(lineage for kernel in group.kernels for lineage in own[kernel.id])
        rows.append(KernelRow(group, meant, KernelFacts.of(meant, costs)))
    rows.sort(key=_rank)
    if folded:
        return tuple(rows)
    each = [
        KernelRow(replace(row.group, kernels=(own[0].kernel,)), own, KernelFacts.of(own, costs))
        for row in rows
        for own in by_kernel(row.lineages)
    ]
    return tuple(sorted(each, key=lambda row: -(row.facts.microseconds or 0.0)))


def _rank(row: KernelRow) -> tuple[float, bool, int, str]:
    return (
        -(row.facts.microseconds or 0.0),
        not is_generated(row.group.first),
        -row.group.op_count,
        row.group.first.name,
    )


def by_kernel(lineages: Iterable[Lineage]) -> tuple[tuple[Lineage, ...], ...]:
    """Return the launches of each kernel."""
    found: dict[KernelId, list[Lineage]] = defaultdict(list)
    for lineage in lineages:
        found[lineage.kernel.id].append(lineage)
    return tuple(map(tuple, found.values()))


def lineages_of(recording: Recording, provenance: Provenance, kernels: Iterable[Kernel]) -> tuple[Lineage, ...]:
    """Return the launches of some kernels of the recording."""
    wanted = {kernel.id for kernel in kernels}
    indices = [index for index, kernel in enumerate(recording.kernels) if kernel.id in wanted]
    return tuple(lineage for index in indices for lineage in provenance.of_kernel(index))


def launch_ids(lineages: Iterable[Lineage]) -> Iterator[LaunchId]:
    """Yield the launches that these are; a lineage of a whole kernel is all launches of it."""
    for one in lineages:
        for number in range(len(one.kernel.launches)) if one.launch is None else (one.launch,):
            yield one.kernel.launch_id(number)
