"""Graphs node by node: which node of one is which of the other, and what was added, removed, moved and changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct, field

from compiler_lens.facts.compare.align import Pair, align, gaps, moved
from compiler_lens.facts.compare.model import GraphChange, NodeChange, Verdict
from compiler_lens.facts.compare.programs import Compiled
from compiler_lens.facts.program.ownership import innermost_own
from compiler_lens.recording.ids import GraphId
from compiler_lens.recording.model import Graph, GraphStage, Node
from compiler_lens.recording.own_files import is_own

# The joint graph is the forward and the backward once more.
_STAGES = tuple(stage for stage in GraphStage if stage is not GraphStage.AOT_JOINT)
_TWIN = {GraphStage.AOT_INFERENCE: GraphStage.AOT_FORWARD, GraphStage.AOT_FORWARD: GraphStage.AOT_INFERENCE}
_WORD = re.compile(r"[A-Za-z_]\w*")
_NUMBERED = re.compile(r"_\d+\b")  # true_graph_0, wrap_body_1


class Described(NamedTuple):
    """What a node is, apart from its name and place."""

    target: str
    arguments: str  # with the names of other nodes left out
    specs: tuple[str, ...]
    module: str
    line: str  # the user's, as text: its number changes with every line above it


class Alignment(Struct, frozen=True):
    """Which node of one graph is which of another, by position."""

    before: Sequence[Node]
    after: Sequence[Node]
    pairs: tuple[Pair, ...]  # in order
    moved: tuple[Pair, ...]  # the same node at another place
    changed: frozenset[Pair]  # of `pairs`: not the same in all

    @property
    def names(self) -> Mapping[str, str]:
        """Names of nodes before, to names after."""
        return {self.before[b].name: self.after[a].name for b, a in (*self.pairs, *self.moved)}


# What two nodes between aligned neighbours must have in common to be the same node, changed; the strictest first.
_LIKENESS: tuple[Callable[[Described], Hashable], ...] = (
    lambda d: (d.target, d.arguments, d.specs),
    lambda d: (d.target, d.module, d.line),
    lambda d: (d.target, d.module),
    lambda d: d.target,
    lambda d: (d.specs, d.module) if d.specs and d.target != _PLACEHOLDER else None,
)
_PLACEHOLDER = "placeholder"


class Aligner(Struct, frozen=True):
    """Aligns graphs, each pair once."""

    known: dict[tuple[GraphId | None, GraphId | None], Alignment] = field(default_factory=dict)
    own: dict[str, bool] = field(default_factory=dict)  # by file: whether it is the user's

    def __call__(self, before: Graph | None, after: Graph | None) -> Alignment:
        """Nodes that are the same, in order; then those that moved; then, between those, what changed."""
        key = before.id if before else None, after.id if after else None
        if key not in self.known:
            self.known[key] = self._align(before.nodes if before else (), after.nodes if after else ())
        return self.known[key]

    def _align(self, before: tuple[Node, ...], after: tuple[Node, ...]) -> Alignment:
        same = tuple((i, i) for i in range(len(before)))
        if before == after:
            return Alignment(before, after, same, (), frozenset())
        left, right = [self.describe(node) for node in before], [self.describe(node) for node in after]
        if left == right:
            return Alignment(before, after, same, (), frozenset())
        pairs = align(left, right)
        elsewhere = moved(left, right, pairs)
        gone, come = {b for b, _ in elsewhere}, {a for _, a in elsewhere}
        changed: set[Pair] = set()
        for likeness in _LIKENESS:
            found: list[Pair] = []
            for b_gap, a_gap in gaps(pairs, len(left), len(right)):
                b_keys = [(key, i) for i in b_gap if i not in gone and (key := likeness(left[i])) is not None]
                a_keys = [(key, i) for i in a_gap if i not in come and (key := likeness(right[i])) is not None]
                aligned = align([key for key, _ in b_keys], [key for key, _ in a_keys])
                found += [(b_keys[b][1], a_keys[a][1]) for b, a in aligned]
            changed.update(found)
            pairs = sorted([*pairs, *found])
        return Alignment(before, after, tuple(pairs), tuple(elsewhere), frozenset(changed))

    def describe(self, node: Node) -> Described:
        """Return a node's identity."""
        line = node.source[-1].code if node.source else ""
        for at in reversed(node.source):
            if at.file not in self.own:
                self.own[at.file] = is_own(at.file)
            if self.own[at.file]:
                line = at.code
                break
        return Described(
            node.target if node.op.startswith("call_") else node.op,
            _arguments(node),
            tuple([f"{spec}{(spec.device or '').partition(':')[0]}" for spec in node.specs]),
            node.module,
            line.strip(),
        )


