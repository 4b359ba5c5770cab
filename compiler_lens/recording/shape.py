"""Whether data from a file is what it should be: asked once, where it is read, so that what follows may rely on it."""

from __future__ import annotations

import json
from typing import Annotated, Any, TypeVar

from msgspec import Meta, ValidationError, convert

from compiler_lens.recording.errors import PayloadError

Value = TypeVar("Value")

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
        data = json.loads(text or "")
    except (ValueError, RecursionError) as error:
        raise PayloadError(f"no JSON that can be read: {error}") from error
    return shaped(kind, data)
