"""Graphs: all compilations, the stages of one, the code of one stage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from msgspec import Struct

from compiler_lens.facts.program.compilations import CompilationRow, compilation_rows, folded
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CompileId, Decomposition, Graph, Recording
from compiler_lens.views import document as doc
from compiler_lens.views import words
from compiler_lens.views.compilations import compilation_table, named
from compiler_lens.views.document import Column, Document, Section, line, paragraph
from compiler_lens.views.parts import Kind, Tone, code, quiet, strong
from compiler_lens.views.text import nbytes, number, plural, times

_OPS = 12  # of a graph, the most frequent
_STAGES = (
    Column("stage", tone=Tone.STRONG),
    Column("nodes", Kind.COUNT),
    Column("ops", Kind.COUNT),
    Column("most frequent", tone=Tone.CODE, flexible=True),
)


class Data(Struct, frozen=True):
    """Compilations; of those that were asked for also their graphs, and what each op became."""

    compilations: tuple[CompilationRow, ...]
    graphs: tuple[Graph, ...] = ()
    decompositions: tuple[Decomposition, ...] = ()


def document(recording: Recording, selection: Selection) -> Document:
    """Return all compilations; of one its graphs; of one stage its code."""
    rows, count = compilation_rows(recording), len(recording.compilations)
    if selection.ids is None:
        shown = _all(recording, rows if selection.for_page else folded(rows))
        return Document((shown,), Data(rows), count=count)
    graphs = tuple(graph for graph in recording.graphs if selection.has(graph))
    if selection.stage is not None:
        graphs = tuple(graph for graph in graphs if graph.stage is selection.stage)
    made_of = tuple(one for one in recording.decompositions if selection.has(one))
    data = Data(tuple(row for row in rows if row.compile_ids[0] in selection.ids), graphs, made_of)
    blocks: list[doc.Block] = []
    if selection.stage is not None:
        for graph in graphs:
            told = f"# [{graph.compile_id}] {words.STAGES[graph.stage]}, {plural(len(graph.ops), 'op')}"
            blocks += [line(quiet(told)), doc.Listing(graph.code)]
        return Document(tuple(blocks), data, count=count)
    for compile_id in dict.fromkeys(one.compile_id for one in recording.compilations if selection.has(one)):
        blocks.append(Section("", tuple(_one(recording, compile_id))))
    return Document(tuple(blocks) or (line("No graphs."),), data, count=count)


def _all(recording: Recording, rows: tuple[CompilationRow, ...]) -> doc.Block:
    if not recording.compilations:
        return line("No compilations.")
    stages = doc.Command("stages of one: ", f"graphs {recording.compilations[0].compile_id}")
    told = f"{number(len(recording.compilations))}, with ops per graph and kernels"
    return Section("Compilations", (compilation_table(rows), doc.Gap(), stages), told)


def _one(recording: Recording, compile_id: CompileId) -> Iterator[doc.Block]:
    compilation = next(one for one in recording.compilations if one.compile_id == compile_id)
    graphs = [graph for graph in recording.graphs if graph.compile_id == compile_id]
    yield line(strong("Graphs of "), f"[{compile_id}] ", *named(function_name(compilation)))
    if not graphs:
        yield line("none in this recording", indent=2)
        return
    rows = []
    for graph in graphs:
        ops = Counter(words.op_name(node.target) for node in graph.ops).most_common(_OPS)
        common = ", ".join(f"{op} {times(count)}" if count > 1 else op for op, count in ops)
        part = f" {graph.ordinal}" if graph.ordinal else ""
        rows.append((graph.stage.value + part, len(graph.nodes), len(graph.ops), common))
    yield doc.Table(_STAGES, tuple(rows))
    saved = [tensor for graph in graphs for tensor in graph.saved]
    if saved:
        made = [tensor for tensor in saved if not tensor.is_input]
        known = [tensor.bytes for tensor in made if tensor.bytes is not None]
        size = nbytes(sum(known)) + ("" if len(known) == len(made) else " and more of unknown size")
        kept = plural(len(saved) - len(made), "input")
        told = f"{plural(len(made), 'tensor')} ({size}), and keeps {kept} alive"
        yield line(quiet("forward saves for backward: "), told, indent=2)
    made_of = [one for one in recording.decompositions if one.compile_id == compile_id]
    if made_of:
        yield Section("Decompositions", tuple(_decompositions(made_of)), "what each op became")
        yield doc.Gap()
    yield doc.Command("code of a stage: ", f"graphs {compile_id} {graphs[-1].stage.value}")


def _decompositions(found: Sequence[Decomposition]) -> Iterator[doc.Block]:
    """What each torch-level op became, the same once."""
    kinds = Counter((one.target, one.forward, one.backward) for one in found)
    for (target, *became), count in kinds.most_common():
        forward, backward = (", ".join(map(words.op_name, targets)) for targets in became)
        several = f" {times(count)}" if count > 1 else ""
        yield paragraph(strong(words.op_name(target)), several, " → ", code(forward or "nothing"), indent=2)
        if backward:
            yield paragraph(quiet("backward: "), code(backward), indent=6)
