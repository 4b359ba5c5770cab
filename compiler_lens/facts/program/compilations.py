"""One row per compilation: what it has of graphs, ops and kernels; and identical rows folded."""

from __future__ import annotations

from collections import Counter, defaultdict

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.facts.program.coverage import GIVEN_UP, FunctionName, function_name, resumed_line
from compiler_lens.recording.groups import grouped
from compiler_lens.recording.model import Compilation, CompileId, GraphStage, Outcome, Recording

_NOT_RUN = (Outcome.TRACED, *GIVEN_UP)


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
    rows: list[CompilationRow] = []
    for one in recording.compilations:
        have, counts = graphs[one.compile_id], ops[one.compile_id]
        forward = [stage for stage in (GraphStage.AOT_FORWARD, GraphStage.AOT_INFERENCE) if have[stage]]
        row = CompilationRow(
            name=function_name(one),
            resumes_at=resumed_line(one),
            outcome=one.outcome,
            compile_ids=(one.compile_id,),
            # What is only traced is no graph that was compiled, and what was given up none that runs.
            graphs=0 if one.outcome in _NOT_RUN else have[GraphStage.DYNAMO] or int(any(have.values())),
            dynamo_ops=counts[GraphStage.DYNAMO] if have[GraphStage.DYNAMO] else one.op_count,
            forward_ops=sum(counts[stage] for stage in forward) if forward else None,
            backward_ops=counts[GraphStage.AOT_BACKWARD] if have[GraphStage.AOT_BACKWARD] else None,
            kernels=kernels[one.compile_id],
            seconds=compile_seconds(one),
        )
        rows.append(row)
    return tuple(rows)


def folded(rows: tuple[CompilationRow, ...]) -> tuple[CompilationRow, ...]:
    """Fold rows that differ in nothing but id and time into one; each where its first was."""
    found: list[CompilationRow] = []
    for key, group in grouped(rows, lambda row: replace(row, compile_ids=(), seconds=None)).items():
        known = [row.seconds for row in group if row.seconds is not None]
        ids = tuple(i for row in group for i in row.compile_ids)
        found.append(replace(key, compile_ids=ids, seconds=sum(known) if known else None))
    return tuple(found)


def compile_seconds(compilation: Compilation) -> float | None:
    """Return seconds that a compilation took, its lazy backward included."""
    known = [s for s in (compilation.seconds, compilation.backward_seconds) if s is not None]
    return sum(known) if known else None
