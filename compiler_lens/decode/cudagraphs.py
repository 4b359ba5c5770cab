"""CUDA graphs: what was decided about each compiled graph, and what happened when it came to run."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cache

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.frames import Figures
from compiler_lens.decode.kernels import CodeKey
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CodeId, CompileId, Direction, GraphStage, SourcePlace
from compiler_lens.recording.model import CudagraphOutcome, CudagraphState, Graph, Kernel, OutputCode, SourceLine
from compiler_lens.recording.shape import Count, shaped

# format_default_skip_message() in torch/_inductor/cudagraph_utils.py; CompiledFxGraph puts it before a reason that
# has it already.
_PREFIX = re.compile(r"^(?:skipping cudagraphs due to )+")
# get_mutation_stack_trace() and check_multiple_devices_or_any_cpu_nodes() there: "<reason>. Found from : \n <stack>"
_STACK = re.compile(r"Found from *: *\n")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*([^\n]*)')


class _Told(Struct, frozen=True):
    state: CudagraphState
    part: Direction | None = None
    reason: str | None = None
    partitions: Count | None = None
    key: str | None = None  # older recordings have none


def read_cudagraph(
    event: Event, compile_id: CompileId, _files: Mapping[int, str]
) -> tuple[CudagraphOutcome | CodeKey, ...]:
    """Read the outcome for one compiled graph, as our hook saw it after compiling, and the graph's key."""
    told = shaped(_Told, event.meta)
    outcome = _outcome(compile_id, told.part, told.state, told.reason or "", told.partitions or 0)
    if told.part is None or told.key is None:
        return (outcome,)
    return outcome, CodeKey(compile_id, told.part, told.key)


def read_cudagraph_skip(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[CudagraphOutcome, ...]:
    """Read `lens.cudagraph_skip`: what Inductor logs when it skips a CUDA graph.

    While it compiles the hook on the compiled graph says the same; at run time the compilation is not known.
    """
    if compile_id.frame is not None:
        return ()
    return (_outcome(compile_id, None, CudagraphState.SKIPPED, shaped(str, event.meta.get("message")), 0),)


def cudagraph_from_metrics(
    figures: Figures, compile_id: CompileId, direction: Direction | None = None
) -> tuple[CudagraphOutcome, ...]:
    """Return the outcome that `compilation_metrics` reports: a skip and its reason, or nothing."""
    reason = figures.cudagraph_skip_reason
    return (_outcome(compile_id, direction, CudagraphState.SKIPPED, reason, 0),) if reason else ()


def _outcome(
    compile_id: CompileId, direction: Direction | None, state: CudagraphState, text: str, partitions: int
) -> CudagraphOutcome:
    reason, *stack = _STACK.split(_PREFIX.sub("", text), maxsplit=1)
    lines = tuple(
        SourceLine(file, int(line), function, code.strip())
        for file, line, function, code in _FRAME.findall("".join(stack))
    )
    reason = reason.rstrip(" ").removesuffix(".") if stack else reason
    return CudagraphOutcome(compile_id, direction, state, reason.strip(), partitions, lines)


# -- joined


def join_cudagraphs(
    outcomes: Sequence[CudagraphOutcome],
    graphs: Sequence[Graph],
    codes: Sequence[OutputCode],
    kernels: Sequence[Kernel],
) -> tuple[CudagraphOutcome, ...]:
    """Return one outcome for each compiled graph.

    A graph skipped at run time is found by the user's line that torch gives as the reason; what is captured but
    leaves kernels outside of its partitions is partitioned.
    """
    outside = _kernels_outside(codes, kernels)
    known = []
    for outcome in outcomes:
        if outcome.compile_id.frame is not None:
            names = outside.get(CodeId(outcome.compile_id, outcome.direction)) if outcome.direction else None
            if names and outcome.state in _RUNS:
                reason = outcome.reason or "outside of the CUDA graphs: " + ", ".join(names)
                known.append(replace(outcome, state=CudagraphState.PARTITIONED, reason=reason))
            else:
                known.append(outcome)
    skips = [outcome for outcome in outcomes if outcome.compile_id.frame is None]
    by_line = _compilations_by_line(graphs) if skips else {}
    for skip in skips:
        owners = by_line.get(skip.user_stack[-1].place, set()) if skip.user_stack else set()
        matches = [i for i, each in enumerate(known) if each.compile_id in owners and each.state in _RUNS]
        if len(matches) == 1:
            found = known[matches[0]]
            known[matches[0]] = replace(skip, compile_id=found.compile_id, direction=found.direction, partitions=0)
        elif not matches or all(each.reason != skip.reason for each in known):
            known.append(skip)
    return tuple(known)


_RUNS = frozenset((CudagraphState.CAPTURED, CudagraphState.PARTITIONED))  # only such a graph can be skipped when run


def _compilations_by_line(graphs: Iterable[Graph]) -> Mapping[SourcePlace, set[CompileId]]:
    found: dict[SourcePlace, set[CompileId]] = defaultdict(set)
    for graph in graphs:
        if graph.stage is GraphStage.DYNAMO:
            for node in graph.nodes:
                for line in node.source:
                    found[line.place].add(graph.compile_id)
    return found


def _lines_beside_partitions(code: str) -> range:
    """The lines of the wrapper's own `call`, where it also calls partitions."""
    if "self.partitions[0](" not in code:
        return range(0)
    start = code[: code.find("def call(self, args):")].count("\n")
    end = code[: code.find("\nrunner = Runner(")].count("\n")
    return range(start + 1, end + 1)


def _kernels_outside(codes: Iterable[OutputCode], kernels: Iterable[Kernel]) -> Mapping[CodeId, list[str]]:
    """Kernels that partitioned output code launches by itself, outside of the partitions that become CUDA graphs.

    An outcome does not say of which of several output codes it is: kernels of all of them are listed with the first.
    """
    lines_of = cache(_lines_beside_partitions)  # several codes may be one text
    bodies = {code.id: lines_of(code.code) for code in codes}
    found: dict[CodeId, list[str]] = defaultdict(list)
    for kernel in kernels:
        body = bodies.get(kernel.code_id, range(0))
        if any(launch.line in body for launch in kernel.launches):
            found[CodeId(kernel.compile_id, kernel.direction)].append(kernel.name)
    return found
