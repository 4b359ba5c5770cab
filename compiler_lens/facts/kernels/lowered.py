"""The graphs that Inductor lowers: which of them a launch is of, and what each of their nodes comes from."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.facts.kernels.lineage import NodeProvenance, Origin, Role, is_view
from compiler_lens.facts.kernels.origins import Origins
from compiler_lens.recording.ids import CodeId, GraphId
from compiler_lens.recording.model import CompileId, Direction, Graph, Kernel, Node, Recording, Subgraph, Trust

_DEF = re.compile(r"\s*def (\w+)\(")

# Of a value that feeds half the graph, a constant say, nothing is learned by naming all that it feeds.
_MOST_FED = 8


@dataclass(frozen=True, slots=True)
class Scope:
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
        self._functions: dict[CodeId, tuple[list[int], list[str]]] = {}
        self._traced: dict[tuple[GraphId, str, str, Direction, Trust], NodeProvenance] = {}

    def traced(self, scope: Scope, name: str, kernel: Kernel, known: Trust) -> NodeProvenance:
        """Return a node followed back, made once: a reduction of many layers has thousands of nodes more than once."""
        key = (scope.graph, scope.name, name, kernel.direction, known)
        if key not in self._traced:
            self._traced[key] = self._followed(scope, scope.nodes[name], kernel, known)
        return self._traced[key]

    def of(self, kernel: Kernel) -> tuple[Scope, ...]:
        """The graph of a kernel, then those inside of it."""
        key = kernel.code_id
        if key not in self._made:
            graph, before = self.graphs.get(key.graph), self.graphs.get(key.traced)
            self._made[key] = tuple(self._scopes(graph, before)) if graph else ()
        return self._made[key]

    def of_launch(self, kernel: Kernel, number: int | None, names: Sequence[str]) -> tuple[Scope | None, bool]:
        """The graph that a launch's nodes are of, and whether that is sure: inner graphs use the outer one's names."""
        scopes = self.of(kernel)
        if len(scopes) <= 1:
            return (scopes[0] if scopes else None), True
        within = "" if number is None else self._function(kernel, kernel.launches[number].line)
        told = next((scope for scope in scopes if within and scope.name == within), None)
        return (told, True) if told else _fitting(kernel, names, scopes)

    def _function(self, kernel: Kernel, line: int) -> str:
        """The function of the output code that a line is in: an inner graph's has the name of that graph."""
        key = kernel.code_id
        if key not in self._functions:
            code = self.codes[key].code if key in self.codes else ""
            found = [(n, match[1]) for n, text in enumerate(code.split("\n"), 1) if (match := _DEF.match(text))]
            self._functions[key] = [n for n, _ in found], [name for _, name in found]
        starts, names = self._functions[key]
        at = bisect_right(starts, line)
        return names[at - 1] if at else ""

    def _scopes(self, graph: Graph, before: Graph | None) -> Iterator[Scope]:
        known = before.origins if before else Trust.UNKNOWN
        inner = {s.name: s.nodes for s in before.subgraphs} if before else {}
        yield self._scope(graph, Subgraph("", graph.nodes), before.nodes if before else (), known)
        for subgraph in graph.subgraphs:
            yield self._scope(graph, subgraph, inner.get(subgraph.name, ()), known)

    def _scope(self, graph: Graph, subgraph: Subgraph, before: Sequence[Node], known: Trust) -> Scope:
        earlier = {node.name: node for node in before}
        outputs = _outputs(subgraph.nodes, before, earlier)
        nodes = tuple(_with_origins(n, outputs[n.name]) if n.name in outputs else n for n in subgraph.nodes)
        kept = ((node, earlier[node.name]) for node in nodes if node.name in earlier)
        same = {node.name: was for node, was in kept if _same_op(was.target, node.target)}
        exact = frozenset(n.name for n in nodes)
        if graph.origins is not Trust.EXACT:
            # On a hit of the cache alone, the graph's own facts may be missing. FX nodes keep their names.
            exact = frozenset(same if known is Trust.EXACT else ())
            nodes = tuple(_with_origins(n, same[n.name]) if n.name in exact else n for n in nodes)
        fed = self._fed(graph.compile_id, nodes)
        return Scope(graph.id, subgraph.name, {n.name: n for n in nodes}, frozenset(same), exact, fed)

    def _fed(self, compile_id: CompileId, nodes: Sequence[Node]) -> Mapping[str, tuple[Origin, ...]]:
        """For nodes without an origin of their own: those of the nodes that their values go to."""
        fed: dict[str, dict[int, Origin] | None] = {}
        for node in reversed(nodes):
            if node.op != "output":
                own = {origin.number: origin for origin in self.own(compile_id, node)}
                # Through the sums of gradients of a residual stream every layer feeds all below it.
                passed = own or ({} if _adds_gradients(node) else fed.get(node.name, {}))
                for name in node.inputs:
                    fed[name] = _merged(fed.get(name, {}), passed)
        return {name: tuple(at.values()) for name, at in fed.items() if at}

    def own(self, compile_id: CompileId, node: Node) -> tuple[Origin, ...]:
        """What a node comes from by its own word."""
        named = (self.origins.named(compile_id, name) for name in node.origins)
        found = tuple(origin for origin in named if origin is not None)
        if found or not node.source or not node.op.startswith("call_") or (node.backward and not node.origins):
            return found  # the line above a sum of gradients is that of whatever autograd recorded last
        return (self.origins.of_line(compile_id, node),)

    def _followed(self, scope: Scope, node: Node, kernel: Kernel, known: Trust) -> NodeProvenance:
        aten = node.name if node.name in scope.aten else ""
        origins = self.own(kernel.compile_id, node)
        role = _role(node, kernel.direction)
        if not origins and node.op.startswith("call_"):
            origins, role = scope.fed.get(node.name, ()), Role.FEEDS if scope.fed.get(node.name) else role
        trust = self._trust(kernel.compile_id, origins, known, exact=node.name in scope.exact)
        return NodeProvenance(node.name, node, aten, origins, role, trust)

    def _trust(self, compile_id: CompileId, origins: Sequence[Origin], known: Trust, *, exact: bool) -> Trust:
        if not origins or known is Trust.UNKNOWN:
            return Trust.UNKNOWN
        links = (known, self.origins.trust.get(compile_id, Trust.TEXT))
        exact = exact and all(link is Trust.EXACT for link in links) and all(origin.name for origin in origins)
        return Trust.EXACT if exact else Trust.TEXT


