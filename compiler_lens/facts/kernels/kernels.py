"""Kernels in figures: by kind, what each fuses, where it comes from, what it moves and takes; those alike folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from msgspec import Struct, field
from msgspec.structs import asdict, replace

from compiler_lens.facts.kernels.launch_costs import LaunchCost, doubts, is_usable, launch_costs
from compiler_lens.facts.kernels.launch_work import Traffic, Work, launch_traffic, launch_work
from compiler_lens.facts.kernels.lineage import Lineage, bodies, is_generated, is_view
from compiler_lens.facts.kernels.provenance import Provenance
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.ids import POST_GRADS, GraphId, LaunchId
from compiler_lens.recording.model import Graph, Kernel, KernelKind, Recording, SourceLine, Trust

# Of each post-grad graph, the names of the nodes that no kernel computes.
Views = Mapping[GraphId, Collection[str]]
_NO_VIEWS: Views = {}


class KernelGroup(Struct, frozen=True):
    """Kernels of one kind that fuse the same ops: one kernel of the model, compiled as often as it has members."""

    kernels: tuple[Kernel, ...]
    fused: tuple[tuple[str, int], ...]  # ATen op and how often, the first first
    op_count: int  # how many ops one of these kernels computes

    @property
    def first(self) -> Kernel:
        """The member that stands for all."""
        return self.kernels[0]

    @property
    def launches(self) -> int:
        """How often the output code calls one of these, all members together."""
        return launch_count(self.kernels)


def kernel_groups(kernels: Iterable[Kernel], views: Views = _NO_VIEWS) -> tuple[KernelGroup, ...]:
    """Return all kernels, those that compute the same in one group; the one that fuses most first."""
    groups: dict[tuple[object, ...], list[Kernel]] = {}
    for kernel in kernels:
        # An extern kernel without known nodes differs from others by its name alone.
        what = (fused_op_count(kernel, views), kernel.aten) if kernel.aten or kernel.nodes else kernel.name
        groups.setdefault((kernel.kind, kernel.shape, kernel.direction, what), []).append(kernel)
    made: list[KernelGroup] = []
    for group in groups.values():
        fused = tuple(Counter(group[0].aten).items())
        made.append(KernelGroup(tuple(group), fused, fused_op_count(group[0], views)))
    return tuple(sorted(made, key=lambda g: (-g.op_count, -len(g.first.source), g.first.name)))


def fused_op_count(kernel: Kernel, views: Views = _NO_VIEWS) -> int:
    """Return how many ops a launch of a kernel computes: post-grad nodes but for views, else ATen ops of its text."""
    own = views.get(kernel.code_id.graph, ())
    each = [sum(name not in own for name in launch.nodes) for launch in kernel.launches if launch.nodes]
    whole = sum(name not in own for name in kernel.nodes)
    return max(each, default=whole) or len(kernel.aten)


def view_nodes(graphs: Iterable[Graph]) -> Views:
    """Return the nodes of what Inductor lowers that only look at memory in another way: no kernel computes them."""
    found: dict[GraphId, Collection[str]] = {}
    for graph in graphs:
        if graph.stage in POST_GRADS:
            nodes = (node for body in bodies(graph) for node in body.nodes)
            found[graph.id] = {node.name for node in nodes if node.op.startswith("call_") and is_view(node.target)}
    return found


def kernel_kinds(kernels: Iterable[Kernel]) -> tuple[tuple[KernelKind, str, int], ...]:
    """Return how many kernels there are of each kind and `unusual_language`, the most frequent first."""
    counts = Counter((kernel.kind, unusual_language(kernel)) for kernel in kernels)
    return tuple((kind, language, count) for (kind, language), count in counts.most_common())


def unusual_language(kernel: Kernel) -> str:
    """Return the language that a kernel is written in where its kind does not say it: "CUTLASS", "Halide"."""
    return "" if kernel.language in ("", "Triton", "C++") else kernel.language


def launch_count(kernels: Iterable[Kernel]) -> int:
    """Return how many kernels one call of each output code launches in all."""
    return sum(launch.runs for kernel in kernels for launch in kernel.launches)


# -- with their launches


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
        runs = dict(_runs(lineages))
        known = {launch: self.moved[launch] for launch in runs if launch in self.moved}
        if not known or len(known) < len(runs):
            return None
        trust = max((one.trust for one in known.values()), key=(Trust.EXACT, Trust.TEXT).index)
        read, written = (sum(getattr(known[i], name) * runs[i] for i in runs) for name in ("read", "written"))
        return Traffic(read, written, trust)

    def flops(self, lineages: Iterable[Lineage]) -> int | None:
        """Return the operations of the matrix products among these launches; None if there are none."""
        known = [self.work[launch].flops * runs for launch, runs in _runs(lineages) if launch in self.work]
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
            **asdict(kernel),
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
        return sum(runs for _, runs in _runs(self.lineages))


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
    first = row.group.first
    return -(row.facts.microseconds or 0.0), not is_generated(first), -row.group.op_count, first.name


def by_kernel(lineages: Iterable[Lineage]) -> tuple[tuple[Lineage, ...], ...]:
    """Return the launches of each kernel."""
    return tuple(map(tuple, grouped(lineages, lambda lineage: lineage.kernel.id).values()))


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


def _runs(lineages: Iterable[Lineage]) -> Iterator[tuple[LaunchId, int]]:
    """The launches that these are, and how often a call of their graph comes to each."""
    for one in lineages:
        for number in range(len(one.kernel.launches)) if one.launch is None else (one.launch,):
            yield one.kernel.launch_id(number), one.kernel.launches[number].runs
