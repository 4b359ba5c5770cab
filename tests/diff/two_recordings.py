"""Recordings to compare, and what is done to them."""

import random
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens import load
from compiler_lens.facts.compare import diff
from compiler_lens.facts.compare.model import NodeChange, RecordingDiff, Verdict
from compiler_lens.recording.model import CompileId, Graph, Kernel, Node, Recording, SourceLine

HERE = Path(__file__).parent
GPU = HERE.parent / "gpu" / "data"
CPU = HERE / "data"
GPU_JOURNALS = tuple(sorted(path.name.removesuffix(".clens.gz") for path in GPU.glob("*.clens.gz")))
CPU_JOURNALS = tuple(sorted(path.name.removesuffix(".clens.gz") for path in CPU.glob("*.clens.gz")))


@cache
def gpu(name: str) -> Recording:
    return load(GPU / (name if "." in name else f"{name}.clens.gz"), strict=True)


@cache
def cpu(name: str) -> Recording:
    return load(CPU / f"{name}.clens.gz", strict=True)


@cache
def compared(before: str, after: str) -> RecordingDiff:
    """Of two recordings made on the CPU."""
    return diff(cpu(before), cpu(after))


# -- mirrored

_OTHER = {Verdict.ADDED: Verdict.REMOVED, Verdict.REMOVED: Verdict.ADDED}
_OTHER |= {Verdict.SPLIT: Verdict.MERGED, Verdict.MERGED: Verdict.SPLIT}
_FIELDS = {"before": "after", "before_spread": "after_spread", "outcome_before": "outcome_after"}
_FIELDS |= {"before_runs": "after_runs"}
_FIELDS |= {after: before for before, after in _FIELDS.items()}


def mirrored(value: Any) -> Any:
    """A diff, or a part of one, with its sides swapped."""
    if isinstance(value, tuple):
        return tuple(map(mirrored, value))
    if isinstance(value, Verdict):
        return _OTHER.get(value, value)
    if type(value).__module__ != RecordingDiff.__module__ or not isinstance(value, Struct):
        return value
    fields = {name: getattr(value, _FIELDS.get(name, name)) for name in value.__struct_fields__}
    if isinstance(value, NodeChange):
        fields["nodes"] = tuple((after, before) for before, after in value.nodes)
    return type(value)(**{name: mirrored(one) for name, one in fields.items()})


def without_labels(d: RecordingDiff) -> RecordingDiff:
    """Without what names one side only because there is nothing else to show: a function's name, a line."""
    graphs = tuple(
        replace(g, function="", nodes=tuple(replace(n, module="", line=None) for n in g.nodes)) for g in d.graphs
    )
    return replace(
        d,
        graphs=graphs,
        breaks=tuple(replace(b, place=None) for b in d.breaks),
        cudagraphs=tuple(replace(c, function="") for c in d.cudagraphs),
    )


# -- renumbered

_BUFFER = re.compile(r"\b(buf|primals_|tangents_|arg)(\d+)")
_WORD = re.compile(r"[A-Za-z_]\w*")


def renumbered(recording: Recording, seed: int = 0) -> Recording:
    """The same compiling under other names, numbers, ids, lines and paths, its kernels and launches in another order."""
    chance = random.Random(seed)
    kernels = [_kernel(kernel, chance) for kernel in recording.kernels]
    chance.shuffle(kernels)
    return replace(
        recording,
        kernels=tuple(kernels),
        graphs=tuple(_graph(graph) for graph in recording.graphs),
        compilations=tuple(
            replace(c, compile_id=_id(c.compile_id), file=f"/elsewhere{c.file}", line=c.line + 100)
            for c in recording.compilations
        ),
        output_codes=tuple(replace(o, compile_id=_id(o.compile_id), path="/other") for o in recording.output_codes),
        autotunes=tuple(replace(a, compile_id=_id(a.compile_id)) for a in recording.autotunes),
        cudagraphs=tuple(replace(c, compile_id=_id(c.compile_id)) for c in recording.cudagraphs),
        graph_breaks=tuple(
            replace(b, compile_id=_id(b.compile_id), user_stack=tuple(map(_line, b.user_stack)))
            for b in recording.graph_breaks
        ),
        recompiles=tuple(replace(r, compile_id=_id(r.compile_id)) for r in recording.recompiles),
    )


def _id(compile_id: CompileId) -> CompileId:
    return replace(compile_id, frame=None if compile_id.frame is None else compile_id.frame + 7)


def _line(line: SourceLine) -> SourceLine:
    return replace(line, file=f"/elsewhere{line.file}", line=line.line + 100)


def _buffers(text: str) -> str:
    return _BUFFER.sub(lambda found: f"{found[1]}{int(found[2]) + 300}", text)


def _kernel(kernel: Kernel, chance: random.Random) -> Kernel:
    name = re.sub(r"_(\d+)$", lambda found: f"_{int(found[1]) + 50}", kernel.name)
    launches = [
        replace(
            launch,
            line=chance.randrange(10_000),
            arguments=tuple(map(_buffers, launch.arguments)),
            nodes=tuple(f"n_{node}" for node in launch.nodes),
        )
        for launch in kernel.launches
    ]
    return replace(
        kernel,
        compile_id=_id(kernel.compile_id),
        name=name,
        source=_buffers(kernel.source.replace(kernel.name, name)),
        nodes=tuple(f"n_{node}" for node in kernel.nodes),
        launches=tuple(launches),
    )


def _graph(graph: Graph) -> Graph:
    names = {node.name for node in graph.nodes}
    return replace(graph, compile_id=_id(graph.compile_id), nodes=tuple(_node(node, names) for node in graph.nodes))


def _node(node: Node, names: set[str]) -> Node:
    def renamed(found: re.Match[str]) -> str:
        return f"n_{found[0]}" if found[0] in names else found[0]

    return replace(
        node,
        name=f"n_{node.name}",
        inputs=tuple(f"n_{name}" for name in node.inputs),
        arguments=_WORD.sub(renamed, node.arguments),
        source=tuple(replace(at, file=f"/elsewhere{at.file}", line=at.line + 100) for at in node.source),
    )


def edited(recording: Recording, change: Callable[[Node], Node]) -> Recording:
    """The recording with nodes of its graphs changed."""
    graphs = tuple(replace(graph, nodes=tuple(map(change, graph.nodes))) for graph in recording.graphs)
    return replace(recording, graphs=graphs)
