"""Which nodes a launch computes, of all that torch counts to it.

Inductor passes origins on: a template is also of what converted its weight, the second half of a split sum also of what
went into the first. What a launch reads decides, and rather too few than too many: what is made of partial sums is left
out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from compiler_lens.facts.kernels.lineage import is_view
from compiler_lens.recording.model import BufferAccess, Graph, Launch, Node

_FOLDED = 64  # views of views


def computed(graph: Graph, launches: Sequence[Launch]) -> list[frozenset[str]]:
    """Return for each launch the nodes whose inputs it reads from memory, or makes itself out of what it reads."""
    scene = _Scene(graph, launches)
    return [frozenset(_computed(launch, scene)) for launch in launches]


class _Scene:
    """The nodes of a graph, and what was written of each."""

    def __init__(self, graph: Graph, launches: Sequence[Launch]) -> None:
        self.nodes: Mapping[str, Node] = {node.name: node for node in graph.nodes}
        self.order = {node.name: number for number, node in enumerate(graph.nodes)}
        self._written: dict[str, list[frozenset[str]]] = defaultdict(list)
        users: dict[str, set[str]] = defaultdict(set)
        for node in graph.nodes:
            for name in node.inputs:
                users[name].add(node.name)
        for launch in launches:
            own = set(launch.nodes)
            for name in own & self.nodes.keys():
                if not users[name] <= own:  # what only the launch itself uses is not stored
                    self._written[name].append(_of_size(launch.writes, self.nodes[name]))

    def is_read(self, name: str, read: frozenset[str]) -> bool:
        """Return whether a launch that reads these buffers has a node's result from memory."""
        node = self.nodes.get(name)
        if node is not None and node.op == "placeholder":
            return name in read
        return any(not writes.isdisjoint(read) for writes in self._written.get(name, ()))


def _of_size(writes: Sequence[BufferAccess], node: Node) -> frozenset[str]:
    """Return the buffers that may hold a node's result."""
    sizes = {spec.bytes for spec in node.specs}
    return frozenset(w.name for w in writes if w.bytes is None or None in sizes or w.bytes in sizes)


def _computed(launch: Launch, scene: _Scene) -> Iterator[str]:
    read = frozenset(access.name for access in launch.reads)
    known: dict[str, bool | None] = {}  # None: made of nothing that is in memory, a constant
    for name in sorted((name for name in launch.nodes if name in scene.nodes), key=scene.order.__getitem__):
        inputs = [_has(one, known, scene, read) for one in scene.nodes[name].inputs]
        known[name] = None
        if inputs.count(None) < len(inputs):
            known[name] = False not in inputs
        if known[name]:
            yield name


def _has(name: str, known: Mapping[str, bool | None], scene: _Scene, read: frozenset[str]) -> bool | None:
    """Return whether a launch has an input, computed by itself or read; None for what is not in memory."""
    for _ in range(_FOLDED):
        node = scene.nodes.get(name)
        if node is None or not node.specs or node.op == "get_attr":  # a size, or a constant with a name of its own
            return None
        if known.get(name, False) is not False:
            return known[name]
        if scene.is_read(name, read):
            return True
        if name in known or not is_view(node.target) or not node.inputs:
            return False
        name = node.inputs[0]
    return False
