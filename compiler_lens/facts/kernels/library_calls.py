"""Calls of libraries: why there is one, what it computes, and which kernels only make its inputs ready.

Inductor counts such a kernel to the same op as the call.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from msgspec import Struct

from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.facts.kernels.lineage import Lineage, NodeProvenance, op_packet
from compiler_lens.recording.ids import CodeId, CompileId, KernelId, LaunchId
from compiler_lens.recording.model import Kernel, KernelKind

# Ops that Inductor gives to a library or fills into a template: no other kernel of its own computes them.
_LIBRARY_OPS = frozenset(
    ("aten.convolution", "aten.convolution_backward", "aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")
)


class Library(Enum):
    """Why a launch is the call of something that Inductor did not write."""

    PRODUCT = "matrix product"
    CONVOLUTION = "convolution"
    ATTENTION = "attention"
    CHOSEN = "chosen by autotuning"  # among kernels that Inductor can write, and this was the fastest
    COPY = "copy"  # plain work on a tensor, between devices as a rule
    NO_LOWERING = "no lowering"  # an op that Inductor calls as it is


class Help(Struct, frozen=True):
    """What a generated launch does for a later call of a library whose op it has too."""

    call: Kernel
    whole: bool  # it has no other op: it is a copy into the layout that the library wants


_LIBRARIES: tuple[tuple[re.Pattern[str], Library], ...] = (
    (re.compile(r"attention"), Library.ATTENTION),
    (re.compile(r"convolution|conv[123]d"), Library.CONVOLUTION),
    (re.compile(r"mm(?![a-z])|matmul|linear|\b(?:add)?mv\b|\bdot\b"), Library.PRODUCT),
)


def library_of(kernel: Kernel, won: Mapping[CompileId, Collection[str]]) -> Library | None:
    """Return why a kernel is not one of Inductor's own; None for one that is.

    `won` has the ops for which a library's kernel won against Inductor's.
    """
    if is_generated(kernel):
        return None
    called = kernel.name.split(".")[1:]  # "extern_kernels.mm", "torch.ops.aten.topk.default"
    if not set(called).isdisjoint(won.get(kernel.compile_id, ())):
        return Library.CHOSEN
    if kernel.name.startswith("Tensor."):
        return Library.COPY
    # A fallback is called by its op's name; a library's function may have a name that says nothing.
    for text in (".".join(called), " ".join(kernel.aten) if kernel.kind is KernelKind.EXTERN else ""):
        for pattern, library in _LIBRARIES:
            if pattern.search(text):
                return library
    return Library.NO_LOWERING


def helps(lineages: Iterable[Lineage]) -> Mapping[LaunchId | KernelId, Help]:
    """Return the launches that have an op of a library's call, with the first such call of each."""
    generated: list[Lineage] = []
    calls: dict[tuple[CodeId, str], Lineage] = {}
    for one in lineages:
        if is_generated(one.kernel):
            generated.append(one)
        elif one.called is not None:
            for node in _library_nodes(one):
                calls.setdefault((one.kernel.code_id, node.name), one)
    found: dict[LaunchId | KernelId, Help] = {}
    for one in generated:
        if one.kernel.kind is KernelKind.TEMPLATE:
            continue
        served = [calls.get((one.kernel.code_id, node.name)) for node in _library_nodes(one)]
        theirs = [call for call in served if call is not None]
        if theirs and _line(one) < _line(theirs[0]):
            whole = len(theirs) == sum(not node.is_view for node in one.nodes)
            found[one.id] = Help(theirs[0].kernel, whole)
    return found


def computed_ops(lineages: Iterable[Lineage]) -> tuple[str, ...]:
    """Return the ATen ops of calls of a library: of all that is counted to one, what it is called for."""
    lineages = tuple(lineages)
    nodes = [node for one in lineages for node in _library_nodes(one)]
    nodes = nodes or [node for one in lineages for node in one.nodes]
    return tuple(dict.fromkeys(op_packet(node.node.target) for node in nodes if node.node and not node.is_view))


def _line(lineage: Lineage) -> int:
    return lineage.called.line if lineage.called is not None else 0


def _library_nodes(lineage: Lineage) -> list[NodeProvenance]:
    return [node for node in lineage.nodes if node.node and op_packet(node.node.target) in _LIBRARY_OPS]
