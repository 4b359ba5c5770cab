"""torch's structured trace, received in the process while it compiles.

A `logging.Handler` on torch's trace logger sees every record. torch renders all payloads as soon as anybody
listens, also those that nobody reads (a graph before each pass, 34 to 61 ms each): `WantedOnly` lets it render
what we want and nothing else.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from compiler_lens.capture.torch_api import structured_trace
from compiler_lens.decode.fold import WANTED
from compiler_lens.recording.event import RECORD_CONTEXT
from compiler_lens.recording.resume_names import is_bytecode

# name, metadata, payload
Sink = Callable[[str, Any, str | None], None]


class TraceHandler(logging.Handler):
    """Hands each record that a reader wants to the sink. The sink must not raise: we are inside a compilation."""

    def __init__(self, sink: Sink) -> None:
        super().__init__(logging.DEBUG)
        self.sink = sink

    def handle(self, record: logging.LogRecord) -> bool:
        """Take a record without the handler's lock, which a forked child could inherit locked."""
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):  # somebody else's message
            return True
        name = next((key for key in metadata if key not in RECORD_CONTEXT), None)
        if name is None:
            return True
        value = metadata[name]
        if name == "artifact" and isinstance(value, dict):
            name = str(value.get("name"))
        if name in WANTED or is_bytecode(name):  # bytecode of a resume function has that one's name in its own
            self.sink(name, value, getattr(record, "payload", None))
        return True


class WantedOnly(list[logging.Handler]):
    """The logger's handlers, which answers "is there any?" by whether somebody wants the record at hand.

    trace_structured() in torch/_logging/_internal.py asks `if trace_log.handlers:` before it renders a payload;
    its parameters `name`, `metadata_fn` and `payload_fn` are read from its frame. Where that fails, or where
    somebody else listens too, the answer is yes and all is rendered, as without us.
    """

    def __init__(self, handlers: Iterable[logging.Handler], ours: TraceHandler, trace_code: Any) -> None:
        super().__init__(handlers)
        self._ours = ours
        self._trace_code = trace_code

    def __bool__(self) -> bool:
        if any(self._is_listening(handler) for handler in self):
            return True
        frame = sys._getframe(1)  # noqa: SLF001 -- the one way to see who asks
        if frame.f_code is not self._trace_code:
            # The partitioner asks too, and renders extra graphs on failure if anybody listens.
            return False
        try:
            name, timed = structured_trace.requested(frame.f_locals)
        except Exception:  # noqa: BLE001 -- torch's locals, whatever they have become
            return True
        if name == "chromium_event":
            if timed is not None:
                self._ours.sink(name, timed, None)
            return False
        return name in WANTED or is_bytecode(name)

    def _is_listening(self, handler: logging.Handler) -> bool:
        # A LazyTraceHandler without a folder (no TORCH_TRACE) removes itself at its first record.
        return handler is not self._ours and getattr(handler, "root_dir", handler) is not None


def cache_answer(meta: Mapping[str, Any], text: str) -> tuple[Mapping[str, Any], str]:
    """Return an FX graph cache event with the parts of its key taken out of the text, into texts of their own.

    They are 70 kB a graph, of which the settings are the same in every compilation: apart, the journal keeps them once.
    """
    try:
        answer = json.loads(text)
        parts: list[str] = answer.pop("components")
        settings = "\n".join(part for part in parts if "] inductor_config[" in part[:90])
        others = "\n".join(part for part in parts if "] inductor_config[" not in part[:90])
    except (ValueError, KeyError, TypeError):
        return meta, text
    return {**meta, "key_settings": settings, "key_parts": others}, json.dumps(answer)
