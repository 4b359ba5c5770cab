"""Graphs: all compilations, the stages of one, the code of one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct

from compiler_lens.facts.program.compilations import CompilationRow, compilation_rows, folded
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CompileId, Decomposition, Graph, Recording
from compiler_lens.views import words
from compiler_lens.views.compilations import compilation_table, named
from compiler_lens.views.document import (
    Block,
    Column,
    Command,
    Document,
    Gap,
    Line,
    Listing,
    Section,
    Table,
    line,
    paragraph,
)
from compiler_lens.views.parts import Kind, Tone, code, quiet, strong
from compiler_lens.views.text import nbytes, number, plural, times

_OPS = 12  # of a graph, the most frequent


class Data(Struct, frozen=True):
    """Compilations; of those that were asked for also their graphs, and what each op became."""

    compilations: tuple[CompilationRow, ...]
    graphs: tuple[Graph, ...] = ()
    decompositions: tuple[Decomposition, ...] = ()


def document(recording: Recording, selection: Selection) -> Document:
    """Return all compilations; of one its graphs; of one stage its code."""
    rows, count = compilation_rows(recording), len(recording.compilations)
    if selection.ids is None:
        return Document(_all(recording, rows, is_folded=not selection.folds_nothing), Data(rows), count=count)
    graphs = tuple(graph for graph in recording.graphs if selection.has(graph))
    if selection.stage is not None:
        graphs = tuple(graph for graph in graphs if graph.stage is selection.stage)
    made_of = tuple(one for one in recording.decompositions if selection.has(one))
    data = Data(tuple(row for row in rows if row.compile_ids[0] in selection.ids), graphs, made_of)
    if selection.stage is not None:
        return Document(tuple(block for graph in graphs for block in _code(graph)), data, count=count)
    ids = dict.fromkeys(one.compile_id for one in recording.compilations if selection.has(one))
    blocks = tuple(Section("", _one(recording, compile_id)) for compile_id in ids)
    return Document(blocks or (line("No graphs."),), data, count=count)


def _all(recording: Recording, rows: tuple[CompilationRow, ...], *, is_folded: bool) -> tuple[Block, ...]:
    if not recording.compilations:
        return (line("No compilations."),)
    table = compilation_table(folded(rows) if is_folded else rows)
    stages = Command("stages of one: ", f"graphs {recording.compilations[0].compile_id}")
    told = f"{number(len(recording.compilations))}, with ops per graph and kernels"
    return (Section("Compilations", (table, Gap(), stages), told),)


def _one(recording: Recording, compile_id: CompileId) -> tuple[Block, ...]:
    compilation = next(one for one in recording.compilations if one.compile_id == compile_id)
    graphs = [graph for graph in recording.graphs if graph.compile_id == compile_id]
    heading = line(strong("Graphs of "), f"[{compile_id}] ", *named(function_name(compilation)))
    if not graphs:
        return heading, line("none in this recording", indent=2)
    columns = (
        Column("stage", tone=Tone.STRONG),
        Column("nodes", Kind.COUNT),
        Column("ops", Kind.COUNT),
        Column("most frequent", tone=Tone.CODE, flexible=True),
    )
    table = Table(columns, tuple(_stage(graph) for graph in graphs))
    made_of = [one for one in recording.decompositions if one.compile_id == compile_id]
    code_of = Command("code of a stage: ", f"graphs {compile_id} {graphs[-1].stage.value}")
    return heading, table, *_saved(graphs), *_decompositions(made_of), code_of


def _stage(graph: Graph) -> tuple[str, int, int, str]:
    ops = Counter(words.op_name(node.target) for node in graph.ops)
    common = ", ".join(f"{op} {times(count)}" if count > 1 else op for op, count in ops.most_common(_OPS))
    part = f" {graph.ordinal}" if graph.ordinal else ""
    return graph.stage.value + part, len(graph.nodes), len(graph.ops), common


def _saved(graphs: Sequence[Graph]) -> tuple[Line, ...]:
    saved = [tensor for graph in graphs for tensor in graph.saved]
    if not saved:
        return ()
    made = [tensor for tensor in saved if not tensor.is_input]
    known = [tensor.bytes for tensor in made if tensor.bytes is not None]
    size = nbytes(sum(known)) + ("" if len(known) == len(made) else " and more of unknown size")
    kept = plural(len(saved) - len(made), "input")
    told = f"{plural(len(made), 'tensor')} ({size}), and keeps {kept} alive"
    return (line(quiet("forward saves for backward: "), told, indent=2),)


def _decompositions(found: Sequence[Decomposition]) -> tuple[Block, ...]:
    """What each torch-level op became, the same once."""
    kinds = Counter((one.target, one.forward, one.backward) for one in found)
    if not kinds:
        return ()
    blocks: list[Block] = []
    for (target, forward, backward), count in kinds.most_common():
        several = f" {times(count)}" if count > 1 else ""
        became = code(_ops(forward) or "nothing")
        blocks.append(paragraph(strong(words.op_name(target)), several, " → ", became, indent=2))
        if backward:
            blocks.append(paragraph(quiet("backward: "), code(_ops(backward)), indent=6))
    return Section("Decompositions", tuple(blocks), "what each op became"), Gap()


def _ops(targets: Sequence[str]) -> str:
    return ", ".join(words.op_name(target) for target in targets)


def _code(graph: Graph) -> tuple[Block, ...]:
    told = f"# [{graph.compile_id}] {words.STAGES[graph.stage]}, {plural(len(graph.ops), 'op')}"
    return line(quiet(told)), Listing(graph.code)
