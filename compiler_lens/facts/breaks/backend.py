"""Breaks that a backend raises: of which line it failed to compile. torch says where Dynamo stood, the graph's end."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from compiler_lens.facts.program.ownership import Ownership
from compiler_lens.recording.model import CompileId, Graph, GraphBreak, GraphStage, Node, Recording, SourceLine

BACKEND = "Backend compiler exception"
# torch sends what a backend raised by itself, and after it the break that comes of that.
_RAISED = "WON'T CONVERT"
_OP = re.compile(r"\baten\.(\w+)")
_OF_MASKS = "nonzero"  # what the gradient of what is written by a mask becomes
_WRITING = re.compile(r"(?:^|\.)(?:setitem|index_put_?)$")
_WITH_VALUES = 3  # what is written to, the mask, and a tensor


def is_raised(event: GraphBreak) -> bool:
    """Return whether an event says what a backend raised, of which the break is told by another."""
    return event.reason.startswith(_RAISED)


def is_of_backend(event: GraphBreak) -> bool:
    """Return whether a backend gave up on a graph."""
    return is_raised(event) or any(cause.gb_type == BACKEND for cause in event.causes[:1])


def failed_lines(recording: Recording, own: Ownership) -> Mapping[CompileId, tuple[SourceLine, ...]]:
    """Return for compilations that a backend gave up on the calls down to the line with the op that it failed at.

    Of several such lines that is the last: a backward begins there.
    """
    failed: dict[CompileId, str] = {}
    for event in filter(is_of_backend, recording.graph_breaks):
        told = event.root if event.causes else None
        if told and (named := _OP.search(f"{told.gb_type}\n{told.explanation}\n{told.context}")):
            failed.setdefault(event.compile_id, named[1])
    found: dict[CompileId, tuple[SourceLine, ...]] = {}
    for graph in recording.graphs if failed else ():
        if graph.stage is GraphStage.DYNAMO and (op := failed.get(graph.compile_id, "")):
            for node in _nodes(graph, op):
                if own.innermost(node.source):
                    found[graph.compile_id] = node.source
    return found


def _nodes(graph: Graph, op: str) -> Iterator[Node]:
    masks = {node.name for node in graph.nodes if any(spec.dtype == "b8" for spec in node.specs)}
    for node in graph.nodes:
        name = node.target.rpartition(".")[2] if not node.target.endswith(".default") else node.target.split(".")[-2]
        is_write = op == _OF_MASKS and _WRITING.search(name) and len(node.inputs) >= _WITH_VALUES
        if name == op or (is_write and not masks.isdisjoint(node.inputs[1:-1])):
            yield node
