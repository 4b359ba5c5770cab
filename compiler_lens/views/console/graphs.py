"""Graphs: all compilations, the stages of one, the code of one stage."""

from __future__ import annotations

from collections import Counter

from rich.text import Text

from compiler_lens.facts.program.compilations import compilation_rows, folded
from compiler_lens.facts.program.coverage import function_name
from compiler_lens.facts.program.select import Selection
from compiler_lens.recording.model import CompileId, Decomposition, Graph, Recording
from compiler_lens.render.console.code import code_lines
from compiler_lens.render.console.columns import Column, table
from compiler_lens.render.console.page import CODE, DIM, PLACE, Page, command, line, paragraph, title
from compiler_lens.views import words
from compiler_lens.views.console.compilations import compilation_table
from compiler_lens.views.console.recompiles import named
from compiler_lens.views.text import nbytes, number, plural, times

_OPS = 12


def graph_lines(recording: Recording, selection: Selection, page: Page) -> list[Text]:
    """What `show REC graphs [ID [STAGE]]` shows."""
    if selection.ids is None:
        return _all(recording, page)
    graphs = [g for g in recording.graphs if selection.has(g)]
    if selection.stage is not None:
        return _codes([g for g in graphs if g.stage is selection.stage], page)
    lines: list[Text] = []
    for compile_id in dict.fromkeys(c.compile_id for c in recording.compilations if selection.has(c)):
        lines += [*([Text()] if lines else []), *_one(recording, compile_id, page)]
    return lines or [line("No graphs.")]


def _all(recording: Recording, page: Page) -> list[Text]:
    if not recording.compilations:
        return [line("No compilations.")]
    rows = folded(compilation_rows(recording))
    heading = title("Compilations", f"{number(len(recording.compilations))}, with ops per graph and kernels")
    first = recording.compilations[0].compile_id
    stages = command("stages of one: ", page.show(f"graphs {first}"))
    return [heading, *compilation_table(rows, page), Text(), stages]


def _one(recording: Recording, compile_id: CompileId, page: Page) -> list[Text]:
    compilation = next(c for c in recording.compilations if c.compile_id == compile_id)
    graphs = [g for g in recording.graphs if g.compile_id == compile_id]
    heading = line(("Graphs of ", PLACE), f"[{compile_id}] ", named(function_name(compilation), page))
    if not graphs:
        return [heading, line("none in this recording", indent=2)]
    columns = (
        Column("stage", style=PLACE),
        Column("nodes", right=True),
        Column("ops", right=True),
        Column("most frequent", flexible=True, style=CODE),
    )
    lines = [heading, *table(columns, [_stage(g) for g in graphs], page.width)]
    lines += _saved(graphs)
    lines += _decompositions([d for d in recording.decompositions if d.compile_id == compile_id], page)
    return [*lines, command("code of a stage: ", page.show(f"graphs {compile_id} {graphs[-1].stage.value}"))]


def _stage(graph: Graph) -> tuple[str, ...]:
    ops = Counter(words.op_name(n.target) for n in graph.ops)
    common = ", ".join(f"{op} {times(n)}" if n > 1 else op for op, n in ops.most_common(_OPS))
    part = f" {graph.ordinal}" if graph.ordinal else ""
    return graph.stage.value + part, number(len(graph.nodes)), number(len(graph.ops)), common


def _saved(graphs: list[Graph]) -> list[Text]:
    saved = [s for g in graphs for s in g.saved]
    if not saved:
        return []
    made = [s for s in saved if not s.is_input]
    known = [s.bytes for s in made if s.bytes is not None]
    size = nbytes(sum(known)) + ("" if len(known) == len(made) else " and more of unknown size")
    kept = plural(len(saved) - len(made), "input")
    text = f"{plural(len(made), 'tensor')} ({size}), and keeps {kept} alive"
    return [line(("forward saves for backward: ", DIM), text, indent=2)]


def _decompositions(found: list[Decomposition], page: Page) -> list[Text]:
    """What each torch-level op became, the same story told once."""
    stories = Counter((d.target, d.forward, d.backward) for d in found)
    if not stories:
        return []
    lines = [Text(), title("Decompositions", "what each op became")]
    for (target, forward, backward), n in stories.most_common():
        several = f" {times(n)}" if n > 1 else ""
        told = line((words.op_name(target), PLACE), several, " → ", (_ops(forward) or "nothing", CODE))
        lines += paragraph(told, page.width, 2)
        lines += paragraph(line(("backward: ", DIM), (_ops(backward), CODE)), page.width, 6) if backward else []
    return [*lines, Text()]


def _ops(targets: tuple[str, ...]) -> str:
    return ", ".join(words.op_name(target) for target in targets)


def _codes(graphs: list[Graph], page: Page) -> list[Text]:
    lines: list[Text] = []
    for graph in graphs:
        heading = line((f"# [{graph.compile_id}] {words.STAGES[graph.stage]}, {plural(len(graph.ops), 'op')}", DIM))
        lines += [heading, *code_lines(graph.code, page)]
    return lines
