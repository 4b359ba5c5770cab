"""Why a frame was compiled again: the guard that failed, and the values that torch gives."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from msgspec import Struct

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
    """Read one recompile, with the failure of every entry that was there: the newest first, as torch lists them."""
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
    """What torch says in brackets after a guard's place; of a range's two bounds, after the first."""
    first, more, _ = text.removeprefix("(").partition(") and ")
    first = first if more else first.removesuffix(")")
    return "" if _TORCHS_LINE.fullmatch(first) else first.removeprefix("HINT: ")


# -- what a failed guard says: what it was on, the value it wanted and, sometimes, the one it got


class GuardValues(Struct, frozen=True):
    """What a guard was on, and its values as torch writes them; empty where torch does not say."""

    source: str = ""
    old: str = ""
    new: str = ""


_TENSOR = (
    r"tensor '(?P<source>.*)' [\w ]+ mismatch[^.]*\. [Ee]xpected "
    r"(?:requires_grad=|device index to be )?(?P<old>.*?)(?:, actual (?P<new>.*))?\Z"
)
# Sentences of torch/csrc/dynamo/guards.cpp and guards.py in torch/_dynamo; only these have the new value.
_SENTENCES = tuple(
    re.compile(pattern, re.DOTALL)
    for pattern in (
        _TENSOR,
        # torch 2.11 and 2.13 have a stray quote before "but".
        r"expected type of '(?P<source>.*)' to be (?P<old>.*?), '? ?but found (?P<new>.*)\Z",
        r"GLOBAL_STATE changed: (?P<source>.*)\Z",
        r"(?P<source>BACKEND_MATCH) failure:(?:.*?Cached backend: (?P<old>.*?)\. New backend: (?P<new>.*?)\. If this)?",
        # CacheEntry invalidated by a weak reference of its guards: invalidate() in torch/_dynamo/guards.py.
        r"Cache line invalidated because (?P<source>.*) got deallocated\Z",
        r"Duplicate tensors found: \[(?P<source>.*)\]",
        r"(?:KeyError on|IndexError on|getattr failed on source|\w+Accessor: [^\n]*? on) (?P<source>.*)\Z",
        # The guard is on an address; torch 2.11 prints the object after `type=`, later ones its type.
        r"___check_(?:obj|type)_id\((?P<source>.*), \d+\)(?:, type=(?P<old>.*))?\Z",
        # DictGuardManager says what it found false, not what it wants.
        r"(?P<source>len\(.*\)) != (?P<old>\d+)\Z",
    )
)

_STRING_OR_EQUALS = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"| == ", re.DOTALL)
_RANGE = re.compile(r"(?:(?P<low>-?\d+) <= )?(?P<source>[^<>=]+?)(?: <= (?P<high>-?\d+))?\Z")
_SIZE = re.compile(r"[\w.\[\]'\"]+\.(?:size|stride|storage_offset)\(\)(?:\[\d+\])?")
_IDENTITY = re.compile(r"(?P<source>\S+) is (?P<old>.+)\Z", re.DOTALL)
# SEQUENCE_LENGTH() in torch/_dynamo/guards.py writes `not x` for `len(x) == 0`.
_EMPTY = re.compile(r"not (?P<source>[\w.\[\]'\"]+)\Z")
_PREDICATE = re.compile(r"(?P<negated>not )?(?P<source>[\w.]+\(.*\))\Z", re.DOTALL)


def read_values(text: str) -> GuardValues:
    """Read the values in a failed guard, without its comment."""
    for sentence in _SENTENCES:
        if found := sentence.match(text):
            values = found.groupdict()
            return GuardValues(*((values.get(name) or "").strip() for name in ("source", "old", "new")))
    return _of_expression(text)


def _of_expression(text: str) -> GuardValues:
    equals = next((found for found in _STRING_OR_EQUALS.finditer(text) if found[0] == " == "), None)
    if equals:
        left, right = text[: equals.start()], text[equals.end() :]
        computed = _is_computed(left) or _SIZE.search(right) or "___as_tensor(" in right
        return _of_relation(text) if computed else GuardValues(left, right)
    if found := _IDENTITY.match(text):
        return GuardValues(found["source"], found["old"])
    if found := _EMPTY.match(text):
        return GuardValues(f"len({found['source']})", "0")
    if found := _PREDICATE.match(text):
        return GuardValues(found["source"], str(not found["negated"]))
    return _of_range(text) or _of_relation(text)


def _is_computed(side: str) -> bool:
    size = _SIZE.search(side)
    return bool(size and size[0] != side)


def _of_range(text: str) -> GuardValues | None:
    found = _RANGE.match(text)
    if found is None or not (found["low"] or found["high"]):
        return None
    bounds = ((">=", found["low"]), ("<=", found["high"]))
    return GuardValues(found["source"], ", ".join(f"{sign} {bound}" for sign, bound in bounds if bound))


def _of_relation(text: str) -> GuardValues:
    """Of a guard that computes: the first size in it."""
    found = _SIZE.search(text)
    return GuardValues(found[0]) if found else GuardValues()
