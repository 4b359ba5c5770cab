"""Follows nodes of lowered graphs back to the Dynamo nodes they came from, and with them to modules and lines.

By what our hooks saw of live FX graphs, or else by the lines that torch printed above the nodes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby, repeat, takewhile
from sys import intern
from typing import Annotated

from msgspec import Meta, Struct

from compiler_lens.decode.graph_text import GraphText
from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.decode.stacks import read_traceback
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId, GraphStage, SourcePlace
from compiler_lens.recording.model import Node, SourceLine, Subgraph, Trust
from compiler_lens.recording.shape import read_json, shaped
from compiler_lens.recording.torch_names import GRADIENT_PREFIX

# torch/fx/traceback.py, GRADIENT_ACC_SPECIAL_STACK: a sum of gradients carries the number of whichever forward op
# came last, so the number says nothing.
_GRADIENT_SUM = "Gradient addition node due to multiple use"
# Dynamo names a module by where it found it. The compiled module itself is what its forward calls it, `self` as a
# rule, or `fn` in a wrapper of torch's own (torch/_dynamo/external_utils.py, `wrap_inline`).
_ROOT = re.compile(r"[LG]\['(\w+)'\]\.?")
_UNTOLD = frozenset({"self", "fn"})
_ITEM = re.compile(r"\[['\"]?([^'\"\[\]]+)['\"]?\]")


class NodeFact(Struct, frozen=True, gc=False):
    """What live objects say of one node, beyond the text."""

    name: str
    module: str = ""
    module_type: str = ""
    origins: tuple[str, ...] = ()
    original_aten: str = ""
    seq_nr: int | None = None  # autograd's number: shared by a forward op and its backward
    source: tuple[SourceLine, ...] = ()


class NodeFacts(Struct, frozen=True):
    """Our hook's facts about all nodes of one graph, to be joined with its text by node name."""

    compile_id: CompileId
    stage: str  # dynamo, joint, forward, backward, inference, post_grad
    facts: tuple[NodeFact, ...]
    cached: bool = False
    attempt: int = 0


_Index = Annotated[int, Meta(ge=-1)]


class _Table(Struct, frozen=True):
    modules: tuple[tuple[str, str], ...]  # path and class
    stacks: tuple[str, ...]
    # name, origins, index of the module, ATen op, autograd's number, index of the stack
    nodes: tuple[tuple[str, tuple[str, ...], _Index, str, int | None, _Index], ...]


class _Head(Struct, frozen=True):
    stage: str
    receiver: str | None = None


def read_node_facts(
    event: Event,
    compile_id: CompileId,
    _files: Mapping[int, str],
    known: dict[str, tuple[SourceLine, ...]] | None = None,
    texts: Texts = EACH_ITS_OWN,
) -> tuple[NodeFacts, ...]:
    """Read modules, stacks and origins of all nodes of one graph, as `capture/torch_api/graphs.py` wrote them.

    `known` has the stacks that were read before: those of one graph come with each stage of it.
    """
    head, (table, sums) = shaped(_Head, event.meta), texts.read(_read_table, event.text or "")
    own = _UNTOLD if head.receiver is None else frozenset({head.receiver or "self"})
    modules = [(module_path(path, own), kind) for path, kind in table.modules]
    known = {} if known is None else known
    known |= {text: read_traceback(text) for text in table.stacks if text not in known}
    stacks = [known[text] for text in table.stacks]
    modules.append(("", ""))  # what the index -1 finds
    stacks.append(())
    facts = []
    for name, origins, module, aten, number, stack in table.nodes:
        told = None if stack in sums else number
        names = tuple(map(intern, origins))
        facts.append(NodeFact(intern(name), *modules[module], names, intern(aten), told, stacks[stack]))
    return (NodeFacts(compile_id, head.stage, tuple(facts), event.cached, event.attempt),)


def _read_table(text: str) -> tuple[_Table, frozenset[int]]:
    """Return the table, and which of its stacks are of sums of gradients."""
    table = read_json(_Table, text)
    return table, frozenset(number for number, text in enumerate(table.stacks) if _GRADIENT_SUM in text)


