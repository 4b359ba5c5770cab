"""One thing that happened, as torch or our hooks reported it: unit of the journal and input of every reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, field

# A torch frame id, its recompile number and the compiled-autograd id; each may be unknown.
TorchId = tuple[int | None, int | None, int | None]

NO_ID: TorchId = (None, None, None)

# What trace_structured() in torch/_logging/_internal.py adds to a record beside its name; torch reserves these words.
RECORD_CONTEXT = frozenset(
    ("rank", "compiled_autograd_id", "frame_id", "frame_compile_id", "attempt", "stack", "has_payload", "subgraph_name")
)

# Holds the frame that torch compiles in place of a module's forward (2.11 to 2.15).
WRAPPER_FILE = "torch/_dynamo/external_utils.py"


# What is in a line of a journal: a struct that has these names is written without being made another.
_WRITTEN = {"name": "e", "torch_id": "id", "attempt": "n", "meta": "m", "text": "x", "thread": "th", "cached": "c"}


class Event(Struct, frozen=True, omit_defaults=True, rename=_WRITTEN):
    """One event, torch's own or one of our hooks'.

    `name` is torch's record name; an artifact goes by its artifact name ("dynamo_graph_break_reason").
    Names of our own hooks start with "lens.". `meta` is plain JSON data and `text` the payload as torch
    rendered it: neither is interpreted before a reader sees it.
    """

    name: str
    at: float  # seconds since the epoch; for events of a torch log without one, 0.0
    run: int | None = None  # tells compilations apart that share a torch id (after a reset); None: outside of any
    torch_id: TorchId = NO_ID
    attempt: int = 0
    meta: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    thread: int = 0
    cached: bool = False  # read back from beside a cache entry, not seen in this process
