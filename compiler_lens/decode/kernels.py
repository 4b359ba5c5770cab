"""What our hooks heard of kernels: their post-grad nodes, what they read and write, which were not fused and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from compiler_lens.decode.facts import FinalNode, Fusion, KernelNodes
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import BufferAccess, CompileId, Direction


def read_kernel_nodes(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[KernelNodes, ...]:
    """One entry per code generation call, in order: a kernel launched twelve times has twelve."""
    try:
        entries = tuple((str(name), tuple(map(str, nodes))) for name, nodes in event.meta["kernels"])
        ops = tuple(tuple(map(str, names)) for names in event.meta.get("ops", ()))  # older recordings have none
        return (KernelNodes(compile_id, Direction(event.meta["part"]), entries, event.cached, ops),)
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"kernel nodes of an unknown shape: {error!r}") from error


def read_fusion(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Fusion, ...]:
    """The scheduler's nodes after fusion, and the pairs that it left apart."""
    try:
        nodes = tuple(
            FinalNode(tuple(map(str, ops)), str(kind), _accesses(reads), _accesses(writes))
            for ops, kind, reads, writes in event.meta["nodes"]
        )
        unfused = tuple(
            (str(first), str(second), str(reason), _accesses(shared))
            for first, second, reason, shared in event.meta["refusals"]
        )
        return (Fusion(compile_id, Direction(event.meta["part"]), nodes, unfused),)
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"fusion of an unknown shape: {error!r}") from error


def _accesses(rows: Iterable[tuple[Any, Any]]) -> tuple[BufferAccess, ...]:
    return tuple(BufferAccess(str(name), None if size is None else int(size)) for name, size in rows)
