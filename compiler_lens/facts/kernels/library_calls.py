"""Calls of libraries: why there is one, what it computes, and which kernels only make its inputs ready.

Inductor counts such a kernel to the same op as the call.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from compiler_lens.facts.kernels.kernels import is_generated
from compiler_lens.facts.kernels.lineage import Lineage, is_view
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


@dataclass(frozen=True, slots=True)
class Help:
    """What a generated launch does for a later call of a library whose op it has too."""

    call: Kernel
    whole: bool  # it has no other op: it is a copy into the layout that the library wants


def library_of(kernel: Kernel, tuned: Mapping[CompileId, frozenset[str]]) -> Library | None:
    """Why a kernel is not one of Inductor's own; None for one that is."""
    if kernel.kind not in (KernelKind.EXTERN, KernelKind.FALLBACK):
        return None
    called = kernel.name.split(".")[1:]  # "extern_kernels.mm", "torch.ops.aten.topk.default"
    if tuned.get(kernel.compile_id, frozenset()).intersection(called):
        return Library.CHOSEN
    if kernel.name.startswith("Tensor."):
        return Library.COPY
    # A fallback is called by its op's name; a library's function may have a name that says nothing.
    told = (".".join(called), " ".join(kernel.aten) if kernel.kind is KernelKind.EXTERN else "")
    known = (library for text in told for pattern, library in _LIBRARIES if pattern.search(text))
    return next(known, Library.NO_LOWERING)


_LIBRARIES: tuple[tuple[re.Pattern[str], Library], ...] = (
    (re.compile(r"attention"), Library.ATTENTION),
    (re.compile(r"convolution|conv[123]d"), Library.CONVOLUTION),
    (re.compile(r"mm(?![a-z])|matmul|linear|\b(?:add)?mv\b|\bdot\b"), Library.PRODUCT),
)


def helps(lineages: Iterable[Lineage]) -> Mapping[LaunchId | KernelId, Help]:
    """The launches that have an op of a library's call, with the first such call of each."""
    every = tuple(lineages)
    calls: dict[tuple[CodeId, str], Lineage] = {}
    for one in every:
        if not is_generated(one.kernel) and one.called is not None:
            for name in _called(one):
                calls.setdefault((one.kernel.code_id, name), one)
    found: dict[LaunchId | KernelId, Help] = {}
    for one in every:
        names = _called(one) if is_generated(one.kernel) and one.kernel.kind is not KernelKind.TEMPLATE else []
        theirs = [call for name in names if (call := calls.get((one.kernel.code_id, name))) is not None]
        if theirs and _line(one) < _line(theirs[0]):
            whole = len(theirs) == sum(not traced.is_view for traced in one.nodes)
            found[one.id] = Help(theirs[0].kernel, whole)
    return found


def computed_ops(lineages: Iterable[Lineage]) -> tuple[str, ...]:
    """The ATen ops of calls of a library: of all that is counted to one, what it is called for."""
    nodes = [(s.name in names, s.node) for one in lineages for names in (_called(one),) for s in one.nodes if s.node]
    own = [node for called, node in nodes if called] or [node for _, node in nodes]
    return tuple(dict.fromkeys(_op(node.target) for node in own if not is_view(node.target)))


def _line(lineage: Lineage) -> int:
    return lineage.called.line if lineage.called is not None else 0


def _called(lineage: Lineage) -> list[str]:
    return [traced.name for traced in lineage.nodes if traced.node and _op(traced.node.target) in _LIBRARY_OPS]


def _op(target: str) -> str:
    return ".".join(target.removeprefix("torch.ops.").split(".")[:2])
