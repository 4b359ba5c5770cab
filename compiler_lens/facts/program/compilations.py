"""One row per compilation: what it has of graphs, ops and kernels; and identical rows folded."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.program.coverage import FunctionName, function_name, resumed_line
from compiler_lens.recording.model import Compilation, CompileId, GraphStage, Outcome, Recording

_FORWARD = (GraphStage.AOT_FORWARD, GraphStage.AOT_INFERENCE)


class CompilationRow(Struct, frozen=True):
    """One compilation in figures, or several that look the same."""

    name: FunctionName
    resumes_at: int | None  # the line of the break, for a resume function
    outcome: Outcome
    compile_ids: tuple[CompileId, ...]
    graphs: int  # Dynamo graphs: more than one where DDP splits a graph
    dynamo_ops: int | None  # None: no such graph in the recording
    forward_ops: int | None  # ATen ops of the forward, or of the inference graph
    backward_ops: int | None
    kernels: int
    seconds: float | None  # of all compilations in this row, lazy backwards included

    @property
    def times(self) -> int:
        """How many compilations this row stands for."""
        return len(self.compile_ids)


def compilation_rows(recording: Recording) -> tuple[CompilationRow, ...]:
    """Return a row for each compilation, in the order in which they happened."""
    ops: dict[CompileId, Counter[GraphStage]] = defaultdict(Counter)
    graphs: dict[CompileId, Counter[GraphStage]] = defaultdict(Counter)
    for graph in recording.graphs:
        ops[graph.compile_id][graph.stage] += len(graph.ops)
        graphs[graph.compile_id][graph.stage] += 1
    kernels = Counter(kernel.compile_id for kernel in recording.kernels)
    return tuple(
        _row(c, ops[c.compile_id], graphs[c.compile_id], kernels[c.compile_id]) for c in recording.compilations
    )


def folded(rows: tuple[CompilationRow, ...]) -> tuple[CompilationRow, ...]:
    """Fold rows that differ in nothing but id and time into one; each where its first was."""
    groups: dict[CompilationRow, list[CompilationRow]] = {}
    for row in rows:
        groups.setdefault(replace(row, compile_ids=(), seconds=None), []).append(row)
    return tuple(_sum(tuple(group)) for group in groups.values())


def compile_seconds(compilation: Compilation) -> float | None:
    """Return seconds that a compilation took, its lazy backward included."""
    known = [s for s in (compilation.seconds, compilation.backward_seconds) if s is not None]
    return sum(known) if known else None


def _row(
    compilation: Compilation, ops: Counter[GraphStage], graphs: Counter[GraphStage], kernels: int
) -> CompilationRow:
    def count(*stages: GraphStage) -> int | None:
        return sum(ops[s] for s in stages) if any(graphs[s] for s in stages) else None

    dynamo = count(GraphStage.DYNAMO)
    return CompilationRow(
        name=function_name(compilation),
        resumes_at=resumed_line(compilation),
        outcome=compilation.outcome,
        compile_ids=(compilation.compile_id,),
        graphs=graphs[GraphStage.DYNAMO] or int(any(graphs.values())),
        dynamo_ops=compilation.op_count if dynamo is None else dynamo,
        forward_ops=count(*_FORWARD),
        backward_ops=count(GraphStage.AOT_BACKWARD),
        kernels=kernels,
        seconds=compile_seconds(compilation),
    )


def _sum(rows: tuple[CompilationRow, ...]) -> CompilationRow:
    known = [row.seconds for row in rows if row.seconds is not None]
    ids = tuple(i for row in rows for i in row.compile_ids)
    return replace(rows[0], compile_ids=ids, seconds=sum(known) if known else None)