def _arguments(node: Node) -> str:
    """What a node is given besides other nodes."""
    inputs, kept = set(node.inputs), node.arguments
    if inputs:
        kept = _WORD.sub(lambda found: "%" if found[0] in inputs else found[0], kept)
    return _NUMBERED.sub("", kept) if "_" in kept else kept


# -- what changed


def graph_changes(pairs: Sequence[tuple[Compiled, Compiled]], aligned: Aligner) -> tuple[GraphChange, ...]:
    """Return where the graphs of paired compilations differ, by compilation, then from the top down."""
    found: list[GraphChange] = []
    for before, after in pairs:
        for (stage, ordinal), graph in before.graphs.items():
            other = after.graphs.get((stage, ordinal)) or after.graphs.get((_TWIN.get(stage, stage), ordinal))
            if other is None or stage not in _STAGES:
                continue
            if nodes := tuple(_node_changes(aligned(graph, other))):
                shown = stage if stage is other.stage else GraphStage.AOT_FORWARD
                ids = graph.compile_id, other.compile_id
                found.append(GraphChange(before.function, *ids, shown, ordinal, nodes))
    return tuple(
        sorted(found, key=lambda c: (sorted((str(c.before), str(c.after))), _STAGES.index(c.stage), c.ordinal))
    )


def _node_changes(aligned: Alignment) -> Iterator[NodeChange]:
    """Changes in the order of the graph, whichever side is read first; what happened to several nodes is one."""
    pairs = (*aligned.pairs, *aligned.moved)
    known = {b for b, _ in pairs}, {a for _, a in pairs}
    found: list[tuple[int, Node | None, Node | None, Verdict]] = []
    found += [(b + a, aligned.before[b], aligned.after[a], Verdict.IDENTICAL) for b, a in aligned.moved]
    found += [(b + a, aligned.before[b], aligned.after[a], Verdict.CHANGED) for b, a in aligned.changed]
    found += [(2 * b, n, None, Verdict.REMOVED) for b, n in enumerate(aligned.before) if b not in known[0]]
    found += [(2 * a, None, n, Verdict.ADDED) for a, n in enumerate(aligned.after) if a not in known[1]]
    groups: dict[tuple[Verdict, str, str], list[tuple[Node | None, Node | None]]] = {}
    for _, one, other, verdict in sorted(found, key=lambda each: (each[0], sorted(map(_told, each[1:3])))):
        node, key = one or other, (verdict, _said(one, other), _said(other, one))
        # An op, or an input; outputs and attribute reads follow from those.
        matters = node is not None and (node.op.startswith("call_") or node.op == _PLACEHOLDER)
        if matters and (verdict is not Verdict.CHANGED or key[1] != key[2]):
            groups.setdefault(key, []).append((one, other))
    for (verdict, old, new), nodes in groups.items():
        names = tuple((b.name if b else "", a.name if a else "") for b, a in nodes)
        first, last = (next(n for n in (both[1], both[0]) if n) for both in (nodes[0], nodes[-1]))
        module = last.module if last.module != first.module else ""
        yield NodeChange(verdict, old, new, names, first.module, innermost_own(first.source), module)


def _told(node: Node | None) -> str:
    """`torch.ops.aten.sum.dim_IntList f32[64]`: the op and its result."""
    if node is None:
        return ""
    return f"{node.target if node.op.startswith('call_') else 'input'} {', '.join(map(str, node.specs))}".rstrip()


def _said(node: Node | None, other: Node | None) -> str:
    """The same with its arguments, where nothing else differs."""
    if node is None or other is None or _told(node) != _told(other):
        return _told(node)
    arguments = _arguments(node)
    return f"{_told(node)} ({arguments})" if arguments != _arguments(other) else _told(node)
