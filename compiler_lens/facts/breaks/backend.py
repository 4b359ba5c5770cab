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
# What torch adds to an error that a graph's node raised: its name, and the line that it is of.
_EXECUTING, _TRACEBACK = "While executing %", "Original traceback:"
_NAME = re.compile(r"\w+")
_LINE = re.compile(r"\s*File \"([^\"\n]+)\", line (\d{1,9}), in (\S+)[^\S\n]*\n(.*)")
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
    named_by_torch: dict[CompileId, tuple[str, SourceLine]] = {}
    for event in filter(is_of_backend, recording.graph_breaks):
        told = event.root if event.causes else None
        if told and (at := _executing(told.explanation)):
            named_by_torch.setdefault(event.compile_id, at)
        elif told and (named := _OP.search(f"{told.gb_type}\n{told.explanation}\n{told.context}")):
            failed.setdefault(event.compile_id, named[1])
    found: dict[CompileId, tuple[SourceLine, ...]] = {
        compile_id: (at,) for compile_id, (_, at) in named_by_torch.items() if own.innermost((at,))
    }
    graphs = [graph for graph in recording.graphs if graph.stage is GraphStage.DYNAMO] if failed or found else []
    for graph in graphs:
        if graph.compile_id in found:
            found[graph.compile_id] = _stack(graph, *named_by_torch[graph.compile_id])
        elif op := failed.get(graph.compile_id, ""):
            stacks = [node.source for node in _nodes(graph, op) if own.innermost(node.source)]
            found.update((graph.compile_id, stack) for stack in stacks)
    return found


def _stack(graph: Graph, name: str, at: SourceLine) -> tuple[SourceLine, ...]:
    """Return the calls down to a line that a node is of, as far as the graph has them."""
    whole = next((node.source for node in graph.nodes if node.name == name), ())
    return tuple(whole) if whole and whole[-1].place == at.place else (at,)


def _executing(text: str) -> tuple[str, SourceLine] | None:
    """Return the node of a graph that an error was raised in, and its line, as torch says."""
    node, _, traceback = text.partition(_EXECUTING)[2].partition(_TRACEBACK)
    name, line = _NAME.match(node), _LINE.match(traceback)
    if not name or not line:
        return None
    file, number, function, code = line.groups()
    return name[0], SourceLine(file, int(number), function, code.strip())


def _nodes(graph: Graph, op: str) -> Iterator[Node]:
    masks = {node.name for node in graph.nodes if any(spec.dtype == "b8" for spec in node.specs)}
    for node in graph.nodes:
        name = node.target.rpartition(".")[2] if not node.target.endswith(".default") else node.target.split(".")[-2]
        is_write = op == _OF_MASKS and _WRITING.search(name) and len(node.inputs) >= _WITH_VALUES
        if name == op or (is_write and not masks.isdisjoint(node.inputs[1:-1])):
            yield node
