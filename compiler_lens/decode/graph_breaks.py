"""Graph breaks, and compilations that ended with an exception, from torch's texts about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from compiler_lens.decode.compilations import Failure
from compiler_lens.decode.exceptions import RaisedException, read_exception
from compiler_lens.decode.registry_text import is_registered, read_causes
from compiler_lens.decode.stacks import read_traceback
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import BreakOutcome, CompileId, GraphBreak, SourceLine

# log_graph_break() in torch/_dynamo/symbolic_convert.py; the attribution is new in torch 2.12.
_TRACING = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)\nGraph Break Reason: ")
_ATTRIBUTION = "\n\nStack variable source attribution:\n"
_USER_CODE = "\n\nUser code traceback:\n"
# torch's own traceback, or what format_exc() makes of none.
_TORCH_TRACEBACK = re.compile(r"^(?:Traceback \(most recent call last\):|NoneType: None)$", re.MULTILINE)
_PREFIX = re.compile(r"((?:Encountered|Failed to handle) graph break[^\n]*?)(?: Graph break encountered)?:\n\n")
# What step() and run_() in torch/_dynamo/symbolic_convert.py say before the cause. Anything else only splits.
_OUTCOMES = {
    "Encountered graph break that we cannot resume from": BreakOutcome.SKIPPED_REST,
    "Failed to handle graph break gracefully": BreakOutcome.SKIPPED_FRAME,
}

# ConvertFrame.__call__() in torch/_dynamo/convert_frame.py.
_SKIP = re.compile(
    r"(?P<reason>Graph break: torch\.compile cannot properly resume[^\n]*)\n"
    r"torch\.compile will skip tracing the frame (?P<function>\S+) \((?P<file>[^\n]*) line (?P<line>\d+)\)[^\n]*\n"
    r"The graph break occurred in the following user code:\n"
)

# format_error_msg_verbose() in torch/_dynamo/exc.py, sent by unimplemented_with_warning() just before it raises the
# break that log_graph_break() reports again.
_BACKEND = re.compile(r"(?P<reason>WON'T CONVERT (?P<function>\S+) (?P<file>.*) line (?P<line>\d+))\n")
_PROCESSED = "The above exception occurred while processing the following code"


def read_graph_break(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[GraphBreak, ...]:
    """Return one break, in the words of whichever part of torch reported it."""
    text = event.text or ""
    for shape, read in _SHAPES:
        if found := shape.match(text):
            return (read(found, event, compile_id),)
    raise PayloadError(f"{event.name}: an unknown beginning: {text[:80]!r}")


def _told_by_tracing(head: re.Match[str], event: Event, compile_id: CompileId) -> GraphBreak:
    told, _, after = head.string[head.end() :].partition(_USER_CODE)
    said = told.partition(_ATTRIBUTION)[0]
    stack_text, exception = _split_traceback(after)
    prefix = _PREFIX.match(said)
    reason = prefix[1] if prefix else ""
    stack = read_traceback(stack_text)
    return GraphBreak(
        compile_id,
        event.attempt,
        causes=read_causes(said[prefix.end() :] if prefix else said, _kind(exception)),
        reason=reason,
        user_stack=stack,
        location=_location(head["file"], int(head["line"]), stack),
        outcome=next((what for words, what in _OUTCOMES.items() if reason.startswith(words)), BreakOutcome.SPLIT),
        text=head.string,
    )


def _told_by_skip(head: re.Match[str], event: Event, compile_id: CompileId) -> GraphBreak:
    stack_text, exception = _split_traceback(head.string[head.end() :])
    stack = read_traceback(stack_text)
    return GraphBreak(
        compile_id,
        event.attempt,
        causes=read_causes(exception.message if exception else "", _kind(exception)),
        reason=head["reason"],
        user_stack=stack,
        location=stack[-1] if stack else SourceLine(head["file"], int(head["line"]), head["function"]),
        outcome=BreakOutcome.SKIPPED_FRAME,
        text=head.string,
    )


def _told_by_backend(head: re.Match[str], event: Event, compile_id: CompileId) -> GraphBreak:
    told, _, processed = head.string[head.end() :].partition(_PROCESSED)
    exception = read_exception(told.rstrip("\n="))
    return GraphBreak(
        compile_id,
        event.attempt,
        causes=read_causes(exception.message if exception else "", _kind(exception)),
        reason=head["reason"],
        user_stack=read_traceback(processed),
        location=SourceLine(head["file"], int(head["line"]), head["function"]),
        outcome=BreakOutcome.SKIPPED_FRAME,
        text=head.string,
    )


_SHAPES = ((_TRACING, _told_by_tracing), (_SKIP, _told_by_skip), (_BACKEND, _told_by_backend))


def _split_traceback(text: str) -> tuple[str, RaisedException | None]:
    """The user's stack, and the exception of torch's own traceback after it."""
    found = _TORCH_TRACEBACK.search(text)
    return (text[: found.start()], read_exception(text[found.start() :])) if found else (text, None)


def _kind(exception: RaisedException | None) -> str:
    return exception.kind if exception else ""


def _location(file: str, line: int, stack: Sequence[SourceLine]) -> SourceLine:
    here = (frame for frame in reversed(stack) if (frame.file, frame.line) == (file, line))
    return next(here, SourceLine(file, line))


def read_dynamo_error(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Failure, ...]:
    """Read the exception that ended a compilation: an error for the user, or a frame that Dynamo gives up on."""
    text = event.text or ""
    raised = read_exception(text)
    if raised is None:
        raise PayloadError(f"{event.name}: not a traceback: {text[:80]!r}")
    known = read_causes(raised.message)[0] if is_registered(raised.message) else None
    stack = read_traceback(raised.user_code)
    message = f"{raised.kind}: {known.gb_type if known else raised.message}"
    return (Failure(compile_id, known, message, stack[-1] if stack else None, text),)
