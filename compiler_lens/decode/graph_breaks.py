"""Graph breaks, and compilations that ended with an exception, from torch's texts about them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from msgspec import Struct

from compiler_lens.decode.compilations import Failure
from compiler_lens.decode.stacks import read_traceback
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import BreakCause, BreakOutcome, CompileId, GraphBreak, SourceLine

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


# -- the exception at the end of a printed traceback

_TRACEBACK = "Traceback (most recent call last):\n"
# What Python writes between the tracebacks of an exception and of one that came of it. A message can hold a
# traceback too (of a worker process), but not after one of these sentences.
_CHAINED = re.compile(
    r"\n\n(?:During handling of the above exception, another exception occurred|"
    r"The above exception was the direct cause of the following exception):\n\n" + re.escape(_TRACEBACK)
)
_RAISED = re.compile(r"^(?P<kind>[^\W\d][\w.<>]*)(?:: (?P<message>.*))?$\Z", re.MULTILINE | re.DOTALL)
# augment_exc_message() in torch/_dynamo/exc.py appends both to the message.
_FROM_USER_CODE = re.compile(r"\n+from user code:\n")
_SETTINGS = re.compile(r"\n+Set TORCHDYNAMO_VERBOSE=1 for .*\Z", re.DOTALL)


class RaisedException(Struct, frozen=True):
    """An exception as Python prints it."""

    kind: str  # the name of its class, without the module
    message: str  # without what Dynamo appends for the terminal
    user_code: str = ""  # the stack that Dynamo appends


def read_exception(text: str) -> RaisedException | None:
    """Read the last exception of a traceback, the one that was raised in the end; None if there is no traceback."""
    text = text.rstrip()
    begin = text.find(_TRACEBACK)
    if begin < 0:
        return None
    for separator in _CHAINED.finditer(text, begin):
        begin = separator.end() - len(_TRACEBACK)
    found = _RAISED.search(text, begin + len(_TRACEBACK))
    if found is None:
        return None
    message, user_code = _without_appendix(found["message"] or "")
    return RaisedException(found["kind"].rpartition(".")[2], message, user_code)


def _without_appendix(message: str) -> tuple[str, str]:
    message = _SETTINGS.sub("", message)
    found = _FROM_USER_CODE.search(message)
    if found is None:
        return message.strip(), ""
    return message[: found.start()].strip(), message[found.end() :]


# -- causes in the terms of torch's graph break registry, from the text that torch makes of them

# unimplemented() in torch/_dynamo/exc.py, for a break that came while handling another one.
_CHAIN = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
# format_graph_break_message() there writes the block, augment_exc_message_with_hop_name() the operator. Every line of
# a value but its first is indented by four, so a name after two blanks is never part of a value.
_FIELD = re.compile(r"^  (Higher Order Operator|Explanation|Hint|Developer debug context):(?: |$)", re.MULTILINE)
_BLOCK = re.compile(r"^  Explanation:", re.MULTILINE)
_END = re.compile(r"\n(?=\S| {1,3}\S)")
_GB_LINK = re.compile(r"^ For more details about this graph break, please visit: \S*/gb(\d+)\.html", re.MULTILINE)
_INDENT = "    "


def read_causes(text: str, kind: str = "") -> tuple[BreakCause, ...]:
    """Return all causes that a text names, the root first.

    `kind` is the exception's class, for a cause without a block.
    """
    parts = text.split(_CHAIN)
    kinds = [""] * (len(parts) - 1) + [kind]  # the exception is the last cause
    return tuple(_cause(part, kind) for part, kind in zip(parts, kinds, strict=True))


def is_registered(text: str) -> bool:
    """Return whether a text names its cause in the registry's terms."""
    return _BLOCK.search(text) is not None


def _cause(text: str, kind: str) -> BreakCause:
    block = _BLOCK.search(text)
    if block is None:
        return _cause_of_exception(text.strip(), kind)
    fields: dict[str, list[str]] = {}
    found = list(_FIELD.finditer(text))
    for field, following in zip(found, [*found[1:], None], strict=True):
        value = text[field.end() : following.start() if following else len(text)]
        fields.setdefault(field[1], []).append(_value(value))
    link = _GB_LINK.search(text, block.end())
    return BreakCause(
        # A sentence of Dynamo's may stand before the block; a gb_type is one line.
        text[: found[0].start()].removesuffix("\n").rpartition("\n")[2],
        f"GB{link[1]}" if link else None,
        _first(fields, "Explanation"),
        tuple(fields.get("Hint", ())),
        _first(fields, "Developer debug context"),
        _first(fields, "Higher Order Operator"),
    )


def _cause_of_exception(text: str, kind: str) -> BreakCause:
    """A cause that the registry does not know: torch's own words, whole."""
    first_line = text.partition("\n")[0].strip()
    return BreakCause(": ".join(part for part in (kind, first_line) if part), explanation=text)


def _value(text: str) -> str:
    ends = _END.search(text)
    first, *rest = text[: ends.start() if ends else len(text)].split("\n")
    return "\n".join((first, *(line.removeprefix(_INDENT) for line in rest))).strip()


def _first(fields: dict[str, list[str]], name: str) -> str:
    return next(iter(fields.get(name, ())), "")
