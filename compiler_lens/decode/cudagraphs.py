"""What became of CUDA graphs for a compiled graph."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from compiler_lens.decode.facts import CodeKey
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, CudagraphOutcome, CudagraphState, Direction, SourceLine

# format_default_skip_message() in torch/_inductor/cudagraph_utils.py; CompiledFxGraph puts it before a reason that
# has it already.
_PREFIX = re.compile(r"^(?:skipping cudagraphs due to )+")
# get_mutation_stack_trace() and check_multiple_devices_or_any_cpu_nodes() there: "<reason>. Found from : \n <stack>"
_STACK = re.compile(r"\.? *Found from *: *\n")
_FRAME = re.compile(r'File "([^"]+)", line (\d+), in (\S+)\n\s*([^\n]*)')


def read_cudagraph(
    event: Event, compile_id: CompileId, _files: Mapping[int, str]
) -> tuple[CudagraphOutcome | CodeKey, ...]:
    """The outcome for one compiled graph, as our hook saw it after compiling, and the graph's key."""
    meta = event.meta
    try:
        direction, state = Direction(meta["part"]) if meta.get("part") else None, CudagraphState(meta["state"])
        reason, partitions = str(meta.get("reason") or ""), int(meta.get("partitions") or 0)
        outcome = _outcome(compile_id, direction, state, reason, partitions)
        key = str(meta.get("key", ""))  # recordings of before it was told have none
        return (outcome, CodeKey(compile_id, direction, key)) if direction and "key" in meta else (outcome,)
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"a CUDA graph outcome of an unknown shape: {error!r}") from error


def cudagraph_from_metrics(
    values: Mapping[str, Any], compile_id: CompileId, direction: Direction | None = None
) -> tuple[CudagraphOutcome, ...]:
    """The outcome that `compilation_metrics` tells of: a skip and its reason, or nothing."""
    reason = values.get("cudagraph_skip_reason")
    return (_outcome(compile_id, direction, CudagraphState.SKIPPED, str(reason), 0),) if reason else ()


def _outcome(
    compile_id: CompileId, direction: Direction | None, state: CudagraphState, text: str, partitions: int
) -> CudagraphOutcome:
    reason, *stack = _STACK.split(_PREFIX.sub("", text), maxsplit=1)
    lines = tuple(
        SourceLine(file, int(line), function, code.strip())
        for file, line, function, code in _FRAME.findall("".join(stack))
    )
    return CudagraphOutcome(compile_id, direction, state, reason.strip(), partitions, lines)


def read_cudagraph_skip(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[CudagraphOutcome, ...]:
    """`lens.cudagraph_skip`: what Inductor logs when it skips a CUDA graph.

    While it compiles the hook on the compiled graph tells the same; at run time nobody knows the compilation.
    """
    if compile_id.frame is not None:
        return ()
    return (_outcome(compile_id, None, CudagraphState.SKIPPED, str(event.meta["message"]), 0),)
