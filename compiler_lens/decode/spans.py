"""torch's timed events: from their starts and ends to nested spans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from msgspec import Struct

from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import CompileId
from compiler_lens.recording.model import Span


class TimedMark(Struct, frozen=True):
    """The start or end of one of torch's timed events."""

    compile_id: CompileId | None
    name: str
    phase: str  # "B" or "E"
    at: float  # seconds since the epoch
    thread: int


def read_timed_event(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[TimedMark, ...]:
    """Read `chromium_event`: a dict in the process, its JSON in a log. Instants and counters are left out."""
    values = event.meta if "ph" in event.meta else json.loads(event.text or "{}")
    if values.get("ph") not in ("B", "E"):
        return ()
    return (TimedMark(compile_id.or_none, values["name"], values["ph"], values["ts"] / 1e6, event.thread),)


class _Open(Struct):
    mark: TimedMark
    children: float = 0.0


def join_spans(marks: Iterable[TimedMark]) -> tuple[Span, ...]:
    """Pair each end with the last start of its name on its thread; what never ends is left out.

    The spans come in order of their starts. `self_seconds` of all spans of a thread add up to the time covered.
    """
    threads: dict[int, list[_Open]] = {}
    spans: list[Span] = []
    for mark in marks:
        stack = threads.setdefault(mark.thread, [])
        if mark.phase == "B":
            stack.append(_Open(mark))
        elif any(entry.mark.name == mark.name for entry in reversed(stack)):
            while stack[-1].mark.name != mark.name:
                stack.pop()  # an exception passed over its end
            spans.append(_close(stack, mark))
    return tuple(sorted(spans, key=lambda span: (span.start, span.depth)))


def _close(stack: list[_Open], end: TimedMark) -> Span:
    opened = stack.pop()
    start = opened.mark
    seconds = max(end.at - start.at, 0.0)
    if stack:
        stack[-1].children += seconds
    return Span(
        compile_id=start.compile_id or end.compile_id,  # the outermost span begins before its compilation has an id
        name=start.name,
        start=start.at,
        seconds=seconds,
        thread=start.thread,
        depth=len(stack),
        self_seconds=max(seconds - opened.children, 0.0),
    )