def module_path(name: str, own: frozenset[str] = _UNTOLD) -> str:
    """Return `L['self'].layers.0` as the user writes it, `layers.0`; empty for the compiled module, one of *own*."""
    path = _ROOT.sub(lambda m: "" if m[1] in own else f"{m[1]}.", name, count=1)
    return _ITEM.sub(r".\1", path).strip(".")


# -- what lowered nodes point back with

Facts = Mapping[str, NodeFact]
Nodes = tuple[Node, ...]
Names = tuple[str, ...]
Visits = dict[SourcePlace, list[Names]]
Joined = tuple[Trust, Nodes, tuple[Subgraph, ...]]

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
    numbered: dict[int, list[NodeFact]] = defaultdict(list)
    for each in facts:
        for fact in each.values():
            if fact.origins and fact.seq_nr is not None and "." not in fact.name:  # a subgraph counts for itself
                numbered[fact.seq_nr].append(fact)
    # AOTAutograd traces the whole forward before anything that takes a gradient.
    tangents = {node.name for node in joint if node.op == "placeholder" and node.name.startswith(GRADIENT_PREFIX)}
    forward = frozenset(
        node.name for node in takewhile(lambda n: n.op == "output" or tangents.isdisjoint(n.inputs), joint)
    )
    visits: Visits = defaultdict(list)
    for prefix, graph in graphs:
        for place, names in _visits(program_ops(prefix, graph)).items():
            visits[place] += names
    by_line = _by_line(traced[0], forward, visits) if len(traced) == 1 else {}  # names are of one graph only
    return Program(nodes, numbered, forward, _whole_lines(visits), by_line)


def join_dynamo(text: GraphText, facts: Facts | None) -> Joined:
    """Return the Dynamo graph's own nodes: modules and whole stacks."""
    if facts is None:
        return Trust.UNKNOWN, text.nodes, text.subgraphs
    known = facts

    def joined(node: Node, name: str) -> Node:
        fact = known.get(name)
        return node if fact is None else _with(node, fact, fact.source or node.source)

    return Trust.EXACT, *_each_node(text, joined)


def join_lowered(stage: GraphStage, text: GraphText, facts: Facts | None, program: Program) -> Joined:
    """Join a graph after Dynamo's: by its nodes' facts, or else by the lines that torch printed above them."""
    join = _Join(stage, facts or {}, program)
    nodes, subgraphs = _each_node(text, join.exact if facts else join.by_line)
    trust = Trust.EXACT if facts else Trust.TEXT if any(node.origins for node in nodes) else Trust.UNKNOWN
    return trust, nodes, subgraphs


def _each_node(text: GraphText, join: Callable[[Node, str], Node]) -> tuple[Nodes, tuple[Subgraph, ...]]:
    """All nodes of a graph, joined by their full names."""
    nodes = tuple([join(node, node.name) for node in text.nodes])
    inner = [Subgraph(s.name, tuple([join(n, f"{s.name}.{n.name}") for n in s.nodes])) for s in text.subgraphs]
    return nodes, tuple(inner)


