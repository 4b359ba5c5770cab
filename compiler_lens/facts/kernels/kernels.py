"""Kernels in figures: by kind, and what each fuses; kernels that compute the same, folded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from itertools import chain

from msgspec import Struct

from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.ids import POST_GRADS, GraphId
from compiler_lens.recording.model import (
    AutotuneResult,
    CudagraphOutcome,
    CudagraphState,
    Graph,
    Kernel,
    KernelKind,
)

# Of each post-grad graph, the names of the nodes that no kernel computes.
Views = Mapping[GraphId, Collection[str]]

NO_VIEWS: Views = {}


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
        return sum(len(k.launches) for k in self.kernels)


def fused_op_count(kernel: Kernel, views: Views = NO_VIEWS) -> int:
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
            nodes = chain(graph.nodes, *(subgraph.nodes for subgraph in graph.subgraphs))
            found[graph.id] = {node.name for node in nodes if node.op.startswith("call_") and is_view(node.target)}
    return found


def is_generated(kernel: Kernel) -> bool:
    """Return whether Inductor wrote the kernel, or filled in a template: only such a kernel fuses anything."""
    return not kernel.kind.is_library


def kernel_groups(kernels: Iterable[Kernel], views: Views = NO_VIEWS) -> tuple[KernelGroup, ...]:
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


def kernel_kinds(kernels: Iterable[Kernel]) -> tuple[tuple[KernelKind, str, int], ...]:
    """Return how many kernels there are of each kind and `unusual_language`, the most frequent first."""
    counts = Counter((kernel.kind, unusual_language(kernel)) for kernel in kernels)
    return tuple((kind, language, count) for (kind, language), count in counts.most_common())


def unusual_language(kernel: Kernel) -> str:
    """Return the language that a kernel is written in where its kind does not say it: "CUTLASS", "Halide"."""
    return "" if kernel.language in ("", "Triton", "C++") else kernel.language


def launch_count(kernels: Iterable[Kernel]) -> int:
    """Return how many kernel calls the output codes hold in all."""
    return sum(len(k.launches) for k in kernels)


def cudagraph_states(outcomes: Iterable[CudagraphOutcome]) -> Mapping[CudagraphState, int]:
    """Return how many compiled graphs ended in which state, where CUDA graphs were asked for."""
    return Counter(o.state for o in outcomes if o.state is not CudagraphState.NOT_REQUESTED)


def autotune_winners(results: Iterable[AutotuneResult]) -> Mapping[KernelKind, int]:
    """Return how many tuned ops went to which kind of kernel."""
    return Counter(r.winner.kind for r in results if r.winner)
