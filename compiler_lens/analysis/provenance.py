"""From a launch to the user's lines and modules, and back: each node that it computes is followed to its origin."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from compiler_lens.analysis.lineage import Lineage, Origin, OriginsAt, Role, Strand, Tie, is_view
from compiler_lens.analysis.origins import Origins
from compiler_lens.analysis.ownership import Ownership
from compiler_lens.model import (
    CompileId,
    Graph,
    GraphStage,
    Kernel,
    Node,
    Pass,
    Recording,
    Trust,
)

# Of a value that feeds half the graph, a constant say, nothing is learned by naming all that it feeds.
_MOST_FED = 8

_LOWERED: Mapping[Pass, tuple[GraphStage, GraphStage]] = {
    Pass.FORWARD: (GraphStage.POST_GRAD, GraphStage.AOT_FORWARD),
    Pass.INFERENCE: (GraphStage.POST_GRAD, GraphStage.AOT_INFERENCE),
    Pass.BACKWARD: (GraphStage.POST_GRAD_BACKWARD, GraphStage.AOT_BACKWARD),
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Every launch with its lineage, and the ways back from the user's program to the launches."""

    lineages: tuple[Lineage, ...]  # launch by launch, in the order of `Recording.kernels`
    origins: tuple[Origin, ...]
    _starts: tuple[int, ...]  # where the lineages of each kernel begin
    _strands: Mapping[int, Sequence[tuple[int, Strand]]]  # an origin's, each with the place of its lineage
    _lines: Mapping[tuple[str, int], Mapping[int, bool]]  # an origin at each line of its stack: is it the innermost
    _modules: Sequence[tuple[str, int]]  # sorted

    @classmethod
    def of(cls, recording: Recording, own: Ownership | None = None) -> Provenance:
        """All of a recording, once."""
        return _built(recording, own or Ownership())

    def of_kernel(self, index: int) -> tuple[Lineage, ...]:
        """The launches of the kernel at this place of `Recording.kernels`, in order; one entry if nobody told them."""
        return self.lineages[self._starts[index] : self._starts[index + 1]]

    def at_line(self, file: str, number: int) -> OriginsAt:
        """The ops of a line."""
        found = self._lines.get((file, number), {})
        return OriginsAt(
            tuple(self.origins[n] for n, direct in found.items() if direct),
            tuple(self.origins[n] for n, direct in found.items() if not direct),
        )

    def in_module(self, path: str) -> OriginsAt:
        """The ops of a module and of all below it."""
        first, last = bisect_left(self._modules, (path, -1)), bisect_left(self._modules, (f"{path}\0", -1))
        below = bisect_left(self._modules, (f"{path}.", -1)), bisect_left(self._modules, (f"{path}/", -1))
        return OriginsAt(
            tuple(self.origins[n] for _, n in self._modules[first:last]),
            tuple(self.origins[n] for _, n in self._modules[slice(*below)]),
        )

    @property
    def modules(self) -> tuple[str, ...]:
        """Every module that an op is directly in, sorted."""
        return tuple(dict.fromkeys(path for path, _ in self._modules))

    def ties(self, origins: Iterable[Origin]) -> tuple[Tie, ...]:
        """The launches that any of these origins led to, in order."""
        found: dict[int, dict[str, Strand]] = defaultdict(dict)
        for origin in origins:
            for place, strand in self._strands.get(origin.number, ()):
                found[place][strand.name] = strand
        return tuple(Tie(self.lineages[place], tuple(found[place].values())) for place in sorted(found))


# -- building


