"""Origins of lowered nodes where nothing but the lines above them tells: logs that were written without our hooks.

AOTAutograd runs the Dynamo graph in order, so the nth visit of a line in the one graph is the nth visit in the
other, and autograd goes back through them from the last. Only where the counts differ are a line's visits mixed up.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, repeat

from compiler_lens.recording.model import Node

Place = tuple[str, int]  # file, line
Names = tuple[str, ...]
Visits = dict[Place, list[Names]]

# Of a line that makes a thousand ops we would have to give a thousand origins to each of thousands of nodes.
_MOST = 64


def place_of(node: Node) -> Place | None:
    """The user's line that a node was made on."""
    return (node.source[-1].file, node.source[-1].line) if node.source else None


def program_visits(graphs: Iterable[tuple[str, Sequence[Node]]]) -> Visits:
    """The ops of Dynamo's graphs by line and visit, each graph with the prefix of its nodes' names."""
    visits: Visits = defaultdict(list)
    for prefix, nodes in graphs:
        tensors = {node.name for node in nodes if node.specs}
        ops = [node for node in nodes if node.op.startswith("call_") and not is_bookkeeping(node, tensors)]
        for place, names in _visits(ops).items():
            visits[place] += [tuple(prefix + name for name in visit) for visit in names]
    return visits


def is_bookkeeping(node: Node, tensors: set[str]) -> bool:
    """Whether it only computes a size or takes a tensor out of a tuple: no ATen op comes of that."""
    return node.target.startswith("operator.") and tensors.isdisjoint(node.inputs)


def _visits(nodes: Iterable[Node]) -> Visits:
    visits: Visits = defaultdict(list)
    for place, run in groupby(nodes, place_of):
        if place is not None:
            visits[place].append(tuple(node.name for node in run))
    return visits


def whole_lines(program: Visits) -> Mapping[Place, Names]:
    """All ops of each line, of whichever visit."""
    lines = {place: tuple(name for visit in visits for name in visit) for place, visits in program.items()}
    return {place: names for place, names in lines.items() if len(names) <= _MOST}


def origins_of(nodes: Iterable[Node], gradients: Iterable[Node], program: Visits) -> Mapping[str, Names]:
    """The origins of a graph's ops by name; `gradients` are those that autograd adds, going backwards."""
    origins: dict[str, Names] = {}
    lines = whole_lines(program)
    for ops, step in ((nodes, 1), (gradients, -1)):
        for place, visits in _visits(ops).items():
            known = program.get(place, [])
            told = known[::step] if len(known) == len(visits) else repeat(lines.get(place, ()))
            for names, own in zip(visits, told, strict=False):
                origins.update(dict.fromkeys(names, own if len(own) <= _MOST else ()))
    return origins
