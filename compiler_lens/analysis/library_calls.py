"""What a library's call computes, and the kernels that only work for it: Inductor counts these to the same op."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from compiler_lens.analysis.kernels import is_generated
from compiler_lens.analysis.lineage import Lineage, is_view
from compiler_lens.model import CompileId, Kernel, KernelKind, Pass

# Ops that Inductor gives to a library or fills into a template: no other kernel of its own computes them.
_LIBRARY_OPS = frozenset(
    ("aten.convolution", "aten.convolution_backward", "aten.mm", "aten.addmm", "aten.bmm", "aten.baddbmm")
)

# A kernel's place in `Recording.kernels` and the launch's number.
Spot = tuple[int, int | None]


@dataclass(frozen=True, slots=True)
class Help:
    """What a generated launch does for a later call of a library whose op it has too."""

    call: Kernel
    whole: bool  # it has no other op: it is a copy into the layout that the library wants


def helps(lineages: Iterable[Lineage]) -> Mapping[Spot, Help]:
    """The launches that have an op of a library's call, with the first such call of each."""
    every = tuple(lineages)
    calls: dict[tuple[CompileId, bool, int, str], Lineage] = {}
    for one in every:
        if not is_generated(one.kernel) and one.called is not None:
            for name in _called(one):
                calls.setdefault((*_program(one.kernel), name), one)
    found: dict[Spot, Help] = {}
    for one in every:
        names = _called(one) if is_generated(one.kernel) and one.kernel.kind is not KernelKind.TEMPLATE else []
        theirs = [call for name in names if (call := calls.get((*_program(one.kernel), name))) is not None]
        if theirs and _line(one) < _line(theirs[0]):
            whole = len(theirs) == sum(not strand.is_view for strand in one.strands)
            found[one.index, one.launch] = Help(theirs[0].kernel, whole)
    return found


def computed_ops(lineages: Iterable[Lineage]) -> tuple[str, ...]:
    """The ATen ops of calls of a library: of all that is counted to one, what it is called for."""
    nodes = [(s.name in names, s.node) for one in lineages for names in (_called(one),) for s in one.strands if s.node]
    own = [node for called, node in nodes if called] or [node for _, node in nodes]
    return tuple(dict.fromkeys(_op(node.target) for node in own if not is_view(node.target)))


def _line(lineage: Lineage) -> int:
    return lineage.called.line if lineage.called is not None else 0


def _called(lineage: Lineage) -> list[str]:
    return [strand.name for strand in lineage.strands if strand.node and _op(strand.node.target) in _LIBRARY_OPS]


def _op(target: str) -> str:
    return ".".join(target.removeprefix("torch.ops.").split(".")[:2])


def _program(kernel: Kernel) -> tuple[CompileId, bool, int]:
    return kernel.compile_id, kernel.part is Pass.BACKWARD, kernel.ordinal
