"""Follows nodes of lowered graphs back to the Dynamo nodes they came from, and with them to modules and lines."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, repeat

from msgspec import Struct

from compiler_lens.decode.graph_text import GraphText
from compiler_lens.decode.node_facts import NodeFact
from compiler_lens.recording.ids import SourcePlace
from compiler_lens.recording.model import GraphStage, Node, SourceLine, Subgraph, Trust

Facts = Mapping[str, NodeFact]
Nodes = tuple[Node, ...]
Names = tuple[str, ...]
Visits = dict[SourcePlace, list[Names]]

# Of a line that makes a thousand ops we would have to give a thousand origins to each of thousands of nodes.
_MOST = 64

TRAINING = frozenset((GraphStage.AOT_JOINT, GraphStage.AOT_FORWARD, GraphStage.AOT_BACKWARD, GraphStage.POST_GRAD,
                      GraphStage.POST_GRAD_BACKWARD))  # fmt: skip
_UNKNOWN = NodeFact("")
_GRADIENTS = frozenset((GraphStage.AOT_JOINT, GraphStage.AOT_BACKWARD, GraphStage.POST_GRAD_BACKWARD))


class Program(Struct, frozen=True):
    """One compilation's Dynamo graph, by all that lowered nodes point back with."""

    nodes: Mapping[str, Sequence[tuple[str, Node]]]  # by name, with the name that says which subgraph
    forward_of: Mapping[int, Sequence[NodeFact]]  # the forward nodes that autograd numbered so
    forward_names: frozenset[str]  # what the joint graph computes before it reads a gradient
    lines: Mapping[SourcePlace, tuple[str, ...]]  # the ops of a line
    by_line: Mapping[str, tuple[str, ...]]  # the origins of AOT nodes, by lines alone


def program_of(
    dynamo: Sequence[tuple[Nodes, Sequence[Subgraph]]], facts: Iterable[Facts], joint: Nodes, traced: Sequence[Nodes]
) -> Program:
    """Return the program of some Dynamo graphs.

    `facts` are those of the training graphs, the forward graph's first; `traced` are the joint or inference graphs.
    """
    graphs = [("", own) for own, _ in dynamo] + [(f"{s.name}.", s.nodes) for _, inner in dynamo for s in inner]
    nodes: dict[str, list[tuple[str, Node]]] = defaultdict(list)
    for prefix, graph in graphs:
        for node in graph:
            for key in {node.name, prefix + node.name}:
                nodes[key].append((prefix + node.name, node))
    visits, forward = _program_visits(graphs), _forward_names(joint)
    by_line = _by_line(traced[0], forward, visits) if len(traced) == 1 else {}  # names are of one graph only
    return Program(nodes, _forward_nodes(facts), forward, _whole_lines(visits), by_line)


def _by_line(traced: Nodes, forward: frozenset[str], visits: Visits) -> Mapping[str, tuple[str, ...]]:
    ops = [node for node in traced if node.op.startswith("call_") and not _computes_size(node)]
    first = len(ops) if not forward else sum(node.name in forward for node in ops)
    return _origins_of(ops[:first], ops[first:], visits)


def _computes_size(node: Node) -> bool:
    return node.target.startswith("operator.") and node.target != "operator.getitem"


def _forward_nodes(facts: Iterable[Facts]) -> dict[int, list[NodeFact]]:
    numbered: dict[int, list[NodeFact]] = defaultdict(list)
    for each in facts:
        for fact in each.values():
            if fact.origins and fact.seq_nr is not None and "." not in fact.name:  # a subgraph counts for itself
                numbered[fact.seq_nr].append(fact)
    return numbered


def _forward_names(joint: Nodes) -> frozenset[str]:
    """AOTAutograd traces the whole forward first and names the gradients it is given tangents_1, tangents_2 …"""
    tangents = {node.name for node in joint if node.op == "placeholder" and node.name.startswith("tangents_")}
    forward = set()
    for node in joint:
        if node.op != "output" and not tangents.isdisjoint(node.inputs):
            break
        forward.add(node.name)
    return frozenset(forward)