def _merged(one: dict[int, Origin] | None, other: dict[int, Origin] | None) -> dict[int, Origin] | None:
    """Both; None where they are too many."""
    both = None if one is None or other is None else {**one, **other}
    return None if both is None or len(both) > _MOST_FED else both


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
    """What a pass put in place of an output, without an origin: that output is still the same value."""
    now, then = ([node for node in each if node.op == "output"] for each in (nodes, before))
    if not now or not then or len(now[0].inputs) != len(then[0].inputs):
        return {}
    lost = {node.name for node in nodes if node.op.startswith("call_") and not node.origins and not node.source}
    slots = zip(now[0].inputs, then[0].inputs, strict=True)
    return {name: earlier[was] for name, was in slots if name in lost and name not in earlier and was in earlier}


def _adds_gradients(node: Node) -> bool:
    return node.backward and not node.origins and node.target == "torch.ops.aten.add.Tensor"


def _same_op(before: str, after: str) -> bool:
    return before == after or (is_view(before) and is_view(after))  # Inductor makes every view a reshape, in place


def _role(node: Node, direction: Direction) -> Role:
    if node.backward:
        return Role.DIFFERENTIATES
    return Role.RECOMPUTES if direction is Direction.BACKWARD else Role.COMPUTES


def _fitting(kernel: Kernel, names: Sequence[str], scopes: Sequence[Scope]) -> tuple[Scope | None, bool]:
    most = max(sum(name in scope.nodes for name in names) for scope in scopes)
    found = [scope for scope in scopes if most and sum(name in scope.nodes for name in names) == most]
    if len(found) == 1:
        return found[0], True
    fitting = [scope for scope in found if _aten(scope, names) == set(kernel.aten)]
    return (fitting[0], False) if len(fitting) == 1 else (None, False)


def _aten(scope: Scope, names: Iterable[str]) -> set[str]:
    ops = (scope.nodes[name].original_aten for name in names if name in scope.nodes)
    return {".".join(op.split(".")[:2]) for op in ops}
