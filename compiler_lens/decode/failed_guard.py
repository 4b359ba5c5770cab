"""What a failed guard tells: what it was on, the value it wanted and, sometimes, the one it got."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GuardValues:
    """What a guard was on, and its values as torch writes them; empty where torch does not say."""

    source: str = ""
    old: str = ""
    new: str = ""


_TENSOR = (
    r"tensor '(?P<source>.*)' [\w ]+ mismatch[^.]*\. [Ee]xpected "
    r"(?:requires_grad=|device index to be )?(?P<old>.*?)(?:, actual (?P<new>.*))?\Z"
)
# Sentences of torch/csrc/dynamo/guards.cpp and guards.py in torch/_dynamo; only these tell the new value.
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
        # The guard is on an address; torch 2.11 prints the object behind `type=`, later ones its type.
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
    """The values in a failed guard, without its comment."""
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
