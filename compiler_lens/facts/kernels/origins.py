"""What each node of the graphs that Inductor lowers comes from: nodes of the Dynamo graphs, and their lines.

Also which of these graphs a launch is of: post-grad graphs hold others, for branches and loops.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.kernels.lineage import DOUBT, NodeProvenance, Origin, Role, bodies, is_view, op_packet
from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.ids import CodeId, CompileId, Direction, GraphId
from compiler_lens.recording.model import Graph, Kernel, Node, Recording, SourceLine, Subgraph, Trust
from compiler_lens.recording.own_files import is_machinery

_DEF = re.compile(r"\s*def (\w+)\(")

# Of a value that feeds half the graph, a constant say, nothing is learned by naming all that it feeds.
_MOST_FED = 8


class Origins:
    """Every node of the Dynamo graphs as an origin of kernels, and where in the files it stands."""

    def __init__(self, own: Ownership) -> None:
        self.own = own
        self.all: list[Origin] = []
        self.lines: dict[str, dict[int, dict[int, bool]]] = {}  # by file, then line, as in Provenance
        self.trust: dict[CompileId, Trust] = {}
        self._named: dict[tuple[CompileId, str], Origin | None] = {}
        self._unnamed: dict[tuple[CompileId, str, tuple[SourceLine, ...]], Origin] = {}
        self._kinds: dict[str, str | None] = {}

    def add_graph(self, graph: Graph) -> None:
        """Add the nodes of a Dynamo graph. A name that two graphs of one compilation have says nothing."""
        known = graph.origins if graph.origins is Trust.EXACT else Trust.TEXT
        self.trust[graph.compile_id] = min(self.trust.get(graph.compile_id, Trust.EXACT), known, key=DOUBT.index)
        for prefix, nodes in (("", graph.nodes), *((f"{s.name}.", s.nodes) for s in graph.subgraphs)):
            for node in nodes:
                if node.op.startswith(("call_", "get_attr")):
                    key = graph.compile_id, prefix + node.name
                    self._named[key] = None if key in self._named else self._made(*key, node)

    def named(self, compile_id: CompileId, name: str) -> Origin | None:
        """Return the Dynamo node of this name."""
        return self._named.get((compile_id, name))

    def of_node(self, compile_id: CompileId, node: Node) -> tuple[Origin, ...]:
        """Return what a node comes from by its own word: the Dynamo nodes that it names, or else its line."""
        named = (self.named(compile_id, name) for name in node.origins)
        found = tuple(origin for origin in named if origin is not None)
        if found or not node.source or not node.op.startswith("call_") or (node.backward and not node.origins):
            return found  # the line above a sum of gradients is that of whatever autograd recorded last
        key = compile_id, node.module, node.source
        if key not in self._unnamed:
            self._unnamed[key] = self._made(compile_id, "", node)
        return (self._unnamed[key],)

    def _made(self, compile_id: CompileId, name: str, node: Node) -> Origin:
        number = len(self.all)
        inner: dict[str, SourceLine] = {}  # the innermost line of the user's, "", and of each file of a library
        for place in reversed(node.source):
            kind = self._kind(place.file)
            if kind is not None:
                at = self.lines.setdefault(place.file, {}).setdefault(place.line, {})
                at[number] = at.get(number, False) or kind not in inner
                inner.setdefault(kind, place)
        line = inner.get("") or next(iter(inner.values()), None)
        made = Origin(
            compile_id=compile_id,
            node=name or None,
            target=node.target if name else "",
            module=node.module,
            module_type=node.module_type,
            stack=node.source,
            line=line,
            number=number,
        )
        self.all.append(made)
        return made

    def _kind(self, file: str) -> str | None:
        # As in the source view: the user's files count as one, each file of a library as one, torch's as none.
        if file not in self._kinds:
            kind = None if is_machinery(file) else file
            self._kinds[file] = "" if self.own.owns(file) else kind
        return self._kinds[file]


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
        self._traced: dict[tuple[GraphId, str, str, Direction, Trust], NodeProvenance] = {}

    def traced(self, scope: Scope, name: str, kernel: Kernel, known: Trust) -> NodeProvenance:
        """Return a node followed back, made once: a reduction of many layers has thousands of nodes more than once."""
        key = (scope.graph, scope.name, name, kernel.direction, known)
        if key in self._traced:
            return self._traced[key]
        node = scope.nodes[name]
        origins = self.origins.of_node(kernel.compile_id, node)
        role = Role.RECOMPUTES if kernel.direction is Direction.BACKWARD else Role.COMPUTES
        if node.backward:
            role = Role.DIFFERENTIATES
        if not origins and node.op.startswith("call_") and name in scope.fed:
            origins, role = scope.fed[name], Role.FEEDS
        links = {known, self.origins.trust.get(kernel.compile_id, Trust.TEXT)}
        trust = Trust.TEXT
        if not origins or known is Trust.UNKNOWN:
            trust = Trust.UNKNOWN
        elif name in scope.exact and links == {Trust.EXACT} and all(origin.node for origin in origins):
            trust = Trust.EXACT
        aten = name if name in scope.aten else None
        self._traced[key] = NodeProvenance(name, node.target, aten, node.original_aten, role, trust, origins, node)
        return self._traced[key]

    def of(self, kernel: Kernel) -> tuple[Scope, ...]:
        """Return the graph of a kernel, then those inside of it."""
        key = kernel.code_id
        if key not in self._made:
            graph, before = self.graphs.get(key.graph), self.graphs.get(key.traced)
            self._made[key] = tuple(self._scope(graph, each, before) for each in bodies(graph)) if graph else ()
        return self._made[key]

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
        counts = [sum(name in scope.nodes for name in names) for scope in scopes]
        found = [scope for scope, count in zip(scopes, counts, strict=True) if count and count == max(counts)]
        if len(found) == 1:
            return found[0], True
        fitting = []
        for scope in found:
            ops = {op_packet(scope.nodes[name].original_aten) for name in names if name in scope.nodes}
            if ops == set(kernel.aten):
                fitting.append(scope)
        return (fitting[0] if len(fitting) == 1 else None), False

    def _function(self, key: CodeId, line: int) -> str:
        """Return the function of the output code that a line is in: an inner graph's has the name of that graph."""
        functions = _functions(self.codes[key].code) if key in self.codes else ()
        at = bisect_right(functions, line, key=lambda function: function[0])
        return functions[at - 1][1] if at else ""

    def _scope(self, graph: Graph, body: Subgraph, aten: Graph | None) -> Scope:
        """Return one body of a post-grad graph; `aten` is the graph that it was lowered from."""
        known = aten.origins if aten else Trust.UNKNOWN
        before = next((each.nodes for each in bodies(aten) if each.name == body.name), ()) if aten else ()
        earlier = {node.name: node for node in before}
        outputs = _outputs(body.nodes, before, earlier)
        nodes = {n.name: _with_origins(n, outputs[n.name]) if n.name in outputs else n for n in body.nodes}
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
        return Scope(graph.id, body.name, nodes, frozenset(same), exact, fed)

    def _fed(self, compile_id: CompileId, nodes: Sequence[Node]) -> Mapping[str, tuple[Origin, ...]]:
        """Return for each node the origins of those that its value goes to."""
        fed: dict[str, dict[int, Origin] | None] = {}  # None: too many
        for node in reversed(nodes):
            if node.op == "output":
                continue
            own = self.origins.of_node(compile_id, node)
            passed: dict[int, Origin] | None = {origin.number: origin for origin in own}
            # Through the sums of gradients of a residual stream every layer feeds all below it.
            is_sum = node.backward and not node.origins and node.target == "torch.ops.aten.add.Tensor"
            if not passed and not is_sum:
                passed = fed.get(node.name, {})
            for name in node.inputs:
                others = fed.get(name, {})
                both = None if others is None or passed is None else others | passed
                fed[name] = None if both is None or len(both) > _MOST_FED else both
        return {name: tuple(at.values()) for name, at in fed.items() if at}


@lru_cache(maxsize=64)
def _functions(code: str) -> tuple[tuple[int, str], ...]:
    """Return the line on which each function begins, and its name."""
    lines = enumerate(code.split("\n"), 1)
    return tuple((number, found[1]) for number, text in lines if (found := _DEF.match(text)))


_ORIGINS = ("origins", "source", "module", "module_type", "original_aten", "backward")


def _with_origins(node: Node, before: Node) -> Node:
    return replace(node, **{name: getattr(before, name) for name in _ORIGINS})


def _outputs(nodes: Sequence[Node], before: Sequence[Node], earlier: Mapping[str, Node]) -> Mapping[str, Node]:
    """Return the outputs that a pass replaced by nodes without an origin: they are still the same values."""
    now, then = ([node for node in each if node.op == "output"] for each in (nodes, before))
    if not now or not then or len(now[0].inputs) != len(then[0].inputs):
        return {}
    lost = {node.name for node in nodes if node.op.startswith("call_") and not node.origins and not node.source}
    slots = zip(now[0].inputs, then[0].inputs, strict=True)
    return {name: earlier[was] for name, was in slots if name in lost and name not in earlier and was in earlier}
