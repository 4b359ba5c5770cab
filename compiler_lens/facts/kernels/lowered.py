"""The graphs that Inductor lowers: which of them a launch is of, and what each of their nodes comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.lineage import NodeProvenance, Origin, Role, is_view, op_packet
from compiler_lens.facts.kernels.origins import Origins
from compiler_lens.recording.ids import CodeId, GraphId
from compiler_lens.recording.model import CompileId, Direction, Graph, Kernel, Node, Recording, Subgraph, Trust

_DEF = re.compile(r"\s*def (\w+)\(")

# Of a value that feeds half the graph, a constant say, nothing is learned by naming all that it feeds.
_MOST_FED = 8


class Scope(Struct, frozen=True):
    """A post-grad graph, or a graph inside of one: its nodes by name."""

    graph: GraphId
    name: str  # of a graph inside of one; else empty
    nodes: Mapping[str, Node]
    aten: frozenset[str]  # those that the AOT graph has too
    exact: frozenset[str]  # those whose origins are known from live objects
    fed: Mapping[str, tuple[Origin, ...]]


class Scopes:
    """The graphs that kernels' nodes are of."""

    def __init__(self, recording: Recording, origins: Origins) -> None:
        self.graphs = {graph.id: graph for graph in recording.graphs}
        self.codes = {code.id: code for code in recording.output_codes}
        self.origins = origins
        self._made: dict[CodeId, tuple[Scope, ...]] = {}
        self._functions: dict[CodeId, list[tuple[int, str]]] = {}
        self._traced: dict[tuple[GraphId, str, str, Direction, Trust], NodeProvenance] = {}

    def traced(self, scope: Scope, name: str, kernel: Kernel, known: Trust) -> NodeProvenance:
        """Return a node followed back, made once: a reduction of many layers has thousands of nodes more than once."""
        key = (scope.graph, scope.name, name, kernel.direction, known)
        if key not in self._traced:
            self._traced[key] = self._followed(scope, scope.nodes[name], kernel, known)
        return self._traced[key]

    def of(self, kernel: Kernel) -> tuple[Scope, ...]:
        """Return the graph of a kernel, then those inside of it."""
        key = kernel.code_id
        if key not in self._made:
            graph = self.graphs.get(key.graph)
            self._made[key] = tuple(self._scopes(graph, self.graphs.get(key.traced))) if graph else ()
        return self._made[key]

    def _scopes(self, graph: Graph, before: Graph | None) -> Iterator[Scope]:
        known = before.origins if before else Trust.UNKNOWN
        inner = {"": before.nodes} | {s.name: s.nodes for s in before.subgraphs} if before else {}
        for subgraph in (Subgraph("", graph.nodes), *graph.subgraphs):
            yield self._scope(graph, subgraph, inner.get(subgraph.name, ()), known)

    def of_launch(self, kernel: Kernel, number: int | None, names: Sequence[str]) -> tuple[Scope | None, bool]:
        """Return the graph that a launch's nodes are of, and whether that is sure.

        A graph inside of another may use the same names.
        """
        scopes = self.of(kernel)
        if len(scopes) <= 1:
            return (scopes[0] if scopes else None), True
        within = "" if number is None else self._function(kernel.code_id, kernel.launches[number].line)
        for scope in scopes:
            if within and scope.name == within:
                return scope, True
        return _fitting(kernel, names, scopes)

    def _function(self, key: CodeId, line: int) -> str:
        """Return the function of the output code that a line is in: an inner graph's has the name of that graph."""
        if key not in self._functions:
            lines = self.codes[key].code.split("\n") if key in self.codes else ()
            self._functions[key] = [(n, found[1]) for n, text in enumerate(lines, 1) if (found := _DEF.match(text))]
        functions = self._functions[key]
        at = bisect_right(functions, line, key=lambda function: function[0])
        return functions[at - 1][1] if at else ""

    def _scope(self, graph: Graph, subgraph: Subgraph, before: Sequence[Node], known: Trust) -> Scope:
        earlier = {node.name: node for node in before}
        outputs = _outputs(subgraph.nodes, before, earlier)
        nodes = {n.name: _with_origins(n, outputs[n.name]) if n.name in outputs else n for n in subgraph.nodes}
        same: dict[str, Node] = {}
        for name, node in nodes.items():
            was = earlier.get(name)
            # Inductor makes every view a reshape, in place.
            if was is not None and (was.target == node.target or (is_view(was.target) and is_view(node.target))):
                same[name] = was
        exact = frozenset(nodes)
        if graph.origins is not Trust.EXACT:
            # On a hit of the cache alone, the graph's own facts may be missing. FX nodes keep their names.
            exact = frozenset(same if known is Trust.EXACT else ())
            nodes |= {name: _with_origins(nodes[name], same[name]) for name in exact}
        fed = self._fed(graph.compile_id, tuple(nodes.values()))
        return Scope(graph.id, subgraph.name, nodes, frozenset(same), exact, fed)

    def _fed(self, compile_id: CompileId, nodes: Sequence[Node]) -> Mapping[str, tuple[Origin, ...]]:
        """Return for each node the origins of those that its value goes to."""
        fed: dict[str, dict[int, Origin] | None] = {}  # None: too many
        for node in reversed(nodes):
            if node.op == "output":
                continue
            passed: dict[int, Origin] | None = {origin.number: origin for origin in self.own(compile_id, node)}
            # Through the sums of gradients of a residual stream every layer feeds all below it.
            is_sum = node.backward and not node.origins and node.target == "torch.ops.aten.add.Tensor"
            if not passed and not is_sum:
                passed = fed.get(node.name, {})
            for name in node.inputs:
                others = fed.get(name, {})
                both = None if others is None or passed is None else others | passed
                fed[name] = None if both is None or len(both) > _MOST_FED else both
        return {name: tuple(at.values()) for name, at in fed.items() if at}

    def own(self, compile_id: CompileId, node: Node) -> tuple[Origin, ...]:
        """Return what a node comes from by its own word."""
        named = (self.origins.named(compile_id, name) for name in node.origins)
        found = tuple(origin for origin in named if origin is not None)
        if found or not node.source or not node.op.startswith("call_") or (node.backward and not node.origins):
            return found  # the line above a sum of gradients is that of whatever autograd recorded last
        return (self.origins.of_line(compile_id, node),)

    def _followed(self, scope: Scope, node: Node, kernel: Kernel, known: Trust) -> NodeProvenance:
        origins = self.own(kernel.compile_id, node)
        role = Role.RECOMPUTES if kernel.direction is Direction.BACKWARD else Role.COMPUTES
        if node.backward:
            role = Role.DIFFERENTIATES
        if not origins and node.op.startswith("call_") and node.name in scope.fed:
            origins, role = scope.fed[node.name], Role.FEEDS
        links = {known, self.origins.trust.get(kernel.compile_id, Trust.TEXT)}
        trust = Trust.TEXT
        if not origins or known is Trust.UNKNOWN:
            trust = Trust.UNKNOWN
        elif node.name in scope.exact and links == {Trust.EXACT} and all(origin.name for origin in origins):
            trust = Trust.EXACT
        return NodeProvenance(node.name, node, node.name if node.name in scope.aten else "", origins, role, trust)


