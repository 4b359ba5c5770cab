"""Kernels in figures: by kind, and what each fuses; kernels that compute the same, folded."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler_lens.analysis.lineage import Lineage
from compiler_lens.analysis.provenance import Provenance
from compiler_lens.model import (
    AutotuneResult,
    BufferAccess,
    CudagraphOutcome,
    CudagraphState,
    Kernel,
    KernelKind,
    LaunchTime,
    Pass,
    Recording,
)


@dataclass(frozen=True, slots=True)
class KernelGroup:
    """Kernels of one kind that fuse the same ops: one kernel of the model, compiled as often as it has members."""

    kernels: tuple[Kernel, ...]
    fused: tuple[tuple[str, int], ...]  # ATen op and how often, the first first

    @property
    def first(self) -> Kernel:
        """The member that stands for all."""
        return self.kernels[0]

    @property
    def op_count(self) -> int:
        """How many ops one of these kernels computes."""
        return fused_op_count(self.first)

    @property
    def launches(self) -> int:
        """How often the output code calls one of these, all members together."""
        return sum(len(k.launches) for k in self.kernels)

    @property
    def parts(self) -> tuple[Pass, ...]:
        """The passes that its members belong to."""
        return tuple(dict.fromkeys(k.part for k in self.kernels))


@dataclass(frozen=True, slots=True)
class KernelRow:
    """Kernels that compute the same, with all their launches and what these come from."""

    group: KernelGroup
    lineages: tuple[Lineage, ...]  # those asked for
    bytes: int | None  # that they read and write in one call, None where a size is not known
    microseconds: float | None  # in one call, measured; None without a profile

    @property
    def launches(self) -> int:
        """How many launches are meant."""
        return sum(1 if one.launch is not None else len(one.kernel.launches) for one in self.lineages)


def fused_op_count(kernel: Kernel) -> int:
    """How many ops one launch of a kernel computes: post-grad nodes if known, else the ATen ops named in its text."""
    return max((len(launch.nodes) for launch in kernel.launches), default=0) or len(kernel.nodes) or len(kernel.aten)


def is_generated(kernel: Kernel) -> bool:
    """Whether Inductor wrote the kernel, or filled in a template: only such a kernel fuses anything."""
    return kernel.kind not in {KernelKind.EXTERN, KernelKind.FALLBACK}


def kernel_groups(kernels: Iterable[Kernel]) -> tuple[KernelGroup, ...]:
    """All kernels, those that compute the same in one group; the one that fuses most first."""
    groups: dict[tuple[object, ...], list[Kernel]] = {}
    for kernel in kernels:
        # An extern kernel without known nodes has nothing but its name to be told apart by.
        what = (fused_op_count(kernel), kernel.aten) if kernel.aten or kernel.nodes else kernel.name
        groups.setdefault((kernel.kind, kernel.shape, kernel.part, what), []).append(kernel)
    made = (KernelGroup(tuple(g), tuple(Counter(g[0].aten).items())) for g in groups.values())
    return tuple(sorted(made, key=lambda g: (-g.op_count, -len(g.first.source), g.first.name)))


def kernel_rows(recording: Recording, lineages: Sequence[Lineage]) -> tuple[KernelRow, ...]:
    """The kernels of some launches: by time where that was measured, else the one that fuses most first."""
    own = {id(members[0].kernel): members for members in by_kernel(lineages)}
    times = launch_times(recording)
    rows = []
    for group in kernel_groups(members[0].kernel for members in own.values()):
        meant = [lineage for kernel in group.kernels for lineage in own[id(kernel)]]
        rows.append(KernelRow(group, tuple(meant), moved_bytes(meant), measured(meant, times)))
    return tuple(sorted(rows, key=_rank))


def _rank(row: KernelRow) -> tuple[float, bool, int, str]:
    return -(row.microseconds or 0.0), not is_generated(row.group.first), -row.group.op_count, row.group.first.name


def launch_times(recording: Recording) -> Mapping[tuple[object, ...], LaunchTime]:
    """What the latest profile measured, by launch."""
    launches = recording.profiles[-1].launches if recording.profiles else ()
    return {(t.compile_id, t.part, t.ordinal, t.kernel, t.launch): t for t in launches}


def measured(lineages: Iterable[Lineage], times: Mapping[tuple[object, ...], LaunchTime]) -> float | None:
    """How many microseconds of one call these launches take; None if none of them was measured."""
    found = []
    for one in lineages:
        k = one.kernel
        numbers = range(len(k.launches)) if one.launch is None else (one.launch,)
        found += [times.get((k.compile_id, k.part, k.ordinal, k.name, number)) for number in numbers]
    known = [time.microseconds * time.runs for time in found if time is not None]
    return sum(known) if known else None


def moved_bytes(lineages: Iterable[Lineage]) -> int | None:
    """How much memory these launches read and write; None where that is not known of all of them."""
    total = 0
    for one in lineages:
        for launch in one.kernel.launches if one.launch is None else (one.kernel.launches[one.launch],):
            size = accessed(launch.reads + launch.writes)
            if size is None:
                return None
            total += size
    return total


def accessed(accesses: Collection[BufferAccess]) -> int | None:
    """The bytes of some accesses together, None if there are none or one is of unknown size."""
    sizes = [access.bytes for access in accesses]
    known = [size for size in sizes if size is not None]
    return sum(known) if sizes and len(known) == len(sizes) else None


def selected_lineages(recording: Recording, provenance: Provenance, kernels: Iterable[Kernel]) -> tuple[Lineage, ...]:
    """The launches of some kernels of the recording."""
    wanted = {id(kernel) for kernel in kernels}
    return tuple(
        lineage
        for index, kernel in enumerate(recording.kernels)
        if id(kernel) in wanted
        for lineage in provenance.of_kernel(index)
    )


def by_kernel(lineages: Iterable[Lineage]) -> tuple[tuple[Lineage, ...], ...]:
    """The launches of each kernel."""
    found: dict[int, list[Lineage]] = defaultdict(list)
    for lineage in lineages:
        found[lineage.index].append(lineage)
    return tuple(map(tuple, found.values()))


def kernel_kinds(kernels: Iterable[Kernel]) -> tuple[tuple[KernelKind, int], ...]:
    """How many kernels of each kind, the most frequent first."""
    return tuple(Counter(k.kind for k in kernels).most_common())


def launch_count(kernels: Iterable[Kernel]) -> int:
    """How many kernel calls the output codes hold in all."""
    return sum(len(k.launches) for k in kernels)


def cudagraph_states(outcomes: Iterable[CudagraphOutcome]) -> Mapping[CudagraphState, int]:
    """How many compiled graphs ended in which state, where CUDA graphs were asked for."""
    return Counter(o.state for o in outcomes if o.state is not CudagraphState.NOT_REQUESTED)


def autotune_winners(results: Iterable[AutotuneResult]) -> Mapping[KernelKind, int]:
    """How many tuned ops went to which kind of kernel."""
    return Counter(r.winner.kind for r in results if r.winner)