def join_dynamo(text: GraphText, facts: Facts | None) -> tuple[Trust, Nodes, tuple[Subgraph, ...]]:
    """Return the Dynamo graph's own nodes: modules and whole stacks."""
    if facts is None:
        return Trust.UNKNOWN, text.nodes, text.subgraphs
    nodes = tuple(_dynamo_node(node, facts.get(node.name)) for node in text.nodes)
    subgraphs = tuple(
        Subgraph(s.name, tuple(_dynamo_node(n, facts.get(f"{s.name}.{n.name}")) for n in s.nodes))
        for s in text.subgraphs
    )
    return Trust.EXACT, nodes, subgraphs


def _dynamo_node(node: Node, fact: NodeFact | None) -> Node:
    if fact is None:
        return node
    return _with(node, fact, fact.source or node.source)


def join_lowered(
    stage: GraphStage, text: GraphText, facts: Facts | None, program: Program
) -> tuple[Trust, Nodes, tuple[Subgraph, ...]]:
    """Join a graph after Dynamo's: by its nodes' facts, or else by the lines that torch printed above them."""
    join = _Exact(stage, facts, program) if facts else _ByLine(stage, program)
    nodes = tuple(join.node(node, node.name) for node in text.nodes)
    subgraphs = tuple(
        Subgraph(s.name, tuple(join.node(n, f"{s.name}.{n.name}") for n in s.nodes)) for s in text.subgraphs
    )
    trust = Trust.EXACT if facts else Trust.TEXT if any(node.origins for node in nodes) else Trust.UNKNOWN
    return trust, nodes, subgraphs


class _Exact(Struct, frozen=True):
    stage: GraphStage
    facts: Facts
    program: Program

    def node(self, node: Node, name: str) -> Node:
        fact = self.facts.get(name)
        if fact is None:
            gradient = _is_gradient(node, name, self.stage, self.program)
            return _with(node, _UNKNOWN, node.source, backward=True) if gradient else node
        origins = self._resolved(node, fact, fact.module)
        forward = () if origins else self._differentiated(node, fact)
        backward = bool(forward) or (not origins and _is_gradient(node, name, self.stage, self.program))
        origins = origins or forward
        source = fact.source or _stack(origins, node, self.program) or node.source
        return _with(node, fact, source, origins, backward=backward)

    def _resolved(self, node: Node, fact: NodeFact, module: str) -> tuple[str, ...]:
        return tuple([_resolve(origin, node, module, self.program) for origin in fact.origins])

    def _differentiated(self, node: Node, fact: NodeFact) -> tuple[str, ...]:
        """The origins of the forward node that this one differentiates.

        An op that autograd does not record carries the number of the last op that it did, and a sum of gradients
        that of any op. But torch copies module and line of the forward node to its backward nodes, and no module to
        sums (torch/_functorch/_aot_autograd/utils.py, `copy_fwd_metadata_to_bw_nodes`).
        """
        if self.stage not in TRAINING or fact.seq_nr is None or node.op in {"placeholder", "output"}:
            return ()
        for forward in self.program.forward_of.get(fact.seq_nr, ()):
            origins = self._resolved(node, forward, fact.module)
            if forward.module_type == fact.module_type and _stack(origins, node, self.program):
                return origins
        return ()


class _ByLine(Struct, frozen=True):
    stage: GraphStage
    program: Program

    def node(self, node: Node, name: str) -> Node:
        origins = self._origins(node, name) if node.op.startswith("call_") else ()
        backward = _is_gradient(node, name, self.stage, self.program)
        if self.stage not in _GRADIENTS or not self.program.forward_names:
            backward = backward or node.backward  # in a backward graph torch says so of recomputed forward nodes too
        if not origins:
            return node if backward == node.backward else _with(node, _UNKNOWN, node.source, backward=backward)
        modules = {(n.module, n.module_type) for origin in origins for _, n in self.program.nodes[origin]}
        module, kind = modules.pop() if len(modules) == 1 else ("", "")
        source = _stack(origins, node, self.program) or node.source
        return _with(node, NodeFact("", module, kind), source, origins, backward=backward)

    def _origins(self, node: Node, name: str) -> tuple[str, ...]:
        place = _place_of(node)
        if place is None or _computes_size(node):
            return ()
        # The later graphs keep the names of the nodes that they keep.
        return self.program.by_line.get(name) or self.program.lines.get(place, ())