def _with_origins(node: Node, before: Node) -> Node:
    return replace(
        node,
        origins=before.origins,
        source=before.source,
        module=before.module,
        module_type=before.module_type,
        original_aten=before.original_aten,
        backward=before.backward,
    )


def _outputs(nodes: Sequence[Node], before: Sequence[Node], earlier: Mapping[str, Node]) -> Mapping[str, Node]:
    """Return the outputs that a pass replaced by nodes without an origin: they are still the same values."""
    now, then = ([node for node in each if node.op == "output"] for each in (nodes, before))
    if not now or not then or len(now[0].inputs) != len(then[0].inputs):
        return {}
    lost = {node.name for node in nodes if node.op.startswith("call_") and not node.origins and not node.source}
    slots = zip(now[0].inputs, then[0].inputs, strict=True)
    return {name: earlier[was] for name, was in slots if name in lost and name not in earlier and was in earlier}


def _fitting(kernel: Kernel, names: Sequence[str], scopes: Sequence[Scope]) -> tuple[Scope | None, bool]:
    counts = [sum(name in scope.nodes for name in names) for scope in scopes]
    found = [scope for scope, count in zip(scopes, counts, strict=True) if count and count == max(counts)]
    if len(found) == 1:
        return found[0], True
    fitting = []
    for scope in found:
        ops = {op_packet(scope.nodes[name].original_aten) for name in names if name in scope.nodes}
        if ops == set(kernel.aten):
            fitting.append(scope)
    return (fitting[0], False) if len(fitting) == 1 else (None, False)
