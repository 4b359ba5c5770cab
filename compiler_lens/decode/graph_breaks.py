"""Graph breaks, and compilations that ended with an exception, from torch's texts about them."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import zip_longest

from msgspec import Struct
from msgspec.structs import replace

from compiler_lens.decode.frames import Failure
from compiler_lens.decode.shared_text import EACH_ITS_OWN, Texts
from compiler_lens.decode.stacks import read_traceback
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.ids import NO_COMPILATION
from compiler_lens.recording.model import BreakCause, BreakOutcome, CompileId, GraphBreak, SourceLine
from compiler_lens.recording.own_files import is_own
from compiler_lens.recording.shape import Count, shaped

# log_graph_break() in torch/_dynamo/symbolic_convert.py; the attribution is new in torch 2.12.
_TRACING = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d{1,9})\nGraph Break Reason: ")
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
    r"torch\.compile will skip tracing the frame (?P<function>\S+) \((?P<file>[^\n]*) line (?P<line>\d{1,9})\)[^\n)]*\n"
    r"The graph break occurred in the following user code:\n"
)

# format_error_msg_verbose() in torch/_dynamo/exc.py, sent by unimplemented_with_warning() just before it raises the
# break that log_graph_break() reports again.
_BACKEND = re.compile(r"(?P<reason>WON'T CONVERT (?P<function>\S+) (?P<file>.*) line (?P<line>\d{1,9}))\n")
_PROCESSED = "The above exception occurred while processing the following code"


def read_graph_break(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[GraphBreak, ...]:
    """Return one break, in the words of whichever part of torch reported it: tracing, a skipped frame, a backend."""
    found = texts.read(read_reason, event.text or "")
    stack = with_callers(found.user_stack, shaped(_Frames, event.meta).frames)
    return (replace(found, compile_id=compile_id, attempt=event.attempt, user_stack=stack),)


class _Frames(Struct, frozen=True):
    """What we write beside a graph break of which torch's text leaves out callers."""

    frames: tuple[tuple[str, Count, str, str], ...] = ()  # file, line, function, code


def with_callers(stack: tuple[SourceLine, ...], frames: Sequence[tuple[str, int, str, str]]) -> tuple[SourceLine, ...]:
    """Return a stack with the callers that torch left out of its end; as it is, if that is not the end of these."""
    every = tuple(SourceLine(file, line, function, code) for file, line, function, code in frames)
    ends = [one for one, after in zip_longest(every, every[1:]) if after is None or one.function != after.function]
    if not ends or [one.place for one in stack[-len(ends) :]] != [one.place for one in ends]:
        return stack
    return (*stack[: -len(ends)], *every)


def read_reason(text: str) -> GraphBreak:
    """Read what torch reported, as a break of no compilation. Raises `PayloadError` for what begins otherwise."""
    head = _TRACING.match(text) or _SKIP.match(text) or _BACKEND.match(text)
    if head is None:
        raise PayloadError(f"an unknown beginning: {text[:80]!r}")
    told, after, raised = "", text[head.end() :], None
    after_all = after
    if head.re is _BACKEND:
        told, _, after = after.partition(_PROCESSED)
        raised = read_exception(told.rstrip("\n= "))
    else:
        if head.re is _TRACING:
            told, _, after = after.partition(_USER_CODE)
        if traceback := _TORCH_TRACEBACK.search(after):
            raised = read_exception(after[traceback.start() :])
            after = after[: traceback.start()]
    stack = read_traceback(after)
    outcome, words = BreakOutcome.SKIPPED_FRAME, head.groupdict()
    location = SourceLine(head["file"], int(head["line"]), words.get("function") or "")
    if head.re is _TRACING:
        told = told.partition(_ATTRIBUTION)[0]
        prefix = _PREFIX.match(told)
        reason = prefix[1] if prefix else ""
        said = told[prefix.end() :] if prefix else told
        outcome = next((what for start, what in _OUTCOMES.items() if reason.startswith(start)), BreakOutcome.SPLIT)
        location = next((frame for frame in reversed(stack) if frame.place == location.place), location)
    else:
        reason, said = words["reason"], raised.message if raised else ""
        location = stack[-1] if stack and head.re is _SKIP else location
    causes = read_causes(said, raised.kind if raised else "")
    if first := _led_to(causes, after_all):
        causes = (first, *causes)
    return GraphBreak(NO_COMPILATION, 0, causes, reason, stack, location, outcome, text=text)


# raise_loop_graph_break() in torch/_dynamo/symbolic_convert.py hands on the message of another break, but of no other
# error: that stands in the traceback alone.
_IN_A_LOOP = "graph break in loop"


def _led_to(causes: tuple[BreakCause, ...], text: str) -> BreakCause | None:
    """Return the error that a break in a loop came of, where torch's message does not say it; None if there is none."""
    if len(causes) != 1 or causes[0].gb_type != _IN_A_LOOP:
        return None
    separators = list(_CHAINED.finditer(text))
    raised = read_exception(text[: separators[-1].start()]) if separators else None
    return read_causes(raised.message, raised.kind)[0] if raised and raised.message else None


