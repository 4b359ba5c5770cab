"""Which post-grad nodes each kernel computes, as our hook heard it during code generation."""

from __future__ import annotations

from collections.abc import Mapping

from compiler_lens.errors import PayloadError
from compiler_lens.event import Event
from compiler_lens.model import CompileId, Pass
from compiler_lens.readers.facts import KernelNodes


def read_kernel_nodes(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[KernelNodes, ...]:
    """One entry per code generation call, in order: a kernel launched twelve times has twelve."""
    try:
        entries = tuple((str(name), tuple(map(str, nodes))) for name, nodes in event.meta["kernels"])
        return (KernelNodes(compile_id, Pass(event.meta["part"]), entries, event.cached),)
    except (KeyError, TypeError, ValueError) as error:
        raise PayloadError(f"kernel nodes of an unknown shape: {error!r}") from error
