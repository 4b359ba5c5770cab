"""From starts and ends of torch's timed events to nested spans."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from compiler_lens.decode.facts import TimedMark
from compiler_lens.recording.model import CompileId, Span


@dataclass(slots=True)
class _Open:
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
        elif stack and stack[-1].mark.name == mark.name:
            spans.append(_close(stack, mark))
        elif any(entry.mark.name == mark.name for entry in stack):
            while stack[-1].mark.name != mark.name:
                stack.pop()  # an exception passed over its end
            spans.append(_close(stack, mark))
    return tuple(sorted(spans, key=lambda span: (span.start, span.depth)))


def _close(stack: list[_Open], end: TimedMark) -> Span:
    opened = stack.pop()
    seconds = max(end.at - opened.mark.at, 0.0)
    if stack:
        stack[-1].children += seconds
    return Span(
        compile_id=_owner(opened.mark, end),
        name=opened.mark.name,
        start=opened.mark.at,
        seconds=seconds,
        thread=opened.mark.thread,
        depth=len(stack),
        self_seconds=max(seconds - opened.children, 0.0),
    )


def _owner(start: TimedMark, end: TimedMark) -> CompileId | None:
    # The outermost span begins before its compilation has an id.
    return start.compile_id or end.compile_id
