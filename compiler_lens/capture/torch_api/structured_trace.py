"""torch's structured trace: its logger, the function that every record goes through, and its table of file names."""

from __future__ import annotations

import logging
from typing import Any


def trace_logger() -> logging.Logger:
    """Return the logger that torch's structured trace goes through."""
    return logging.getLogger("torch.__trace")


def trace_structured_code() -> Any:
    """Return the code object of torch's trace function, to recognise its frame."""
    from torch._logging import _internal

    return _internal.trace_structured.__code__


def requested(parameters: dict[str, Any]) -> tuple[str, dict[str, Any] | None]:
    """Return which event a call of trace_structured() is about, from its locals; and a timed one's begin or end itself.

    The payload of a timed event is a dict: taking it here spares its JSON, its hash and a log record, a hundred
    times a frame.
    """
    name = parameters["name"]
    if name == "artifact":
        return parameters["metadata_fn"]()["name"], None
    if name != "chromium_event":
        return name, None
    event = parameters["payload_fn"]()
    return name, {key: event[key] for key in ("name", "ph", "ts")} if event["ph"] in ("B", "E") else None


def interned_files() -> dict[str, int]:
    """Return the file names that the trace refers to by number."""
    from torch._logging import structured

    table: dict[str, int] = structured.INTERN_TABLE
    return table.copy()  # in one step: other threads may be compiling
