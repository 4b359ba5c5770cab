"""Sizes that became symbols, and symbols that were pinned to a value."""

from __future__ import annotations

from collections.abc import Mapping

from compiler_lens.decode.stacks import read_stack
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, Symbol

_PINNED = "symbolic_shape_specialization"


def read_symbols(event: Event, compile_id: CompileId, files: Mapping[int, str]) -> tuple[Symbol, ...]:
    """Read one symbol, as torch made it or as torch gave it up (torch/fx/experimental/symbolic_shapes.py)."""
    meta = event.meta
    name = meta.get("symbol")
    if not isinstance(name, str):
        raise PayloadError(f"{event.name} without a symbol")
    symbol = Symbol(
        compile_id,
        name,
        # A symbol that came out of the computation has no source; one that several inputs share has several.
        source=meta.get("source") or ", ".join(meta.get("sources") or ()),
        value=str(meta.get("val") or meta.get("value") or ""),
        value_range=meta.get("vr") or "",
        specialized=event.name == _PINNED,
        reason=meta.get("reason") or "",
        user_stack=read_stack(meta.get("user_stack"), files),
    )
    return (symbol,)