def read_dynamo_error(
    event: Event, compile_id: CompileId, _files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[Failure, ...]:
    """Read the exception that ended a compilation: an error for the user, or a frame that Dynamo gives up on."""
    return (replace(texts.read(read_failure, event.text or ""), compile_id=compile_id),)


def read_failure(text: str) -> Failure:
    """Read a printed exception, as the failure of no compilation. Raises `PayloadError` for what is no traceback."""
    raised = read_exception(text)
    if raised is None:
        raise PayloadError(f"not a traceback: {text[:80]!r}")
    known = read_causes(raised.message)[0] if _BLOCK.search(raised.message) else None
    head, _, lowered = raised.message.partition(_LOWERED)
    stack = read_traceback(raised.user_code or lowered)
    said = known.gb_type if known else head.partition(_OPERANDS)[0]
    message = said if said.startswith(f"{raised.kind}: ") else f"{raised.kind}: {said}"
    line = next((at for at in reversed(stack) if is_own(at.file)), stack[-1] if stack else None)
    return Failure(NO_COMPILATION, known, message, line, text)


# LoweringException in torch/_inductor/exc.py: the op, what it is given, and the lines that it comes from.
_OPERANDS = "\n  args[0]: "
_LOWERED = "\nFound from : \n"


class _RaisedAt(Struct, frozen=True):
    """The innermost line of the user's that an error came through."""

    file: str = ""
    line: Count = 0
    function: str = ""
    code: str = ""


def read_call_error(
    event: Event, compile_id: CompileId, files: Mapping[int, str], texts: Texts = EACH_ITS_OWN
) -> tuple[Failure, ...]:
    """Read the error of a call without a frame: it has run the user's code, or torch says where it traced it."""
    at = shaped(_RaisedAt, event.meta)
    (failure,) = read_dynamo_error(event, compile_id, files, texts)
    line = failure.line or (SourceLine(at.file, at.line, at.function, at.code) if at.file else None)
    return (replace(failure, line=line),)


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
_FROM_USER_CODE = re.compile(r"(?<!\n)\n+from user code:\n")
_SETTINGS = re.compile(r"(?<!\n)\n+Set TORCHDYNAMO_VERBOSE=1 for .*\Z", re.DOTALL)


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
    message = _SETTINGS.sub("", found["message"] or "")
    asked = _FROM_USER_CODE.search(message)
    user_code = message[asked.end() :] if asked else ""
    return RaisedException(
        found["kind"].rpartition(".")[2], message[: asked.start() if asked else None].strip(), user_code
    )


# -- causes in the terms of torch's graph break registry, from the text that torch makes of them

# unimplemented() in torch/_dynamo/exc.py, for a break that came while handling another one.
_CHAIN = "\n\n*** While handling this graph break, another graph break occurred: ***\n\n"
# format_graph_break_message() there writes the block, augment_exc_message_with_hop_name() the operator. Every line of
# a value but its first is indented by four, so a name after two blanks is never part of a value.
_FIELD = re.compile(r"^  (Higher Order Operator|Explanation|Hint|Developer debug context):(?: |$)", re.MULTILINE)
_BLOCK = re.compile(r"^  Explanation:", re.MULTILINE)
_END = re.compile(r"\n(?=\S| {1,3}\S)")
_GB_LINK = re.compile(r"^ For more details about this graph break, please visit: \S*/gb(\d+)\.html", re.MULTILINE)


def read_causes(text: str, kind: str = "") -> tuple[BreakCause, ...]:
    """Return all causes that a text names, the root first.

    `kind` is the exception's class, for a cause without a block.
    """
    *others, last = text.split(_CHAIN)  # the exception is the last cause
    return (*(_cause(part, "") for part in others), _cause(last, kind))


def _cause(text: str, kind: str) -> BreakCause:
    block = _BLOCK.search(text)
    if block is None:  # a cause that the registry does not know: torch's own words, whole
        whole = text.strip()
        first_line = whole.partition("\n")[0].strip()
        return BreakCause(": ".join(part for part in (kind, first_line) if part), explanation=whole)
    fields: dict[str, list[str]] = defaultdict(list)
    found = list(_FIELD.finditer(text))
    for field, following in zip(found, [*found[1:], None], strict=True):
        value = text[field.end() : following.start() if following else len(text)]
        ends = _END.search(value)
        first, *rest = value[: ends.start() if ends else len(value)].split("\n")
        fields[field[1]].append("\n".join((first, *(line.removeprefix("    ") for line in rest))).strip())
    link = _GB_LINK.search(text, block.end())
    return BreakCause(
        # A sentence of Dynamo's may stand before the block; a gb_type is one line.
        text[: found[0].start()].removesuffix("\n").rpartition("\n")[2],
        f"GB{link[1]}" if link else None,
        "".join(fields["Explanation"][:1]),
        tuple(fields["Hint"]),
        "".join(fields["Developer debug context"][:1]),
        "".join(fields["Higher Order Operator"][:1]),
    )