class _Join(Struct, frozen=True):
    stage: GraphStage
    facts: Facts
    program: Program

    def exact(self, node: Node, name: str) -> Node:
        fact = self.facts.get(name)
        if fact is None:
            return _with(node, _UNKNOWN, node.source, backward=True) if self._is_gradient(node, name) else node
        origins = self._resolved(node, fact, fact.module)
        backward = not origins and self._is_gradient(node, name)
        is_numbered = self.stage in TRAINING and fact.seq_nr is not None and node.op not in {"placeholder", "output"}
        if is_numbered and not origins:
            # It differentiates the forward node of its number. An op that autograd does not record carries the number
            # of the last op that it did, and a sum of gradients that of any op. But torch copies module and line of the
            # forward node to its backward nodes, and no module to sums (torch/_functorch/_aot_autograd/utils.py,
            # `copy_fwd_metadata_to_bw_nodes`).
            for forward in self.program.forward_of.get(fact.seq_nr or 0, ()):
                found = self._resolved(node, forward, fact.module)
                if forward.module_type == fact.module_type and self._stack(found, node):
                    origins, backward = found, True
                    break
        source = fact.source or self._stack(origins, node) or node.source
        return _with(node, fact, source, origins, backward=backward)

    def by_line(self, node: Node, name: str) -> Node:
        place = _place_of(node) if node.op.startswith("call_") and not _computes_size(node) else None
        # The later graphs keep the names of the nodes that they keep.
        origins = (self.program.by_line.get(name) or self.program.lines.get(place, ())) if place else ()
        backward = self._is_gradient(node, name)
        if self.stage not in _GRADIENTS or not self.program.forward_names:
            backward = backward or node.backward  # in a backward graph torch says so of recomputed forward nodes too
        if not origins:
            return node if backward == node.backward else _with(node, _UNKNOWN, node.source, backward=backward)
        modules = {(n.module, n.module_type) for origin in origins for _, n in self.program.nodes[origin]}
        module, kind = modules.pop() if len(modules) == 1 else ("", "")
        source = self._stack(origins, node) or node.source
        return _with(node, NodeFact("", module, kind), source, origins, backward=backward)

    def _resolved(self, lowered: Node, fact: NodeFact, module: str) -> Names:
        """Its origins by their full names: FX gives a subgraph's nodes the names that other graphs use too."""
        names = []
        for origin in fact.origins:
            found = self.program.nodes.get(origin, ())
            if len(found) > 1:
                found = [(name, node) for name, node in found if _on_one_line(node, lowered)]
            if len(found) > 1:  # checkpointed layers share their lines
                found = [(name, node) for name, node in found if node.module == module]
            names.append(found[0][0] if len(found) == 1 else origin)
        return tuple(names)

    def _stack(self, origins: Names, lowered: Node) -> tuple[SourceLine, ...]:
        """The whole stack of the first origin, where it ends at the line that torch printed."""
        for _, node in self.program.nodes.get(origins[0], ()) if origins else ():
            if not lowered.source or _on_one_line(node, lowered):
                return node.source
        return ()

    def _is_gradient(self, node: Node, name: str) -> bool:
        return self.stage in _GRADIENTS and node.op.startswith("call_") and name not in self.program.forward_names


def _on_one_line(one: Node, other: Node) -> bool:
    if not one.source or not other.source:
        return not one.source and not other.source
    line, also = one.source[-1], other.source[-1]
    return line.line == also.line and line.file == also.file


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


def _computes_size(node: Node) -> bool:
    return node.target.startswith("operator.") and node.target != "operator.getitem"


def program_ops(prefix: str, nodes: Sequence[Node]) -> list[tuple[str, Node]]:
    """Return the ops of a Dynamo graph by their full names, without those that no ATen op comes of.

    Those only compute a size, or take a tensor out of a tuple.
    """
    tensors = {node.name for node in nodes if node.specs}
    ops = (node for node in nodes if node.op.startswith("call_"))
    return [
        (prefix + n.name, n) for n in ops if not n.target.startswith("operator.") or not tensors.isdisjoint(n.inputs)
    ]


def _visits(ops: Iterable[tuple[str, Node]]) -> Visits:
    """The names of ops by line, and by each visit of the line."""
    visits: Visits = defaultdict(list)
    for place, run in groupby(ops, lambda op: _place_of(op[1])):
        if place is not None:
            visits[place].append(tuple(name for name, _ in run))
    return visits


def _whole_lines(program: Visits) -> Mapping[SourcePlace, Names]:
    """All ops of each line, of whichever visit."""
    lines = {place: tuple(name for visit in visits for name in visit) for place, visits in program.items()}
    return {place: names for place, names in lines.items() if len(names) <= _MOST}


def _by_line(traced: Nodes, forward: frozenset[str], program: Visits) -> Mapping[str, Names]:
    """The origins of a graph's ops by name; after the forward come those that autograd adds, going backwards."""
    ops = [(node.name, node) for node in traced if node.op.startswith("call_") and not _computes_size(node)]
    first = len(ops) if not forward else sum(name in forward for name, _ in ops)
    origins: dict[str, Names] = {}
    lines = _whole_lines(program)
    for part, step in ((ops[:first], 1), (ops[first:], -1)):
        for place, visits in _visits(part).items():
            known = program.get(place, [])
            told = known[::step] if len(known) == len(visits) else repeat(lines.get(place, ()))
            for names, own in zip(visits, told, strict=False):
                origins.update(dict.fromkeys(names, own if len(own) <= _MOST else ()))
    return origins