def _resolve(origin: str, lowered: Node, module: str, program: Program) -> str:
    """The origin by its full name: FX gives a subgraph's nodes the names that other graphs use too."""
    found = program.nodes.get(origin, ())
    if len(found) > 1:
        found = [(name, node) for name, node in found if _on_one_line(node, lowered)]
    if len(found) > 1:  # checkpointed layers share their lines
        found = [(name, node) for name, node in found if node.module == module]
    return found[0][0] if len(found) == 1 else origin


def _stack(origins: Sequence[str], lowered: Node, program: Program) -> tuple[SourceLine, ...]:
    """The whole stack of the first origin, where it ends at the line that torch printed."""
    for _, node in program.nodes.get(origins[0], ()) if origins else ():
        if not lowered.source or _on_one_line(node, lowered):
            return node.source
    return ()


def _on_one_line(one: Node, other: Node) -> bool:
    if not one.source or not other.source:
        return not one.source and not other.source
    line, also = one.source[-1], other.source[-1]
    return line.line == also.line and line.file == also.file


def _is_gradient(node: Node, name: str, stage: GraphStage, program: Program) -> bool:
    return stage in _GRADIENTS and node.op.startswith("call_") and name not in program.forward_names


def _with(
    node: Node, fact: NodeFact, source: tuple[SourceLine, ...], origins: tuple[str, ...] = (), *, backward: bool = False
) -> Node:
    # Not `replace`, which takes longer: a recording has tens of thousands of nodes.
    return Node(
        node.name, node.op, node.target, node.inputs, node.specs, source, fact.module, fact.module_type, origins,
        fact.original_aten, node.arguments, backward,
    )  # fmt: skip


# -- where nothing but the lines above nodes is known: logs that were written without our hooks
#
# AOTAutograd runs the Dynamo graph in order, so the nth visit of a line in the one graph is the nth visit in the
# other, and autograd goes back through them from the last. Only where the counts differ are a line's visits mixed up.


def _place_of(node: Node) -> SourcePlace | None:
    """The user's line that a node was made on."""
    return node.source[-1].place if node.source else None


def _program_visits(graphs: Iterable[tuple[str, Sequence[Node]]]) -> Visits:
    """The ops of Dynamo's graphs by line and visit, each graph with the prefix of its nodes' names."""
    visits: Visits = defaultdict(list)
    for prefix, nodes in graphs:
        tensors = {node.name for node in nodes if node.specs}
        ops = [node for node in nodes if node.op.startswith("call_") and not is_bookkeeping(node, tensors)]
        for place, names in _visits(ops).items():
            visits[place] += [tuple(prefix + name for name in visit) for visit in names]
    return visits


def is_bookkeeping(node: Node, tensors: set[str]) -> bool:
    """Return whether it only computes a size or takes a tensor out of a tuple: no ATen op comes of that."""
    return node.target.startswith("operator.") and tensors.isdisjoint(node.inputs)


def _visits(nodes: Iterable[Node]) -> Visits:
    visits: Visits = defaultdict(list)
    for place, run in groupby(nodes, _place_of):
        if place is not None:
            visits[place].append(tuple(node.name for node in run))
    return visits


def _whole_lines(program: Visits) -> Mapping[SourcePlace, Names]:
    """All ops of each line, of whichever visit."""
    lines = {place: tuple(name for visit in visits for name in visit) for place, visits in program.items()}
    return {place: names for place, names in lines.items() if len(names) <= _MOST}


def _origins_of(nodes: Iterable[Node], gradients: Iterable[Node], program: Visits) -> Mapping[str, Names]:
    """The origins of a graph's ops by name; `gradients` are those that autograd adds, going backwards."""
    origins: dict[str, Names] = {}
    lines = _whole_lines(program)
    for ops, step in ((nodes, 1), (gradients, -1)):
        for place, visits in _visits(ops).items():
            known = program.get(place, [])
            told = known[::step] if len(known) == len(visits) else repeat(lines.get(place, ()))
            for names, own in zip(visits, told, strict=False):
                origins.update(dict.fromkeys(names, own if len(own) <= _MOST else ()))
    return origins
