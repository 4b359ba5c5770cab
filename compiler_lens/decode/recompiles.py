"""Why a frame was compiled again: the guard that failed, and the values that torch tells of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from compiler_lens.decode.failed_guard import read_values
from compiler_lens.decode.stacks import read_comment, read_traceback, split_comment
from compiler_lens.recording.errors import PayloadError
from compiler_lens.recording.event import Event
from compiler_lens.recording.model import CompileId, GuardFailure, Recompile

# get_guard_fail_reason_helper() in torch/_dynamo/guards.py: "0/1: x == 3  # code  # app.py:3 in f", then the stack.
_ENTRY = re.compile(r"(\S+): ")
_STACK = "\nUser stack trace:\n"
# A remark that only names the line of torch that made the guard.
_TORCHS_LINE = re.compile(r"\S+:\d+ in \S+")


def read_recompiles(event: Event, compile_id: CompileId, _files: Mapping[int, str]) -> tuple[Recompile, ...]:
    """One recompile, with the failure of every entry that was there: the newest first, as torch lists them."""
    failures = tuple(_failure(reason) for reason in _reasons(event))
    return (Recompile(compile_id, failures),)


def _reasons(event: Event) -> list[str]:
    # trace_structured() sends one reason as it is and several as JSON, under the same name.
    text = event.text or ""
    if not text.startswith("["):
        return [text]
    try:
        reasons = json.loads(text)
    except ValueError as error:
        raise PayloadError(f"{event.name}: {error}") from error
    return [str(reason) for reason in reasons]


def _failure(reason: str) -> GuardFailure:
    entry = _ENTRY.match(reason)
    if entry is None:
        raise PayloadError(f"a recompile reason without a compile id: {reason[:80]!r}")
    said, _, stack = reason[entry.end() :].partition(_STACK)
    text, comment = split_comment(said)
    place, remark = read_comment(comment)
    values = read_values(text)
    return GuardFailure(
        entry[1],
        text,
        values.source,
        values.old,
        values.new,
        read_traceback(stack) or ((place,) if place else ()),
        _remark(remark),
    )


def _remark(text: str) -> str:
    """What torch says in brackets behind a guard's place; of a range's two bounds, behind the first."""
    first, more, _ = text.removeprefix("(").partition(") and ")
    first = first if more else first.removesuffix(")")
    return "" if _TORCHS_LINE.fullmatch(first) else first.removeprefix("HINT: ")
