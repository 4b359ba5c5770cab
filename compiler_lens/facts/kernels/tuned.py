"""Which autotuning decided on a launch: that of its op, on tensors of the same sizes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from compiler_lens.facts.kernels.lineage import Lineage
from compiler_lens.recording.model import (
    AutotuneResult,
    CompileId,
    Direction,
    GraphStage,
    Kernel,
    KernelKind,
    Node,
    Recording,
)

# What autotuning is told of an op's inputs: a bias is as large as the result there, or is left out.
_COMPARED: Mapping[str, slice] = {"addmm": slice(1, 3), "baddbmm": slice(1, 3), "convolution": slice(0, 2)}
_EVERY = slice(None)
_CHOSEN = frozenset((KernelKind.TEMPLATE, KernelKind.EXTERN, KernelKind.FALLBACK))
_LOWERED: Mapping[GraphStage, bool] = {GraphStage.POST_GRAD: False, GraphStage.POST_GRAD_BACKWARD: True}
_SIZES = re.compile(r"\[([^\]]*)\]")

_Sizes = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Tuned:
    """The results of a recording, to be asked for by launch."""

    results: Mapping[tuple[CompileId, str, _Sizes], Sequence[AutotuneResult]]
    nodes: Mapping[tuple[CompileId, bool, int, str], Node]

    @classmethod
    def of(cls, recording: Recording) -> Tuned:
        """Of a recording."""
        results: defaultdict[tuple[CompileId, str, _Sizes], list[AutotuneResult]] = defaultdict(list)
        for one in recording.autotunes:
            sizes = tuple(found[1] if (found := _SIZES.search(text)) else "" for text in one.inputs)
            results[one.compile_id, one.op, sizes[_COMPARED.get(one.op, _EVERY)]].append(one)
        lowered = [graph for graph in recording.graphs if graph.stage in _LOWERED] if results else []
        nodes = {(g.compile_id, _LOWERED[g.stage], g.ordinal, node.name): node for g in lowered for node in g.nodes}
        return cls(results, nodes)

    def result(self, lineages: Iterable[Lineage]) -> AutotuneResult | None:
        """What was tried for these launches; None where nothing was, or where it may be one of several."""
        found = [one for lineage in lineages for one in self._results(lineage)]
        return found[0] if found and all(one is found[0] for one in found) else None

    def others(self, lineage: Lineage) -> Iterable[AutotuneResult]:
        """What was tried for a launch of another kind than all that won there."""
        found = tuple(self._results(lineage))
        is_template = lineage.kernel.kind is KernelKind.TEMPLATE
        won = [(one.winner.kind is KernelKind.TEMPLATE) for one in found if one.winner]
        return found if won and is_template not in won else ()

    def _results(self, lineage: Lineage) -> Iterable[AutotuneResult]:
        kernel = lineage.kernel
        if kernel.kind not in _CHOSEN:  # torch counts a product's node to the kernels round it, too
            return
        for node in (strand.node for strand in lineage.strands if strand.node):
            op = node.target.removeprefix("torch.ops.aten.").partition(".")[0]
            program = kernel.compile_id, kernel.direction is Direction.BACKWARD, kernel.ordinal
            inputs = [self.nodes.get((*program, name)) for name in node.inputs][_COMPARED.get(op, _EVERY)]
            sizes = tuple(", ".join(map(str, one.specs[0].shape)) if one and one.specs else "?" for one in inputs)
            yield from self.results.get((kernel.compile_id, op, sizes), ())


@dataclass(frozen=True, slots=True)
class Otherwise:
    """Launches of another kind than what won for them: a library's, a template."""

    launches: int
    kernels: tuple[str, ...]  # their names
    kind: KernelKind


def run_otherwise(recording: Recording, lineages: Iterable[Lineage]) -> Mapping[int, Otherwise]:
    """By `id` of each result, the launches of it that are no such kernel as won.

    With `benchmark_epilogue_fusion` torch (2.11 to 2.15, `MultiTemplateBuffer` in torch/_inductor/ir.py) keeps all
    choices until the scheduler asks what may be fused into them, and then times the fused ones against the winner.
    """
    tuned = Tuned.of(recording)
    found: defaultdict[int, list[Kernel]] = defaultdict(list)
    for lineage in lineages if recording.autotunes else ():
        for result in tuned.others(lineage):
            found[id(result)].append(lineage.kernel)
    return {
        result: Otherwise(len(kernels), tuple(dict.fromkeys(one.name for one in kernels)), kernels[0].kind)
        for result, kernels in found.items()
    }
