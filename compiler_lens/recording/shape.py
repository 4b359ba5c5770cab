"""Whether data from a file is what it should be: asked once, where it is read, so that what follows may rely on it."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from msgspec import Meta, Raw, ValidationError, convert
from msgspec.json import decode

from compiler_lens.recording.errors import PayloadError

Value = TypeVar("Value")

MAX_NESTING = 200  # of arrays and objects in each other: torch and we write fewer than 20
MAX_VALUES = 1 << 20  # arrays, objects and strings of one line: torch and we write some thousands
DEEPEST = 400  # that it may be raised to: what is deeper cannot be written again, as Python has its own limit
_DEEPEST_PART = DEEPEST + 10  # of a saved recording, which has that in values of our own
MOST = 2**63 - 1  # that a number may be: what others keep in 64 bits
Whole = Annotated[int, Meta(ge=-MOST, le=MOST)]
Count = Annotated[int, Meta(ge=0, le=MOST)]  # of anything: lines, bytes, torch's own numbers
Figure = Annotated[float, Meta(ge=-MOST, le=MOST)]  # finite, and so is its square
Time = Annotated[float, Meta(ge=0, le=253_402_300_799)]  # seconds since the epoch, of a year with four digits
Scalar = bool | Whole | Figure | str | None


def shaped(kind: type[Value], data: Any) -> Value:
    """Return plain data as a value of this type, whose hints msgspec knows.

    Keys that are no field are passed over. Raises `PayloadError` that says where in *data* is something else.
    """
    try:
        return convert(data, kind)
    except ValidationError as error:
        raise PayloadError(str(error)) from error


def read_json(kind: type[Value], text: str | None) -> Value:
    """Return a text of JSON as a value of this type. Raises `PayloadError` where it is none."""
    try:
        return decode(text or "", type=kind)
    except ValidationError as error:
        raise PayloadError(str(error)) from error
    except (ValueError, RecursionError):  # msgspec knows neither NaN nor half characters, which Python writes
        pass
    try:
        data = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"no JSON that can be read: {error}") from error
    return shaped(kind, data)


def read_part(part: Raw) -> Any:
    """Return a part of a line of a journal as plain values. Raises `PayloadError` where it is none or too deep."""
    if len(memoryview(part)) > MAX_VALUES and holds_more(bytes(part), MAX_VALUES):
        raise PayloadError(f"it holds more than {MAX_VALUES:,} values")
    try:
        value = decode(part)
    except (ValueError, RecursionError):
        value = read_json(Any, bytes(part).decode("utf-8", "surrogatepass"))
    if nests_deeper(value, _DEEPEST_PART):
        raise PayloadError(f"nested more than {_DEEPEST_PART} deep")
    return value


def holds_more(data: bytes, most: int) -> bool:
    """Return whether a JSON text holds more arrays, objects and strings: each takes up to twenty times its bytes."""
    return len(data) > most and data.count(b"[") + data.count(b"{") + data.count(b'"') // 2 > most


def nests_deeper(value: Any, most: int) -> bool:
    """Return whether arrays and objects stand in each other more than so deep in a value that was JSON."""
    level = [value]
    for _ in range(most):
        inner = [each.values() if type(each) is dict else each for each in level]
        level = [item for each in inner for item in each if type(item) in (dict, list)]
        if not level:
            return False
    return True
