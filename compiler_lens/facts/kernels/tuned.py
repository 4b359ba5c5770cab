"""Which autotuning decided on a launch: that of its op, on tensors of the same sizes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec import Struct

from compiler_lens.facts.kernels.lineage import Lineage, is_generated
from compiler_lens.recording.ids import POST_GRADS
from compiler_lens.recording.model import AutotuneResult, CompileId, GraphId, Kernel, KernelKind, Node, Recording

# Which of an op's inputs autotuning compares: a bias is as large as the result there, or is left out.
_COMPARED: Mapping[str, slice] = {"addmm": slice(1, 3), "baddbmm": slice(1, 3), "convolution": slice(0, 2)}
_EVERY = slice(None)
_SIZES = re.compile(r"\[([^\[\]]*)\]")

_Sizes = tuple[str, ...]


class Tuned(Struct, frozen=True):
    """The results of a recording, to be asked for by launch."""

    every: tuple[AutotuneResult, ...]
    results: Mapping[tuple[CompileId, str, _Sizes], Sequence[int]]  # where in `every`, by op and sizes
    nodes: Mapping[GraphId, Mapping[str, Node]]  # of the post-grad graphs, by name

    @classmethod
    def of(cls, recording: Recording) -> Tuned:
        """Return the results of a recording."""
        results: defaultdict[tuple[CompileId, str, _Sizes], list[int]] = defaultdict(list)
        for index, one in enumerate(recording.autotunes):
            sizes = tuple(found[1] if (found := _SIZES.search(text)) else "" for text in one.inputs)
            results[one.compile_id, one.op, sizes[_COMPARED.get(one.op, _EVERY)]].append(index)
        lowered = [graph for graph in recording.graphs if graph.stage in POST_GRADS] if results else []
        nodes = {graph.id: {node.name: node for node in graph.nodes} for graph in lowered}
        return cls(recording.autotunes, results, nodes)

    def result(self, lineages: Iterable[Lineage]) -> AutotuneResult | None:
        """Return what was tried for these launches; None where nothing was, or where it may be one of several."""
        found = {index for lineage in lineages for index in self.indices(lineage)}
        return self.every[found.pop()] if len(found) == 1 else None

    def indices(self, lineage: Lineage) -> Iterator[int]:
        """Yield what was tried for ops of a launch, by place in `Recording.autotunes`."""
        kernel = lineage.kernel
        if is_generated(kernel) and kernel.kind is not KernelKind.TEMPLATE:
            return  # torch counts a product's node to the kernels round it, too
        nodes = self.nodes.get(kernel.code_id.graph, {})
        for node in (traced.node for traced in lineage.nodes if traced.node):
            op = node.target.removeprefix("torch.ops.aten.").partition(".")[0]
            sizes = []
            for name in node.inputs[_COMPARED.get(op, _EVERY)]:
                given = nodes.get(name)
                sizes.append(", ".join(map(str, given.specs[0].shape)) if given and given.specs else "?")
            yield from self.results.get((kernel.compile_id, op, tuple(sizes)), ())


class Otherwise(Struct, frozen=True):
    """Launches of another kind than what won for them: a library's, a template."""

    launches: int
    kernels: tuple[str, ...]  # their names
    kind: KernelKind


def run_otherwise(recording: Recording, lineages: Iterable[Lineage]) -> Mapping[int, Otherwise]:
    """Return for each result, by its place in `Recording.autotunes`, its launches that are no such kernel as won.

    With `benchmark_epilogue_fusion` torch (2.11 to 2.15, `MultiTemplateBuffer` in torch/_inductor/ir.py) keeps all
    choices until the scheduler asks what may be fused into them, and then times the fused ones against the winner.
    """
    tuned = Tuned.of(recording)
    found: defaultdict[int, list[Kernel]] = defaultdict(list)
    for lineage in lineages if recording.autotunes else ():
        tried = tuple(tuned.indices(lineage))
        won = {winner.kind is KernelKind.TEMPLATE for index in tried if (winner := tuned.every[index].winner)}
        if won == {lineage.kernel.kind is not KernelKind.TEMPLATE}:
            for index in tried:
                found[index].append(lineage.kernel)
    return {
        index: Otherwise(len(kernels), tuple(dict.fromkeys(one.name for one in kernels)), kernels[0].kind)
        for index, kernels in found.items()
    }