def _built(recording: Recording, own: Ownership) -> Provenance:
    graphs = {(graph.compile_id, graph.stage, graph.ordinal): graph for graph in recording.graphs}
    origins = Origins(own)
    for graph in recording.graphs:
        if graph.stage is GraphStage.DYNAMO:
            origins.add_graph(graph)
    scopes = _Scopes(graphs, origins)
    lineages: list[Lineage] = []
    starts = [0]
    for index, kernel in enumerate(recording.kernels):
        lineages += _lineages(index, kernel, scopes)
        starts.append(len(lineages))
    strands: dict[int, list[tuple[int, Strand]]] = defaultdict(list)
    for place, lineage in enumerate(lineages):
        for strand in lineage.tied:
            for origin in strand.origins:
                strands[origin.number].append((place, strand))
    modules = sorted((origin.module, origin.number) for origin in origins.all if origin.module)
    return Provenance(tuple(lineages), tuple(origins.all), tuple(starts), strands, origins.lines, modules)


@dataclass(frozen=True, slots=True)
class _Scope:
    """A post-grad graph, or a graph inside of one: its nodes by name."""

    nodes: Mapping[str, Node]
    aten: frozenset[str]  # those that the AOT graph has too
    exact: frozenset[str]  # those whose origins are known from live objects
    fed: Mapping[str, tuple[Origin, ...]]


class _Scopes:
    """The graphs that kernels' nodes are of."""

    def __init__(self, graphs: Mapping[tuple[CompileId, GraphStage, int], Graph], origins: Origins) -> None:
        self.graphs = graphs
        self.origins = origins
        self._made: dict[tuple[CompileId, bool, int], tuple[_Scope, ...]] = {}
        self._strands: dict[tuple[int, str, Pass, Trust], Strand] = {}

    def strand(self, scope: _Scope, name: str, kernel: Kernel, known: Trust) -> Strand:
        """The strand of a node, made once: a reduction of many layers has thousands of nodes more than once."""
        key = (id(scope), name, kernel.part, known)
        if key not in self._strands:
            self._strands[key] = self._followed(scope, scope.nodes[name], kernel, known)
        return self._strands[key]

    def of(self, kernel: Kernel) -> tuple[_Scope, ...]:
        """The graph of a kernel, then those inside of it."""
        key = (kernel.compile_id, kernel.part is Pass.BACKWARD, kernel.ordinal)
        if key not in self._made:
            stage, aot = _LOWERED[kernel.part]
            graph = self.graphs.get((kernel.compile_id, stage, kernel.ordinal))
            before = self.graphs.get((kernel.compile_id, aot, kernel.ordinal))
            self._made[key] = tuple(self._scopes(graph, before)) if graph else ()
        return self._made[key]

    def _scopes(self, graph: Graph, before: Graph | None) -> Iterator[_Scope]:
        known = before.origins if before else Trust.UNKNOWN
        inner = {s.name: s.nodes for s in before.subgraphs} if before else {}
        yield self._scope(graph, graph.nodes, before.nodes if before else (), known)
        for subgraph in graph.subgraphs:
            yield self._scope(graph, subgraph.nodes, inner.get(subgraph.name, ()), known)

    def _scope(self, graph: Graph, nodes: Sequence[Node], before: Sequence[Node], known: Trust) -> _Scope:
        earlier = {node.name: node for node in before}
        same = {
            n.name: earlier[n.name] for n in nodes if n.name in earlier and _same_op(earlier[n.name].target, n.target)
        }
        exact = frozenset(n.name for n in nodes)
        if graph.origins is not Trust.EXACT:
            # On a hit of the cache alone, the graph's own facts may be missing. FX nodes keep their names.
            exact = frozenset(same if known is Trust.EXACT else ())
            nodes = [_with_origins(n, same[n.name]) if n.name in exact else n for n in nodes]
        return _Scope({n.name: n for n in nodes}, frozenset(same), exact, self._fed(graph.compile_id, nodes))

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

    def _followed(self, scope: _Scope, node: Node, kernel: Kernel, known: Trust) -> Strand:
        aten = node.name if node.name in scope.aten else ""
        origins = self.own(kernel.compile_id, node)
        role = _role(node, kernel.part)
        if not origins and node.op.startswith("call_"):
            origins, role = scope.fed.get(node.name, ()), Role.FEEDS if scope.fed.get(node.name) else role
        trust = self._trust(kernel.compile_id, origins, known, exact=node.name in scope.exact)
        return Strand(node.name, node, aten, origins, role, trust)

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


