"""Joins what was decided about CUDA graphs at compile time with what happened when they came to run."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from compiler_lens.recording.model import (
    CompileId,
    CudagraphOutcome,
    CudagraphState,
    Direction,
    Graph,
    GraphStage,
    Kernel,
    OutputCode,
)

Place = tuple[str, int]


def join_cudagraphs(
    outcomes: Sequence[CudagraphOutcome],
    graphs: Sequence[Graph],
    codes: Sequence[OutputCode],
    kernels: Sequence[Kernel],
) -> tuple[CudagraphOutcome, ...]:
    """One outcome for each compiled graph.

    A graph skipped at run time is found by the user's line that torch gives as the reason; what is captured but
    leaves kernels outside of its partitions is partitioned.
    """
    at_compile = [outcome for outcome in outcomes if outcome.compile_id.frame is not None]
    at_run = [outcome for outcome in outcomes if outcome.compile_id.frame is None]
    outside = _kernels_outside(codes, kernels)
    known = [_with_partitions(outcome, outside) for outcome in at_compile]
    if at_run:
        _place_skips(known, at_run, _compilations_by_line(graphs))
    return tuple(known)


def _place_skips(
    known: list[CudagraphOutcome], skips: Iterable[CudagraphOutcome], by_line: Mapping[Place, set[CompileId]]
) -> None:
    for skip in skips:
        lines = [(line.file, line.line) for line in skip.user_stack]
        owners = by_line.get(lines[-1], set()) if lines else set()
        matches = [i for i, outcome in enumerate(known) if outcome.compile_id in owners and _may_be_skipped(outcome)]
        if len(matches) == 1:
            found = known[matches[0]]
            known[matches[0]] = replace(skip, compile_id=found.compile_id, direction=found.direction, partitions=0)
        elif not matches or all(outcome.reason != skip.reason for outcome in known):
            known.append(skip)


def _may_be_skipped(outcome: CudagraphOutcome) -> bool:
    return outcome.state in (CudagraphState.CAPTURED, CudagraphState.PARTITIONED)


def _compilations_by_line(graphs: Iterable[Graph]) -> Mapping[Place, set[CompileId]]:
    found: dict[Place, set[CompileId]] = defaultdict(set)
    for graph in graphs:
        if graph.stage is GraphStage.DYNAMO:
            for node in graph.nodes:
                for line in node.source:
                    found[line.file, line.line].add(graph.compile_id)
    return found


def _kernels_outside(
    codes: Sequence[OutputCode], kernels: Sequence[Kernel]
) -> Mapping[tuple[CompileId, Direction], list[str]]:
    """Kernels that partitioned output code launches by itself, outside of the partitions that become CUDA graphs."""
    bodies = {(code.compile_id, code.direction, code.ordinal): _own_lines(code.code) for code in codes}
    found: dict[tuple[CompileId, Direction], list[str]] = defaultdict(list)
    for kernel in kernels:
        body = bodies.get((kernel.compile_id, kernel.direction, kernel.ordinal), range(0))
        if any(launch.line in body for launch in kernel.launches):
            found[kernel.compile_id, kernel.direction].append(kernel.name)
    return found


def _own_lines(code: str) -> range:
    """The lines of the wrapper's own `call`, where it also calls partitions; empty without partitions."""
    if "self.partitions[0](" not in code:
        return range(0)
    start = code[: code.find("def call(self, args):")].count("\n")
    end = code[: code.find("\nrunner = Runner(")].count("\n")
    return range(start + 1, end + 1)


def _with_partitions(
    outcome: CudagraphOutcome, outside: Mapping[tuple[CompileId, Direction], list[str]]
) -> CudagraphOutcome:
    names = outside.get((outcome.compile_id, outcome.direction), []) if outcome.direction else []
    if not names or not _may_be_skipped(outcome):
        return outcome
    reason = outcome.reason or "outside of the CUDA graphs: " + ", ".join(names)
    return replace(outcome, state=CudagraphState.PARTITIONED, reason=reason)
