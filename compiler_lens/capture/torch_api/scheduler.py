"""Inductor's scheduler: what each of its nodes reads and writes, and why it did not fuse two of them.

Read from what torch has computed already: nothing here asks torch for anything that it counts (`estimate_flops`) or
that it would keep for a later decision.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from msgspec import Struct, field

from compiler_lens.capture.torch_api.places import Place
from compiler_lens.decode.fusion import NO_KERNEL

FUSED = Place(
    "torch._inductor.debug",
    "log_ir_post_fusion",
    "what each launch reads and writes",
    ("nodes",),
    needs=("torch._inductor.scheduler:BaseSchedulerNode.get_read_write_buffer_accesses",),
)
NOT_FUSED = Place(
    "torch._inductor.scheduler",
    "WhyNoFuse.__call__",
    "why two kernels were not fused into one",
    ("self", "reason", "*args"),
)

Sizes = dict[str, int]


class FusedNode(Struct):
    """A node of the scheduler after fusion."""

    ops: list[str]
    kind: str
    reads: Sizes  # bytes by the scheduler's name of a buffer, which changes when it is mutated
    writes: Sizes
    uses: dict[str, None]  # all that it reads, whatever is known of it
    owned: dict[str, None]  # what it defines
    starts: Mapping[str, frozenset[str]] = field(default_factory=dict)  # where in a buffer it begins to read
    joined: Sizes = field(default_factory=dict)  # parts of what it reads, each written by a kernel of its own: a cat

    @property
    def has_kernel(self) -> bool:
        return self.kind not in NO_KERNEL


def names_of_pair(why: Any) -> tuple[str, str]:
    """Return the names of the two nodes that a WhyNoFuse is about."""
    return why.name1, why.name2


def real_names(nodes: Sequence[Any]) -> Mapping[str, str]:
    """Return the name that the output code has for each buffer that is mutated in place.

    The scheduler gives such a buffer a name of its own for each state.
    """
    return dict(nodes[0].scheduler.mutation_real_name) if nodes else {}


def fused_node(node: Any) -> FusedNode:
    """Return what is known of a node of the scheduler."""
    kind = type(node).__name__
    kind = type(node.node).__name__ if kind == "ExternKernelSchedulerNode" else kind
    ops = [part.get_name() for part in node.get_nodes()]
    owned = dict.fromkeys(node.get_buffer_names())
    writes = {dep.name: dep for dep in node.read_writes.writes}
    # A WeakDep orders two nodes, and moves nothing.
    reads = [dep for dep in node.read_writes.reads if type(dep).__name__ != "WeakDep" and dep.name not in writes]
    uses = dict.fromkeys(dep.name for dep in reads)
    if kind in NO_KERNEL:  # torch does not count these
        return FusedNode(ops, kind, {}, {name: _bytes(dep) for name, dep in writes.items()}, uses, owned)
    sizes: Mapping[str, int] = node.get_read_write_buffer_accesses(include_reads=True, include_writes=True)
    touched, starts = _touched(node, reads)
    # Of each input of a template torch counts no more elements than its result has.
    whole = touched if node.is_template() else sizes
    read = {name: min(filter(None, (whole.get(name), touched.get(name))), default=0) for name in uses}
    return FusedNode(ops, kind, read, {name: sizes[name] for name in writes if name in sizes}, uses, owned, starts)


def _touched(node: Any, reads: Sequence[Any]) -> tuple[Sizes, Mapping[str, frozenset[str]]]:
    """What is read of each buffer: bytes, of which torch counts all for a fused node, and the offsets of the reads."""
    sizes: Sizes = defaultdict(int)
    starts: dict[str, set[str]] = defaultdict(set)
    if type(node).__name__ == "ExternKernelSchedulerNode":
        parts = list(filter(None, map(_view, node.node.inputs)))
    else:  # a StarDep is of all of it
        firsts = [dep.index.as_coeff_Add()[0] if type(dep).__name__ == "MemoryDep" else 0 for dep in reads]
        parts = [(dep.name, _bytes(dep), str(first)) for dep, first in zip(reads, firsts, strict=True)]
    for name, size, start in dict.fromkeys(parts) if node.is_template() else parts:  # x @ x.T reads x once
        sizes[name] += size
        starts[name].add(start)
    return sizes, {name: frozenset(each) for name, each in starts.items()}


def _view(view: Any) -> tuple[str, int, str] | None:
    try:
        size = [int(n) if str(n).isdigit() else 0 for n in view.get_size()]  # 0: symbolic, or empty
        return view.get_name(), prod(size) * int(view.get_dtype().itemsize), str(view.get_layout().offset)
    except (AttributeError, NotImplementedError):  # a list, a generator's state, a tuple that another call returned
        return None


def _bytes(dep: Any) -> int:
    try:
        return int(dep.numbytes_hint())
    except KeyError:  # a name that is no buffer; Scheduler.get_dep_size_hint() passes over it too
        return 0