def _adds_gradients(node: Node) -> bool:
    return node.backward and not node.origins and node.target == "torch.ops.aten.add.Tensor"


def _same_op(before: str, after: str) -> bool:
    return before == after or (is_view(before) and is_view(after))  # Inductor makes every view a reshape, in place


def _role(node: Node, part: Pass) -> Role:
    if node.backward:
        return Role.DIFFERENTIATES
    return Role.RECOMPUTES if part is Pass.BACKWARD else Role.COMPUTES


def _lineages(index: int, kernel: Kernel, scopes: _Scopes) -> Iterator[Lineage]:
    if not kernel.launches:
        yield _lineage(index, None, kernel, kernel.nodes, scopes)
    elif len(kernel.launches) == 1 or any(launch.nodes or launch.source_nodes for launch in kernel.launches):
        alone = kernel.nodes if len(kernel.launches) == 1 else ()
        for number, launch in enumerate(kernel.launches):
            yield _lineage(index, number, kernel, launch.nodes or alone, scopes)
    else:  # what all of them compute together is known, and not which computes what
        yield _lineage(index, None, kernel, kernel.nodes, scopes)


def _lineage(index: int, number: int | None, kernel: Kernel, names: Sequence[str], scopes: _Scopes) -> Lineage:
    if not names:
        commented = kernel.launches[number].source_nodes if number is not None else ()
        return Lineage(index, number, kernel, tuple(_by_comment(kernel, commented, scopes)))
    scope, certain = _scope_of(kernel, names, scopes.of(kernel))
    if scope is None:
        return Lineage(index, number, kernel, (), tuple(names))
    known = kernel.trust if certain else Trust.TEXT
    strands = tuple(scopes.strand(scope, name, kernel, known) for name in names if name in scope.nodes)
    return Lineage(index, number, kernel, strands, tuple(name for name in names if name not in scope.nodes))


def _scope_of(kernel: Kernel, names: Sequence[str], scopes: Sequence[_Scope]) -> tuple[_Scope | None, bool]:
    """The graph that these nodes are of. A graph inside another has names that the outer one uses as well."""
    if len(scopes) <= 1:
        return (scopes[0] if scopes else None), True
    most = max(sum(name in scope.nodes for name in names) for scope in scopes)
    found = [scope for scope in scopes if most and sum(name in scope.nodes for name in names) == most]
    if len(found) == 1:
        return found[0], True
    fitting = [scope for scope in found if _aten(scope, names) == set(kernel.aten)]
    return (fitting[0], False) if len(fitting) == 1 else (None, False)


def _aten(scope: _Scope, names: Iterable[str]) -> set[str]:
    ops = (scope.nodes[name].original_aten for name in names if name in scope.nodes)
    return {".".join(op.split(".")[:2]) for op in ops}


def _by_comment(kernel: Kernel, names: Iterable[str], scopes: _Scopes) -> Iterator[Strand]:
    """What the comment above a launch names: Dynamo nodes, and in a backward nodes of its own graph."""
    found = scopes.of(kernel)
    scope = found[0] if found else None
    for name in names:
        origin = scopes.origins.named(kernel.compile_id, name)
        lowered = scope.nodes.get(name) if scope and kernel.part is Pass.BACKWARD else None
        if scope is not None and lowered is not None:
            strand = scopes.strand(scope, name, kernel, Trust.TEXT)
            if origin is None or origin in strand.origins:  # otherwise it is one of two, and nobody says which
                yield strand
        elif origin is not None:
            role = Role.RECOMPUTES if kernel.part is Pass.BACKWARD else Role.COMPUTES
            yield Strand(name, None, "", (origin,), role, Trust.TEXT)
